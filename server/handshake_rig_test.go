package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// everything is what a client declares that can do all there is.
const everything = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{"listChanged":true}}`

// legacyClient speaks MCP of the handshake era over HTTP, message by message.
type legacyClient struct {
	t       testing.TB
	url     string
	session string
	version string
	header  http.Header // for every request
	http    *http.Client
}

func initializeMessage(version, capabilities string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"test","version":"1"}}}`, version, capabilities)
}

// connect opens a session.
func (r *rig) connect(version, capabilities string, change ...func(*legacyClient)) *legacyClient {
	r.t.Helper()
	c := &legacyClient{t: r.t, url: r.url + "/mcp", version: version, header: http.Header{}, http: r.client()}
	for _, f := range change {
		f(c)
	}
	resp := c.request(http.MethodPost, initializeMessage(version, capabilities), nil)
	body := readAll(r.t, resp)
	require.Equal(r.t, 200, resp.StatusCode, body)
	c.session = resp.Header.Get("Mcp-Session-Id")
	require.NotEmpty(r.t, c.session)
	require.Equal(r.t, 202, c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`).StatusCode)
	return c
}

func readAll(t testing.TB, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(b)
}

func (c *legacyClient) request(method, body string, change func(*http.Request)) *http.Response {
	c.t.Helper()
	req, err := http.NewRequest(method, c.url, strings.NewReader(body))
	require.NoError(c.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("MCP-Protocol-Version", c.version)
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	if change != nil {
		change(req)
	}
	resp, err := c.http.Do(req)
	require.NoError(c.t, err)
	return resp
}

func (c *legacyClient) post(message string) *http.Response {
	c.t.Helper()
	return c.request(http.MethodPost, message, nil)
}

// ask posts a message and returns the response, however it comes: on a machine
// that is busy anything may take long enough for a stream.
func (c *legacyClient) ask(message string) string {
	c.t.Helper()
	resp := c.post(message)
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		return c.read(resp).wait("").data
	}
	body := readAll(c.t, resp)
	require.Equal(c.t, 200, resp.StatusCode, body)
	require.Equal(c.t, "application/json", resp.Header.Get("Content-Type"), body)
	return body
}

// stream posts a message and returns the event stream that answers it.
func (c *legacyClient) stream(message string) *sseReader {
	c.t.Helper()
	return c.read(c.post(message))
}

// get opens the stream that belongs to no request, or resumes one.
func (c *legacyClient) get(lastEventID string) *sseReader {
	c.t.Helper()
	return c.read(c.request(http.MethodGet, "", func(r *http.Request) {
		if lastEventID != "" {
			r.Header.Set("Last-Event-ID", lastEventID)
		}
	}))
}

func (c *legacyClient) read(resp *http.Response) *sseReader {
	c.t.Helper()
	if resp.StatusCode != 200 {
		require.Fail(c.t, "no stream", "%d %s", resp.StatusCode, readAll(c.t, resp))
	}
	if ct := resp.Header.Get("Content-Type"); ct != "text/event-stream" {
		require.Fail(c.t, "no stream", "%s %s", ct, readAll(c.t, resp))
	}
	s := &sseReader{t: c.t, body: resp.Body, in: bufio.NewReader(resp.Body)}
	c.t.Cleanup(s.close)
	return s
}

// reply posts a response to a request of the server.
func (c *legacyClient) reply(id json.RawMessage, result string) {
	c.t.Helper()
	resp := c.post(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`)
	assert.Empty(c.t, readAll(c.t, resp))
	assert.Equal(c.t, 202, resp.StatusCode)
}

// vain posts a response that nothing waits for.
func (c *legacyClient) vain(id json.RawMessage, result string) {
	c.t.Helper()
	resp := c.post(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`)
	named := "null" // unless it can be a question's
	if n, err := strconv.ParseInt(string(id), 10, 64); err == nil && n >= 1<<52 {
		named = string(id)
	}
	assert.Contains(c.t, readAll(c.t, resp), `{"jsonrpc":"2.0","id":`+named+`,"error":{"code":-32600,"message":"nothing waits here for this answer`)
	assert.Equal(c.t, 400, resp.StatusCode)
}

func (c *legacyClient) fail(id json.RawMessage, code int, text string) {
	c.t.Helper()
	resp := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, text))
	assert.Empty(c.t, readAll(c.t, resp))
	assert.Equal(c.t, 202, resp.StatusCode)
}

// toolCall is the message that calls a tool.
func toolCall(id int, name, args string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":"p%d"}}}`, id, name, args, id)
}

// sseReader reads server-sent events.
type sseReader struct {
	t    testing.TB
	body io.ReadCloser
	in   *bufio.Reader
}

// sseEvent is an event as it was on the wire.
type sseEvent struct {
	id, retry, data string
	legacyMessage
}

// legacyMessage is any JSON-RPC message.
type legacyMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

func (s *sseReader) close() { s.body.Close() }

// next returns the next event, or io.EOF at the stream's end. Comments are skipped.
func (s *sseReader) next() (sseEvent, error) {
	var e sseEvent
	any := false
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return e, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			e.id, any = value, true
		case "retry":
			e.retry, any = value, true
		case "data":
			require.Empty(s.t, e.data, "an event is one line of data")
			e.data, any = value, true
		case "":
			if line == "" && any {
				if e.data != "" {
					require.NoError(s.t, json.Unmarshal([]byte(e.data), &e.legacyMessage), e.data)
				}
				return e, nil
			}
		default:
			require.Fail(s.t, "unknown field", "%q", line)
		}
	}
}

// message returns the next event that is a message.
func (s *sseReader) message() sseEvent {
	s.t.Helper()
	for {
		e, err := s.next()
		require.NoError(s.t, err)
		if e.data != "" {
			return e
		}
	}
}

// wait returns the next message of that method; "" is the response. Others fail
// the test unless they are notifications.
func (s *sseReader) wait(method string) sseEvent {
	s.t.Helper()
	for {
		e := s.message()
		if e.Method == method {
			return e
		}
		require.True(s.t, e.Method != "" && e.ID == nil, "unexpected %s", e.data)
	}
}

// end checks that the stream is over.
func (s *sseReader) end() {
	s.t.Helper()
	e, err := s.next()
	assert.Equal(s.t, io.EOF, err, "%+v", e)
}

// text is the text of a CallToolResult.
func text(t testing.TB, result json.RawMessage) (text string, isError bool) {
	t.Helper()
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	require.NoError(t, json.Unmarshal(result, &r), string(result))
	var all []string
	for _, c := range r.Content {
		all = append(all, c.Text)
	}
	return strings.Join(all, "\n"), r.IsError
}

func parseLegacy(t testing.TB, raw string) legacyMessage {
	t.Helper()
	var m legacyMessage
	require.NoError(t, json.Unmarshal([]byte(raw), &m), raw)
	return m
}

// until waits for something that happens soon, unless the machine has much else to do.
func until(t testing.TB, happened func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !happened() {
		require.NoError(t, ctx.Err(), "it has not happened")
		time.Sleep(time.Millisecond)
	}
}
