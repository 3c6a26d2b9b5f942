package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/server"
)

// polled looks at an operation, and returns what was asked on the way.
func (c *legacyClient) polled(token string) (status operationStatus, asked []legacyMessage) {
	c.t.Helper()
	resp := c.post(asyncMessage(91, "status", token))
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		return decoded[operationStatus](c.t, readAll(c.t, resp)), nil
	}
	s := c.read(resp)
	for {
		e := s.message()
		if e.Method == "" {
			s.end()
			return decoded[operationStatus](c.t, e.data), asked
		}
		asked = append(asked, e.legacyMessage)
	}
}

// asks polls until the operation has asked so many questions.
func (c *legacyClient) asks(token string, n int) (all []legacyMessage) {
	c.t.Helper()
	until(c.t, func() bool {
		status, asked := c.polled(token)
		if len(asked) > 0 {
			assert.Equal(c.t, "input_required", status.Status)
		}
		all = append(all, asked...)
		return len(all) >= n
	})
	return all
}

func operationToken(t testing.TB, params json.RawMessage) string {
	t.Helper()
	var p struct {
		Operation struct{ Token string } `json:"_operation"`
		Message   string
	}
	require.NoError(t, json.Unmarshal(params, &p))
	require.NotEmpty(t, p.Message, "the question itself")
	return p.Operation.Token
}

// acceptedFor is the answer to a form, for an operation.
func acceptedFor(token, content string) string {
	return fmt.Sprintf(`{"_operation":{"token":%q},"action":"accept","content":%s}`, token, content)
}

func TestOperationAsksInItsSession(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			r := newAsyncRig(t)
			c := r.connect(version, asyncTools, byUser("ann"))
			c.begin(1, "both", `{}`, "t")
			asked := c.asks("t", 2)
			require.Len(t, asked, 2)
			for _, q := range asked {
				assert.Equal(t, "elicitation/create", q.Method)
				assert.Equal(t, "t", operationToken(t, q.Params))
			}
			status, again := c.polled("t")
			assert.Equal(t, "input_required", status.Status)
			assert.Empty(t, again, "each is asked once")
			assert.Empty(t, status.InputRequests, "in sessions there are requests")

			// What does not say which operation it is of is not taken, and asked again.
			for _, bad := range []string{`{"action":"accept","content":{"nick":"Bob"}}`, acceptedFor("other", `{"nick":"Bob"}`)} {
				resp := c.post(`{"jsonrpc":"2.0","id":` + string(asked[0].ID) + `,"result":` + bad + `}`)
				assert.Contains(t, readAll(t, resp), "_operation.token")
				assert.Equal(t, 400, resp.StatusCode)
				resp = c.post(`{"jsonrpc":"2.0","id":` + string(asked[0].ID) + `,"result":{"action":"accept","content":{"nick":"Bob"}}}`)
				assert.Contains(t, readAll(t, resp), "_operation.token", "before it is asked again, too")
				_, more := c.polled("t")
				require.Len(t, more, 1)
				assert.Equal(t, asked[0].ID, more[0].ID)
			}
			c.reply(asked[0].ID, acceptedFor("t", `{"nick":"Ann"}`))
			status, more := c.polled("t")
			assert.Equal(t, "input_required", status.Status, "another one is open")
			assert.Empty(t, more)
			c.vain(asked[0].ID, acceptedFor("t", `{"nick":"Late"}`)) // it is answered, and stays so
			c.reply(asked[1].ID, acceptedFor("t", `{"sure":true}`))
			c.reaches("t", "completed")
			assert.Contains(t, c.ask(asyncMessage(5, "result", "t")), "Ann: true")
		})
	}
}

