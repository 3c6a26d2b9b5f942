package ways

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// object is JSON as tests write it.
type object = map[string]any

// message is any JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Message) }

// errBroken: the connection was lost, or the server was not there. What the client does next is
// its protocol's business.
var errBroken = errors.New("the connection is broken")

// patience is how long a client tries.
const patience = time.Minute

// caller sends messages to the server, over HTTP each on a connection of its own.
type caller struct {
	*life
	header  http.Header
	session string
	ids     int
	// heard gets what comes before a response.
	heard func(message) error
	// mark is the id of the last event that came over HTTP.
	mark string
	// lines is the connection, and hello opens each, if the server is a child of the client's.
	lines *lines
	hello func() error
}

func (c *caller) post(m object) (*http.Response, error) {
	m["jsonrpc"] = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return c.do(http.MethodPost, body)
}

// do sends a request over HTTP; one without a body goes on after the last event.
func (c *caller) do(method string, body []byte) (*http.Response, error) {
	r, err := http.NewRequest(method, c.urls[0], bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Close = true
	r.Header = c.header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	if c.user != "" {
		r.Header.Set("User", c.user)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	} else {
		r.Header.Set("Last-Event-ID", c.mark)
	}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	return resp, nil
}

// request sends a request and returns what came of it. name is what the moments before and after
// are called; none if it is empty.
func (c *caller) request(name, method string, params object) (json.RawMessage, error) {
	c.ids++
	return c.requestWith(c.ids, name, method, params)
}

func (c *caller) requestWith(id any, name, method string, params object) (json.RawMessage, error) {
	if name != "" {
		c.event("before " + name)
	}
	m, err := c.exchange(object{"id": id, "method": method, "params": params})
	return c.came(m, err, name)
}

// came is what came of a request.
func (c *caller) came(m message, err error, name string) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	if m.Error != nil {
		return nil, m.Error
	}
	if name != "" {
		c.event("after " + name)
	}
	return m.Result, nil
}

// exchange sends a request and reads until it is answered.
func (c *caller) exchange(m object) (message, error) {
	if c.overLines {
		return c.exchangeLines(m)
	}
	resp, err := c.post(m)
	if err != nil {
		return message{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	return c.response(resp)
}

// goOn goes on with the stream that broke, at any server.
func (c *caller) goOn(name string) (json.RawMessage, error) {
	c.event("before " + name)
	resp, err := c.do(http.MethodGet, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	m, err := c.response(resp)
	return c.came(m, err, name)
}

// reply answers a request of the server's; accepted is false if nobody waits for that.
func (c *caller) reply(m object) (accepted bool, err error) {
	if c.overLines {
		err = c.lines.write(m)
		return err == nil, err
	}
	resp, err := c.post(m)
	if err != nil {
		return false, err
	}
	return resp.StatusCode == http.StatusAccepted, resp.Body.Close()
}

// response reads the messages of a response; the last of them is returned.
func (c *caller) response(resp *http.Response) (m message, err error) {
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			return m, fmt.Errorf("%w: %w", errBroken, err)
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return m, fmt.Errorf("%s: %q: %w", resp.Status, raw, err)
		}
		return m, nil
	}
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return m, fmt.Errorf("%w: %w", errBroken, err)
		}
		line = strings.TrimSpace(line)
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			c.mark = id
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || data == "" {
			continue
		}
		m = message{}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			return m, err
		}
		if m.Method == "" {
			return m, nil
		}
		if err := c.heard(m); err != nil {
			return m, err
		}
	}
}

// questionIn names a question by its text.
func questionIn(params json.RawMessage) string {
	if bytes.Contains(params, []byte(askWho.Message)) {
		return "who"
	}
	return "sure"
}

// answerTo is the answer of the user, who is always the same.
func answerTo(question string) object {
	if question == "who" {
		return object{"action": "accept", "content": object{"name": "Ada"}}
	}
	return object{"action": "accept", "content": object{"sure": true}}
}

// textOf is all text of a result, which must be none of an error.
func textOf(result json.RawMessage) (string, error) {
	var r struct {
		IsError bool                    `json:"isError"`
		Content []struct{ Text string } `json:"content"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return "", err
	}
	if r.IsError || len(r.Content) == 0 {
		return "", fmt.Errorf("a bad end: %s", result)
	}
	return r.Content[0].Text, nil
}

// again does something until it has not failed for a broken connection.
func (c *caller) again(do func() (json.RawMessage, error)) (result json.RawMessage, err error) {
	for {
		if result, err = do(); !errors.Is(err, errBroken) && !tryAgain(err) {
			return result, err
		}
		if time.Since(c.began) > patience {
			return nil, fmt.Errorf("in vain for %v: %w", patience, err)
		}
		c.urls = append(c.urls[1:], c.urls[0]) // elsewhere, if there is more than one
		time.Sleep(50 * time.Millisecond)
	}
}

// tryAgain reports whether a server has asked for that.
func tryAgain(err error) bool {
	var refused *rpcError
	return errors.As(err, &refused) && refused.Code == -31503
}

// pause waits a little before the client looks again.
func (c *caller) pause() error {
	if time.Since(c.began) > patience {
		return fmt.Errorf("nothing comes of it for %v", patience)
	}
	time.Sleep(50 * time.Millisecond)
	return nil
}

// keyed is what has a first call mean the same when it is sent again.
func (l *life) keyed() object { return object{"io.github.mcpsaga/idempotencyKey": "key-" + l.order} }

func (l *life) call(tool string) object {
	return object{"name": tool, "arguments": object{"order": l.order}, "_meta": l.keyed()}
}

// plainCall is a call that can be recognised by nothing but the id of its request.
func (l *life) plainCall(tool string) object {
	return object{"name": tool, "arguments": object{"order": l.order}}
}
