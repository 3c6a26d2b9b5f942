package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// object is JSON as tests write it.
type object = map[string]any

// allCapabilities declares everything that steps can need.
var allCapabilities = object{
	"elicitation": object{"form": object{}, "url": object{}},
	"sampling":    object{"tools": object{}, "context": object{}},
	"roots":       object{},
}

const (
	versionMeta      = "io.modelcontextprotocol/protocolVersion"
	capabilitiesMeta = "io.modelcontextprotocol/clientCapabilities"
	logLevelMeta     = "io.modelcontextprotocol/logLevel"
	subscriptionMeta = "io.modelcontextprotocol/subscriptionId"
)

// request is a request of MCP 2026-07-28 with all that it needs, for tests to
// change.
type request struct {
	id     any
	method string
	params object
	meta   object
	header http.Header
}

func modernRequest(method string, params object) *request {
	r := &request{id: 1, method: method, params: object{}, header: http.Header{}}
	for k, v := range params {
		r.params[k] = v
	}
	r.meta = object{versionMeta: "2026-07-28", capabilitiesMeta: object{}}
	r.header.Set("Content-Type", "application/json")
	r.header.Set("Accept", "application/json, text/event-stream")
	r.header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.header.Set("Mcp-Method", method)
	for _, name := range []string{"name", "uri"} {
		if v, ok := params[name].(string); ok && method != "completion/complete" {
			r.header.Set("Mcp-Name", v)
		}
	}
	return r
}

func callTool(name string, args object) *request {
	params := object{"name": name}
	if args != nil {
		params["arguments"] = args
	}
	return modernRequest("tools/call", params)
}

// with sets what the client can do.
func (r *request) with(capabilities object) *request {
	r.meta[capabilitiesMeta] = capabilities
	return r
}

// answering makes the request a retry.
func (r *request) answering(state string, responses object) *request {
	if state != "" {
		r.params["requestState"] = state
	}
	if responses != nil {
		r.params["inputResponses"] = responses
	}
	return r
}

func (r *request) body() string {
	params := object{}
	for k, v := range r.params {
		params[k] = v
	}
	if r.meta != nil {
		params["_meta"] = r.meta
	}
	message := object{"jsonrpc": "2.0", "method": r.method, "params": params}
	if r.id != nil {
		message["id"] = r.id
	}
	raw, err := json.Marshal(message)
	if err != nil {
		panic(err) // tests only put in what encodes
	}
	return string(raw)
}

// response is what came back: the messages before the last, and the last.
type response struct {
	status int
	header http.Header
	before []rpcMessage
	rpcMessage
}

// rpcMessage is any message from the server, as it was and as it is read.
type rpcMessage struct {
	raw string
	legacyMessage
}

func (m rpcMessage) code() int {
	if m.Error == nil {
		return 0
	}
	return m.Error.Code
}

// modernResult is any result of the stateless era.
type modernResult struct {
	ResultType    string `json:"resultType"`
	InputRequests map[string]struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	} `json:"inputRequests"`
	RequestState string `json:"requestState"`
	IsError      bool   `json:"isError"`
	Content      []struct {
		Text string `json:"text"`
	} `json:"content"`
	Contents []struct {
		Text string `json:"text"`
	} `json:"contents"`
	Messages []struct {
		Content struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"messages"`
	Meta map[string]json.RawMessage `json:"_meta"`
}

func (m rpcMessage) result(t testing.TB) modernResult {
	t.Helper()
	require.NotNil(t, m.Result, m.raw)
	var r modernResult
	require.NoError(t, json.Unmarshal(m.Result, &r))
	return r
}

// text is what a finished tool, prompt or resource says.
func (r modernResult) text() string {
	switch {
	case len(r.Content) > 0:
		return r.Content[0].Text
	case len(r.Contents) > 0:
		return r.Contents[0].Text
	case len(r.Messages) > 0:
		return r.Messages[0].Content.Text
	}
	return ""
}

func parseMessage(t testing.TB, raw string) rpcMessage {
	t.Helper()
	require.True(t, jsontext.Value(raw).IsValid(), "no JSON, or a name occurs twice: %s", raw)
	require.NotContains(t, raw, "\n")
	m := rpcMessage{raw: raw}
	require.NoError(t, json.Unmarshal([]byte(raw), &m), raw)
	return m
}

func (r *rig) httpRequest(ctx context.Context, q *request) *http.Request {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/mcp", strings.NewReader(q.body()))
	require.NoError(r.t, err)
	req.Header = q.header
	return req
}

// send posts a request and reads the whole response, of either form.
func (r *rig) send(q *request) response {
	r.t.Helper()
	resp, err := r.client().Do(r.httpRequest(r.t.Context(), q))
	require.NoError(r.t, err)
	defer resp.Body.Close()
	out := response{status: resp.StatusCode, header: resp.Header}
	if resp.Header.Get("Content-Type") == "text/event-stream" {
		events := &eventReader{r.t, bufio.NewReader(resp.Body)}
		for {
			m, ok := events.next()
			if !ok {
				break
			}
			out.before = append(out.before, m)
		}
		require.NotEmpty(r.t, out.before)
		last := len(out.before) - 1
		out.rpcMessage, out.before = out.before[last], out.before[:last]
		return out
	}
	b, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	if len(b) > 0 {
		out.rpcMessage = parseMessage(r.t, string(b))
	}
	return out
}

// eventReader reads a stream of events: each one line of data.
type eventReader struct {
	t testing.TB
	r *bufio.Reader
}

// next returns the next message, or false at the end.
func (e *eventReader) next() (rpcMessage, bool) {
	e.t.Helper()
	for {
		line, err := e.r.ReadString('\n')
		if err != nil {
			return rpcMessage{}, false
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, ":") {
			continue
		}
		data, ok := strings.CutPrefix(line, "data: ")
		require.True(e.t, ok, "a line that is neither data nor a comment: %q", line)
		return parseMessage(e.t, data), true
	}
}