// A second session of the principal can be asked too; what it does not need to answer any more it
// is told.
func TestOperationAsksInAnotherSession(t *testing.T) {
	r := newAsyncRig(t)
	c := r.connect("2025-11-25", asyncTools, byUser("ann"))
	c.begin(1, "twice", `{}`, "t")
	first := c.asks("t", 1)
	other := r.connect("2025-11-25", asyncTools, byUser("ann"))
	second := other.asks("t", 1)
	assert.Equal(t, first[0].ID, second[0].ID)
	other.reply(second[0].ID, acceptedFor("t", `{"sure":true}`))
	var told []legacyMessage
	until(t, func() bool {
		_, asked := c.polled("t")
		told = append(told, asked...)
		return len(told) >= 2
	})
	assert.Equal(t, "notifications/cancelled", told[0].Method)
	assert.Contains(t, string(told[0].Params), `"requestId":`+string(first[0].ID))
	assert.Contains(t, string(told[0].Params), `"_operation":{"token":"t"}`)
	assert.Equal(t, "elicitation/create", told[1].Method)
	assert.NotEqual(t, first[0].ID, told[1].ID)
	c.fail(told[1].ID, -32000, "no form today")
	c.reaches("t", "completed")
	assert.Contains(t, c.ask(asyncMessage(5, "result", "t")), `"isError":true`)
}

// Nobody else's answer counts, whatever it says.
func TestOperationTakesNobodyElsesAnswer(t *testing.T) {
	r := newAsyncRig(t)
	ann := r.connect("2025-11-25", asyncTools, byUser("ann"))
	ann.begin(1, "twice", `{}`, "t")
	asked := ann.asks("t", 1)
	bob := r.connect("2025-11-25", asyncTools, byUser("bob"))
	bob.vain(asked[0].ID, acceptedFor("t", `{"sure":true}`))
	assert.Equal(t, "input_required", ann.status("t").Status)
	bob.begin(1, "twice", `{}`, "t") // under the same token
	theirs := bob.asks("t", 1)
	bob.reply(theirs[0].ID, acceptedFor("t", `{"sure":true}`))
	assert.Equal(t, "input_required", ann.status("t").Status)
}

