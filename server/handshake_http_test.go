package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

const listTools = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func TestHandshakeSessions(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	c := r.connect("2025-11-25", everything)
	assert.Regexp(t, `^[\x21-\x7e]{20,}$`, c.session)
	assert.NotEqual(t, c.session, r.connect("2025-11-25", everything).session)
	call := toolCall(1, "sum", `{}`)
	tests := []struct {
		name, method, body string
		header             map[string]string // "-" is none
		status             int
		want               string
	}{
		{"as it should be", "POST", call, nil, 200, `"sum":3`},
		{"no version", "POST", call, map[string]string{"Mcp-Protocol-Version": "-"}, 200, `"sum":3`},
		{"another version", "POST", call, map[string]string{"Mcp-Protocol-Version": "2025-06-18"}, 200, `"sum":3`},
		{"no such version", "POST", call, map[string]string{"Mcp-Protocol-Version": "1999-01-01"}, 400, "error"},
		{"no session", "POST", call, map[string]string{"Mcp-Session-Id": "-"}, 400, "send initialize"},
		{"no session for a response", "POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, map[string]string{"Mcp-Session-Id": "-"}, 400, "send initialize"},
		{"no session for a ping", "POST", pingMessage, map[string]string{"Mcp-Session-Id": "-"}, 200, `"result":{}`},
		{"no session for a list", "POST", listTools, map[string]string{"Mcp-Session-Id": "-"}, 200, `"tools"`},
		{"no session, no method", "POST", `{"jsonrpc":"2.0","id":1,"method":"nope"}`, map[string]string{"Mcp-Session-Id": "-"}, 200, `-32601`},
		{"unknown session", "POST", call, map[string]string{"Mcp-Session-Id": "nope"}, 404, `"id":1,"error":{"code":-32600,"message":"there is no such session`},
		{"unknown session for a ping", "POST", pingMessage, map[string]string{"Mcp-Session-Id": "nope"}, 404, `"id":1,"error":{"code":-32600,"message":"there is no such session`},
		{"unknown session for a text as id", "POST", `{"jsonrpc":"2.0","id":"a\u00e9","method":"ping"}`, map[string]string{"Mcp-Session-Id": "nope"}, 404, `"id":"a\u00e9","error"`},
		{"unknown session for a response", "POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, map[string]string{"Mcp-Session-Id": "nope"}, 404, `"id":null,"error"`},
		{"unknown session for a notification", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, map[string]string{"Mcp-Session-Id": "nope"}, 404, "initialize again"},
		{"sagas need no session", "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"sum"}}`, map[string]string{"Mcp-Session-Id": "nope"}, 200, `"sum":3`},
		{"GET without a session", "GET", "", map[string]string{"Mcp-Session-Id": "-"}, 405, "only POST"},
		{"GET of an unknown session", "GET", "", map[string]string{"Mcp-Session-Id": "nope"}, 404, "initialize again"},
		{"GET for JSON", "GET", "", map[string]string{"Accept": "application/json"}, 406, "event-stream"},
		{"GET of a modern version", "GET", "", map[string]string{"Mcp-Protocol-Version": "2026-07-28"}, 405, ""},
		{"resuming nothing", "GET", "", map[string]string{"Last-Event-Id": "p99_1"}, 400, "resume"},
		{"resuming nonsense", "GET", "", map[string]string{"Last-Event-Id": "nonsense"}, 400, "resume"},
		{"DELETE without a session", "DELETE", "", map[string]string{"Mcp-Session-Id": "-"}, 405, "only POST"},
		{"DELETE of an unknown session", "DELETE", "", map[string]string{"Mcp-Session-Id": "nope"}, 404, "initialize again"},
		{"PUT", "PUT", "", nil, 405, "GET, POST, DELETE"},
		{"notification", "POST", `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, nil, 202, ""},
		{"cancellation that makes no sense", "POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`, nil, 202, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			resp := c.request(test.method, test.body, func(r *http.Request) {
				for name, v := range test.header {
					if r.Header.Del(name); v != "-" {
						r.Header.Set(name, v)
					}
				}
			})
			body := readAll(t, resp)
			assert.Equal(t, test.status, resp.StatusCode, body)
			assert.Contains(t, body, test.want)
			if test.status == 405 {
				assert.NotEmpty(t, resp.Header.Get("Allow"))
			}
		})
	}
	resp := c.request("DELETE", "", nil)
	assert.Empty(t, readAll(t, resp))
	assert.Equal(t, 204, resp.StatusCode)
	for _, method := range []string{"POST", "GET", "DELETE"} {
		resp := c.request(method, call, nil)
		assert.Contains(t, readAll(t, resp), "initialize again")
		assert.Equal(t, 404, resp.StatusCode)
	}
}

// who believes a header.
func who(r *http.Request) (saga.Caller, error) {
	return saga.Caller{Issuer: "test", Subject: r.Header.Get("Who")}, nil
}

func as(name string) func(*legacyClient) {
	return func(c *legacyClient) { c.header.Set("Who", name) }
}

func TestHandshakeSessionOfAnother(t *testing.T) {
	r := newRig(t, server.Options{Authenticate: who})
	c := r.connect("2025-11-25", everything, as("ann"))
	s := c.stream(toolCall(1, "complex_tool", `{}`))
	form := s.wait("elicitation/create")
	for _, method := range []string{"POST", "GET", "DELETE"} {
		resp := c.request(method, `{"jsonrpc":"2.0","id":`+string(form.ID)+`,"result":{"action":"decline"}}`, func(r *http.Request) { r.Header.Set("Who", "bob") })
		assert.Contains(t, readAll(t, resp), `"id":null,"error":{"code":-32600,"message":"the session belongs to somebody else`)
		assert.Equal(t, 403, resp.StatusCode)
	}
	resp := c.request("POST", listTools, func(r *http.Request) { r.Header.Set("Who", "bob") })
	assert.Contains(t, readAll(t, resp), `"id":1,"error":{"code":-32600,"message":"the session belongs to somebody else`)
	c.reply(form.ID, accepted(`{"target":"x"}`))
	s.wait("sampling/createMessage")
}

// Only clients that cannot do without have sessions, and what they have never holds a
// token that they could see. When there is no room for more of them, all others go on.
func TestOnlyOlderClientsHaveSessions(t *testing.T) {
	keys := newKeys(t)
	r := newRig(t, server.Options{Keys: keys, Tools: legacyDefinitions(), MaxSessions: 1})
	c := r.connect("2025-11-25", everything)
	s := c.stream(toolCall(1, "complex_tool", `{}`))
	question := s.message()
	resp := r.connect("2025-11-25", everything).post(toolCall(1, "complex_tool", `{}`))
	readAll(t, resp)
	assert.Equal(t, 503, resp.StatusCode)
	for range 3 {
		status, header, body := r.exchange("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"complex_tool"}}`)
		assert.Equal(t, 200, status)
		assert.Contains(t, body, `"sagaToken":"`+keys.Primary().Prefix)
		assert.Empty(t, header.Get("Mcp-Session-Id"))
		got := r.send(callTool("complex_tool", nil).with(allCapabilities))
		assert.Contains(t, got.raw, `"requestState":"`+keys.Primary().Prefix)
		assert.Empty(t, got.header.Get("Mcp-Session-Id"))
	}
	assert.NotContains(t, question.data, keys.Primary().Prefix)
	c.reply(question.ID, accepted(`{"target":"x"}`))
	question = s.message()
	assert.NotContains(t, question.data, keys.Primary().Prefix)
	c.reply(question.ID, yes)
	assert.NotContains(t, s.wait("").data, keys.Primary().Prefix)
}

// A client that does not answer in time has failed to perform the step, and is told
// not to bother.
func TestHandshakeLateAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, server.Options{TokenTTL: 20 * time.Minute})
		done := make(chan string)
		start := time.Now()
		go func() { done <- b.do("POST", toolCall(1, "ask", `{"what":"form"}`)).Body.String() }()
		got := <-done
		assert.Equal(t, 18*time.Minute, time.Since(start).Round(time.Minute))
		id := regexp.MustCompile(`"id":(\d+),"method":"elicitation/create"`).FindStringSubmatch(got)
		require.NotNil(t, id, got)
		assert.Contains(t, got, `"method":"notifications/cancelled","params":{"requestId":`+id[1]+`,"reason":"no answer came in time"}`)
		assert.Contains(t, got, "form failed: -32001")
		assert.Contains(t, got, "\n:\n\n", "the stream showed that it was alive")
	})
}