func TestOperationIsCancelledByNobodyElse(t *testing.T) {
	r := newAsyncRig(t)
	ann := r.connect("2025-11-25", asyncTools, byUser("ann"))
	ann.begin(7, "nap", `{"millis":60000}`, "t")
	cancelled := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`
	for name, c := range map[string]*legacyClient{
		"another principal": r.connect("2025-11-25", asyncTools, byUser("bob")),
		"another session":   r.connect("2025-11-25", asyncTools, byUser("ann")),
	} {
		require.Equal(t, http.StatusAccepted, c.post(cancelled).StatusCode)
		assert.NotEqual(t, "canceled", ann.status("t").Status, name)
	}
	for _, other := range []string{`8`, `"7"`, `70`} {
		ann.post(strings.Replace(cancelled, "7}", other+"}", 1))
		assert.NotEqual(t, "canceled", ann.status("t").Status, other)
	}
	ann.post(cancelled)
	assert.Equal(t, "canceled", ann.status("t").Status)
	ann.post(cancelled)
	ann.reaches("t", "canceled")
	ann.begin(9, "twice", `{}`, "asks")
	asked := ann.asks("asks", 1)
	ann.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
	assert.Equal(t, "canceled", ann.status("asks").Status)
	ann.vain(asked[0].ID, acceptedFor("asks", `{"sure":true}`))
	assert.Equal(t, "canceled", ann.status("asks").Status, "also when an answer comes")
}

// unguessable is a token for who is not known.
const unguessable = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"

func TestOperationsOfTheUnknown(t *testing.T) {
	r := newAsyncRig(t, func(o *server.Options) { o.Authenticate = nil })
	c := r.connect("2025-11-25", asyncTools)
	code, hint := c.refused(operation(1, "nap", `{}`, `{"token":"short"}`))
	assert.Equal(t, -32602, code)
	assert.Contains(t, hint, "at least 22 characters")
	c.begin(2, "nap", `{"millis":1}`, unguessable)
	c.reaches(unguessable, "completed")
	other := r.connect("2025-11-25", asyncTools)
	code, text := other.refused(asyncMessage(3, "status", unguessable))
	assert.Equal(t, -32602, code, "it belongs to the session")
	assert.Contains(t, text, "not found")
	other.begin(4, "nap", `{}`, unguessable)
	m := r.send(modernRequest("tools/async/status", object{"token": unguessable}))
	assert.Equal(t, -32602, m.code())
}

// What a session has begun is found by it also while there is no room in memory for it.
func TestOperationsOfASessionWithoutRoom(t *testing.T) {
	r := newAsyncRig(t, func(o *server.Options) {
		o.Authenticate, o.MaxSessionsPerPrincipal = nil, 1
		o.Tools = append(o.Tools, legacyDefinitions()...)
		o.CallerKey = func(*http.Request) string { return "one address" }
	})
	c := r.connect("2025-11-25", asyncTools)
	c.begin(1, "hour", `{}`, unguessable)
	c.reaches(unguessable, "completed")
	busy := r.connect("2025-11-25", everything)
	busy.stream(toolCall(1, "complex_tool", `{}`)).wait("elicitation/create")
	assert.Equal(t, "completed", c.status(unguessable).Status)
	_, text := c.refused(operation(2, "hour", `{}`, fmt.Sprintf(`{"token":%q}`, unguessable)))
	assert.Contains(t, text, "was begun before")
}

// In MCP 2026-07-28 the questions are in the status, and a call brings the answers.
func TestOperationsOfModernClients(t *testing.T) {
	for name, change := range map[string]func(*server.Options){"known": func(*server.Options) {}, "unknown": func(o *server.Options) { o.Authenticate = nil }} {
		t.Run(name, func(t *testing.T) {
			r := newAsyncRig(t, change)
			status := func() (s operationStatus) {
				m := r.send(modernRequest("tools/async/status", object{"token": unguessable}))
				require.Nil(t, m.Error, m.raw)
				require.NoError(t, json.Unmarshal(m.Result, &s))
				assert.Equal(t, "complete", s.ResultType)
				return s
			}
			call := func(operation object) *request {
				q := callTool("both", nil).with(allCapabilities)
				q.params["operation"] = operation
				return q
			}
			var begun operationResult
			m := r.send(call(object{"token": unguessable}))
			require.Nil(t, m.Error, m.raw)
			require.NoError(t, json.Unmarshal(m.Result, &begun))
			assert.Equal(t, "complete", begun.ResultType)
			assert.Contains(t, m.raw, "io.modelcontextprotocol/serverInfo")
			until(t, func() bool { return status().Status == "input_required" })
			var asked map[string]struct{ Method string }
			require.NoError(t, json.Unmarshal(status().InputRequests, &asked))
			assert.Len(t, asked, 2)
			assert.Equal(t, "elicitation/create", asked["nick"].Method)

			answer := func(token, tool string, responses any) response {
				q := callTool(tool, nil).with(allCapabilities)
				q.params["operation"], q.params["inputResponses"] = object{"token": token}, responses
				return r.send(q)
			}
			assert.Equal(t, -32602, answer(unguessable+"x", "both", object{}).code(), "it begins nothing")
			assert.Equal(t, -32602, answer(unguessable, "twice", object{}).code(), "of another tool")
			assert.Equal(t, -32602, answer(unguessable, "both", []any{}).code())
			assert.Equal(t, -32602, answer(unguessable, "both", object{"nick": 7}).code())
			assert.Equal(t, -32602, answer(unguessable, "both", object{"nick": object{"action": "perhaps"}}).code())
			assert.Nil(t, answer(unguessable, "both", object{"unknown": formed(object{}), "nick": formed(object{"nick": "Ann"})}).Error)
			assert.NotContains(t, string(status().InputRequests), `"nick"`)
			assert.Nil(t, answer(unguessable, "both", object{"sure": formed(object{"sure": true})}).Error)
			until(t, func() bool { return status().Status == "completed" })
			for range 2 {
				m = r.send(modernRequest("tools/async/result", object{"token": unguessable}))
				assert.Contains(t, m.raw, "Ann: true")
			}
			assert.Equal(t, -32602, r.send(call(object{"token": unguessable})).code(), "used")
			wrong := modernRequest("tools/async/status", object{"token": unguessable})
			wrong.header.Set("Mcp-Method", "tools/list")
			assert.Equal(t, -32020, r.send(wrong).code(), "the revision's rules hold")
			bare := modernRequest("tools/async/status", object{"token": unguessable})
			bare.meta = object{versionMeta: "2026-07-28"}
			assert.Equal(t, -32602, r.send(bare).code())
			for _, id := range []string{"1", "2"} {
				r.do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`, nil)
			}
		})
	}
}