// A stream outlives the limits that the server sets on requests.
func TestHandshakeStreamsOutliveTimeouts(t *testing.T) {
	inAnyTime(t, func(t *testing.T) {
		const limit = 2 * time.Second // which a request that is answered at once keeps on any machine
		r := newRig(t, server.Options{Tools: legacyDefinitions()}, func(web *http.Server) {
			web.ReadTimeout, web.WriteTimeout, web.IdleTimeout = limit, limit, time.Minute
		})
		c := r.connect("2025-11-25", everything)
		get := c.get("")
		call := c.stream(toolCall(1, "complex_tool", `{}`))
		form := call.wait("elicitation/create")
		time.Sleep(limit + limit/4)
		r.srv.ToolsChanged()
		get.wait("notifications/tools/list_changed")
		c.reply(form.ID, accepted(`{"target":"x"}`))
		c.reply(call.wait("sampling/createMessage").ID, yes)
		got, _ := text(t, call.wait("").Result)
		assert.Contains(t, got, "initiated")
	})
}

// So does the plain response to a client that takes no stream, and whose tool waits.
func TestHandshakeResponsesOutliveTimeouts(t *testing.T) {
	inAnyTime(t, func(t *testing.T) {
		const limit = 2 * time.Second
		rests := saga.Flow[struct{}, string]{
			Info: saga.Info{Name: "rests"},
			Run:  func(r *saga.Run, _ struct{}) (string, error) { return "rested", r.Sleep(limit + limit/2) },
		}
		r := newRig(t, server.Options{Tools: []saga.Definition{rests}}, func(web *http.Server) {
			web.ReadTimeout, web.WriteTimeout, web.IdleTimeout = limit, limit, time.Minute
		})
		c := r.connect("2025-03-26", everything)
		c.header["Accept"] = []string{"application/json"}
		for range 2 {
			assert.Contains(t, c.ask(toolCall(1, "rests", `{}`)), "rested")
			assert.Contains(t, c.ask("["+toolCall(1, "rests", `{}`)+"]"), "rested")
		}
	})
}

// Neither open streams nor clients that are waited for hold up a graceful stop.
func TestHandshakeGracefulStop(t *testing.T) {
	t.Parallel()
	g := newGate()
	w := new(world)
	s, err := server.New(server.Options{Keys: newKeys(t), Tools: legacyDefinitions(g.tool(), w.tool(g)), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	r := &rig{t: t, url: "http://" + l.Addr().String()}
	c := r.connect("2025-11-25", everything, func(c *legacyClient) { c.http = &http.Client{Transport: transport} })
	get := c.get("")
	asked := c.stream(toolCall(1, "hold", `{}`))
	asked.wait("elicitation/create")
	working := c.stream(toolCall(2, "gate", `{}`))
	<-g.entered
	stop()
	m := asked.wait("notifications/cancelled")
	assert.Contains(t, string(m.Params), "the server stops")
	m = asked.wait("")
	require.NotNil(t, m.Error)
	assert.Contains(t, m.Error.Message, "call again")
	assert.Equal(t, "+first -first", w.was())
	for err = nil; err == nil; {
		_, err = get.next()
	}
	g.leave <- true
	got, _ := text(t, working.wait("").Result)
	assert.Equal(t, "left", got, "a turn under way comes to its end")
	assert.NoError(t, <-ended)
}

func TestHandshakeBatches(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	c := r.connect("2025-03-26", everything)
	message := func(id int, method string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, id, method)
	}
	const notification = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	tests := []struct {
		name, body string
		status     int
		want       []string
	}{
		{"one", "[" + message(1, "ping") + "]", 200, []string{`[{"jsonrpc":"2.0","id":1,"result":{}}]`}},
		{"two", " [" + message(1, "ping") + "," + message(2, "ping") + "]", 200, []string{`"id":1,"result":{}`, `"id":2,"result":{}`}},
		{"some of all", "[" + notification + "," + message(1, "nope") + `,7,{"jsonrpc":"2.0","id":4,"result":{}},` + toolCall(3, "sum", `{}`) + "]", 200, []string{`"id":1,"error":{"code":-32601`, `"id":null,"error":{"code":-32600`, `"id":3,"result"`}},
		{"only notifications", "[" + notification + "," + notification + "]", 202, nil},
		{"the same id twice", "[" + toolCall(1, "away", `{}`) + "," + toolCall(1, "away", `{}`) + "]", 200, []string{`in use`}},
		{"empty", "[]", 400, []string{"empty"}},
		{"broken", "[" + message(1, "ping"), 400, []string{"-32700"}},
		{"trailing", "[" + message(1, "ping") + "]x", 400, []string{"-32700"}},
		{"initialize", "[" + message(1, "initialize") + "]", 200, []string{"cannot be part of a batch"}},
		{"of another era", `[{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"sum"}}]`, 200, []string{"cannot be part of a batch"}},
		{"too many", "[" + strings.Repeat(notification+",", 64) + notification + "]", 400, []string{"too many"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			resp := c.post(test.body)
			body := readAll(t, resp)
			assert.Equal(t, test.status, resp.StatusCode, body)
			for _, want := range test.want {
				assert.Contains(t, body, want)
			}
		})
	}
	t.Run("sagas and answers", func(t *testing.T) {
		s := c.stream("[" + toolCall(1, "ask", `{"what":"sample"}`) + "," + toolCall(2, "ask", `{"what":"roots"}`) + "]")
		a, b := s.message(), s.message()
		assert.NotEqual(t, a.ID, b.ID)
		resp := c.post(fmt.Sprintf(`[{"jsonrpc":"2.0","id":%s,"error":{"code":-5,"message":""}},{"jsonrpc":"2.0","id":%s,"error":{"code":-5,"message":""}}]`, a.ID, b.ID))
		assert.Empty(t, readAll(t, resp))
		assert.Equal(t, 202, resp.StatusCode)
		var got []string
		for range 2 {
			answer, _ := text(t, s.wait("").Result)
			got = append(got, answer)
		}
		assert.ElementsMatch(t, []string{"sample failed: -5", "roots failed: -5"}, got)
		s.end()
	})
	for _, version := range []string{"2025-11-25", "2025-06-18", "2024-11-05"} {
		resp := r.connect(version, everything).post("[" + message(1, "ping") + "]")
		assert.Contains(t, readAll(t, resp), "-32600")
		assert.Equal(t, 400, resp.StatusCode)
	}
}

// What a client sets in a batch holds as what it sets by itself: without a ledger in memory, for as long as the session lasts.
func TestHandshakeBatchesSet(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	c := r.connect("2025-03-26", everything)
	set := c.ask("[" + methodCall(1, "logging/setLevel", `{"level":"error"}`) + "," + methodCall(2, "resources/subscribe", `{"uri":"static://one"}`) + "]")
	require.Equal(t, 2, strings.Count(set, `"result":{}`), set)
	get := c.get("")
	r.srv.ResourceUpdated("static://one")
	r.srv.ToolsChanged()
	assert.Equal(t, "notifications/resources/updated", get.message().Method)
}