// A client of 2026-07-28 has no session by which its requests are known: it names the token.
func TestModernOperationIsCancelledByItsToken(t *testing.T) {
	r := newAsyncRig(t)
	q := callTool("nap", object{"millis": 60000})
	q.params["operation"] = object{"token": "t"}
	require.Nil(t, r.send(q).Error)
	status := func() string {
		return string(r.send(modernRequest("tools/async/status", object{"token": "t"})).Result)
	}
	notify := func(params, version string) {
		code, body := r.do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":`+params+`}`, func(r *http.Request) {
			if version != "" {
				r.Header.Set("Mcp-Protocol-Version", version)
			}
		})
		require.Equal(t, 202, code, body)
	}
	notify(`{"requestId":1}`, "2026-07-28")
	notify(`{"requestId":1,"_operation":{"token":"other"}}`, "2026-07-28")
	assert.NotContains(t, status(), "canceled")
	notify(`{"requestId":1,"_operation":{"token":"t"}}`, "2026-07-28")
	assert.Contains(t, status(), `"canceled"`)
	q.params["operation"] = object{"token": "u"}
	require.Nil(t, r.send(q).Error)
	notify(`{"requestId":1,"_operation":{"token":"u"}}`, "")
	assert.Contains(t, string(r.send(modernRequest("tools/async/status", object{"token": "u"})).Result), `"canceled"`)
}

// asyncPipe is a connection of lines with a ledger.
func asyncPipe(t *testing.T, s *server.Server) *legacyPipe {
	t.Helper()
	in, write := io.Pipe()
	read, out := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	c := &legacyPipe{t: t, srv: s, in: write, out: bufio.NewScanner(read), read: read, stop: stop, ended: make(chan error, 1)}
	go func() { c.ended <- s.ServeStdio(ctx, in, out); out.Close() }()
	t.Cleanup(func() {
		stop()
		write.Close()
		go io.Copy(io.Discard, read)
		assert.NoError(t, <-c.ended)
	})
	c.send(initializeMessage("2025-11-25", asyncTools))
	c.message()
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

// polled is as that of HTTP: what is asked comes before the status.
func (c *legacyPipe) polled(token string) (status operationStatus, asked []legacyMessage) {
	c.t.Helper()
	c.send(asyncMessage(91, "status", token))
	for {
		line := c.line()
		m := parseLegacy(c.t, line)
		if string(m.ID) == "91" {
			return decoded[operationStatus](c.t, line), asked
		}
		asked = append(asked, m)
	}
}

func TestOperationOnLines(t *testing.T) {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{Tools: taskTools(), Keys: keys, Ledger: store})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	c := asyncPipe(t, s)
	c.send(operation(1, "nap", `{}`, `{"token":"short"}`))
	assert.Equal(t, -32602, c.message().Error.Code)
	c.send(operation(2, "twice", `{}`, `{"token":"`+unguessable+`"}`))
	require.Nil(t, c.message().Error)
	next := func(of *legacyPipe) (q legacyMessage) {
		t.Helper()
		until(t, func() bool {
			_, asked := of.polled(unguessable)
			if len(asked) > 0 {
				q = asked[0]
			}
			return len(asked) > 0
		})
		return q
	}
	q := next(c)
	assert.Equal(t, unguessable, operationToken(t, q.Params))
	status, asked := c.polled(unguessable)
	assert.Equal(t, "input_required", status.Status)
	assert.Empty(t, asked)
	c.reply(q, `{"action":"accept","content":{"sure":true}}`) // of no operation
	assert.Equal(t, q.ID, next(c).ID)
	c.reply(q, acceptedFor(unguessable, `{"sure":true}`))
	other := asyncPipe(t, s) // the client comes back
	q = next(other)
	other.reply(q, acceptedFor(unguessable, `{"sure":true}`))
	until(t, func() bool {
		status, asked := other.polled(unguessable)
		for _, q := range asked { // it may have come before the answer on the other connection was taken
			other.reply(q, acceptedFor(unguessable, `{"sure":true}`))
		}
		return status.Status == "completed"
	})

	// A request's id is known on its own connection.
	token := strings.ToUpper(unguessable)
	c.send(operation(5, "nap", `{"millis":60000}`, `{"token":"`+token+`"}`))
	require.Nil(t, c.message().Error)
	other.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	status, _ = other.polled(token)
	assert.NotEqual(t, "canceled", status.Status)
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	status, _ = c.polled(token)
	assert.Equal(t, "canceled", status.Status)
}
