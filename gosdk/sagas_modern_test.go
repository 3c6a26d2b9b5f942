package gosdk_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// sagaWay sends a saga method's request and returns the result.
type sagaWay struct {
	name   string
	modern bool
	send   func(method string, params object) jsontest.Value
}

// withMeta returns parameters with _meta.
func withMeta(params, meta object) object {
	all := maps.Clone(params)
	all["_meta"] = meta
	return all
}

// sagaWays are the ways by which clients send the saga methods to a server of the
// SDK, and to one of ours.
func sagaWays(t *testing.T, h *host, own *server.Server) []sagaWay {
	url := h.serve()
	now, before := h.wire(), h.wire()
	before.greet(legacy, object{})
	session := newSession(t, url, "", object{})
	ours := func(method string, params object) jsontest.Value {
		raw, err := json.Marshal(params)
		require.NoError(t, err)
		result, err := own.Handle(t.Context(), &server.Request{Method: method, Params: raw, Version: modern})
		require.NoError(t, err)
		return jsontest.Parse(result)
	}
	result := func(body string) jsontest.Value {
		require.True(t, last(body).Get("result").Exists(), body)
		return last(body).Get("result")
	}
	return []sagaWay{
		{"modern", true, func(method string, params object) jsontest.Value {
			return now.ask(method, withMeta(params, meta(object{}))).Get("result")
		}},
		{"modern HTTP", true, func(method string, params object) jsontest.Value {
			_, _, body := post(t, httpClient, url, message(1, method, withMeta(params, meta(object{}))), "MCP-Protocol-Version", modern, "Mcp-Method", method)
			return result(body)
		}},
		{"legacy", false, func(method string, params object) jsontest.Value { return before.ask(method, params).Get("result") }},
		{"session", false, func(method string, params object) jsontest.Value {
			_, body := session.do(http.MethodPost, message(1, method, params))
			return result(body)
		}},
		{"proposal", false, func(method string, params object) jsontest.Value {
			_, _, body := post(t, httpClient, url, message(1, method, params))
			return result(body)
		}},
		{"our server", false, ours},
		{"our server, modern", true, func(method string, params object) jsontest.Value {
			return ours(method, withMeta(params, meta(object{})))
		}},
	}
}

// requireEnvelope: a result of MCP 2026-07-28 says of which type it is, any other is
// as the proposal has it.
func (w sagaWay) requireEnvelope(t *testing.T, r jsontest.Value) {
	t.Helper()
	require.True(t, r.IsObject(), "%s: %s", w.name, r.Raw)
	if !w.modern {
		require.False(t, r.Get("resultType").Exists(), r.Raw)
		require.NotContains(t, r.Raw, "serverInfo")
		return
	}
	require.Equal(t, "complete", r.Get("resultType").String(), r.Raw)
	if !strings.HasPrefix(w.name, "our server") {
		require.Equal(t, "host", r.Get(`_meta.io\.modelcontextprotocol/serverInfo.name`).String(), r.Raw)
	}
	require.NotContains(t, r.Raw, "input_required")
}

// One token, whatever the revision and the server: each turn may be another's.
func TestMountedSagaTokensMoveBetweenRevisions(t *testing.T) {
	keys, rooms := newKeys(t), new(rooms)
	h := mount(t, gosdk.Options{Keys: keys}, talk(1), rooms.book())
	own, err := server.New(server.Options{Keys: keys, Tools: []saga.Definition{talk(1), rooms.book()}})
	require.NoError(t, err)
	ways := sagaWays(t, h, own)
	state := h.wire()
	for _, one := range ways {
		for _, two := range ways {
			r := one.send("tools/callSaga", object{"name": "talk"})
			one.requireEnvelope(t, r)
			require.Equal(t, "suspended", r.Get("state").String())
			r = two.send("tools/resumeSaga", object{"sagaToken": r.Get("sagaToken").String(), "completedSteps": []any{step("word1", `{"action":"accept","content":{"word":"a"}}`)}})
			two.requireEnvelope(t, r)
			require.Equal(t, "a", r.Get("content.0.text").String(), "%s, %s", one.name, two.name)

			r = one.send("tools/callSaga", object{"name": "book"})
			rooms.requireHeld(t)
			r = two.send("tools/cancelSaga", object{"sagaToken": r.Get("sagaToken").String()})
			two.requireEnvelope(t, r)
			require.Equal(t, `["room"]`, r.Get(`_meta.io\.github\.mcpsaga/undo.undone`).Raw)
			held, _ := rooms.count()
			require.Zero(t, held)
		}
		r := state.ask("tools/call", withMeta(object{"name": "book"}, meta(forms)))
		rooms.requireHeld(t)
		r = one.send("tools/cancelSaga", object{"sagaToken": r.Get("result.requestState").String()})
		one.requireEnvelope(t, r)
		require.Contains(t, r.Get("content.0.text").String(), "Cancelled. If the saga went on")
		held, _ := rooms.count()
		require.Zero(t, held, "a requestState can be cancelled, too: %s", one.name)
	}
}

// Errors are the same as those of our own server.
func TestSagaErrorsInMCP2026(t *testing.T) {
	h := mount(t, gosdk.Options{}, talk(1))
	cs := h.client(modern, proposal(t))
	token := callCustom(t, cs, "tools/callSaga", &sagaParams{Name: "talk"}).SagaToken
	for name, c := range map[string]struct {
		method string
		params *sagaParams
		text   string
	}{
		"no tool":               {"tools/callSaga", &sagaParams{}, "params.name is missing"},
		"an unknown tool":       {"tools/callSaga", &sagaParams{Name: "nothing"}, "there is no saga of that name"},
		"arguments of a list":   {"tools/callSaga", &sagaParams{Name: "talk", Arguments: []int{}}, "must be an object"},
		"no steps":              {"tools/resumeSaga", &sagaParams{SagaToken: token}, "completedSteps is missing"},
		"a step without id":     {"tools/resumeSaga", &sagaParams{SagaToken: token, CompletedSteps: []any{object{}}}, "has no stepId"},
		"nonsense":              {"tools/resumeSaga", &sagaParams{SagaToken: "AAAA", CompletedSteps: []any{}}, refusedToken},
		"nonsense to cancel":    {"tools/cancelSaga", &sagaParams{SagaToken: "AAAA"}, refusedToken},
		"nothing to be undone":  {"tools/cancelSaga", &sagaParams{}, "sagaToken is missing"},
		"the token, cut short":  {"tools/cancelSaga", &sagaParams{SagaToken: token[:len(token)-1]}, refusedToken},
		"capabilities are none": {"tools/callSaga", &sagaParams{ParamsBase: mcp.ParamsBase{Meta: mcp.Meta{"io.modelcontextprotocol/clientCapabilities": 7}}, Name: "talk"}, ""},
	} {
		_, err := mcp.CallCustomMethod[*sagaParams, *sagaResult](t.Context(), cs, c.method, c.params)
		var refused *jsonrpc.Error
		require.ErrorAs(t, err, &refused, name)
		assert.Equal(t, int64(-32602), refused.Code, name)
		assert.Contains(t, refused.Message, c.text, name)
	}
	assert.NotContains(t, h.log.String(), "level=ERROR", "what clients send is not our failure")
}

// Progress and log messages of a saga's turn go to those who asked for them.
func TestSagaNotificationsInMCP2026(t *testing.T) {
	h := mount(t, gosdk.Options{}, teller())
	url := h.serve()
	params := object{"name": "tell", "arguments": object{"topic": "x"}}
	m := meta(object{})
	m["progressToken"], m["io.modelcontextprotocol/logLevel"] = "p", "info"
	want := []string{"notifications/progress", "notifications/progress", "notifications/progress", "notifications/message", ""}
	w := h.wire()
	w.begin("tools/callSaga", withMeta(params, m))
	var got []string
	for len(got) < len(want) {
		got = append(got, w.read().Get("method").String())
	}
	assert.Equal(t, want, got)
	_, _, body := post(t, httpClient, url, message(1, "tools/callSaga", withMeta(params, m)), "MCP-Protocol-Version", modern, "Mcp-Method", "tools/callSaga")
	got = nil
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			got = append(got, jsontest.Get(data, "method").String())
		}
	}
	assert.Equal(t, want, got, body)
	assert.Equal(t, "x", last(body).Get("result.content.0.text").String())
	w.ask("tools/callSaga", withMeta(params, meta(object{}))) // nobody asked
}

// A client that gives a call up has what the first turn did undone: it has no token.
func TestSagaGivenUp(t *testing.T) {
	for _, version := range []string{modern, legacy} {
		for _, how := range []string{"memory", "HTTP"} {
			t.Run(version+" "+how, func(t *testing.T) {
				rooms := new(rooms)
				h := mount(t, gosdk.Options{TurnTimeout: 15 * time.Second}, rooms.stay())
				var cs *mcp.ClientSession
				if how == "memory" {
					cs = h.client(version, proposal(t))
				} else {
					cs = h.clientHTTP(h.serve(), version, proposal(t))
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() {
					_, err := mcp.CallCustomMethod[*sagaParams, *sagaResult](ctx, cs, "tools/callSaga", &sagaParams{Name: "stay"})
					done <- err
				}()
				rooms.requireHeld(t)
				cancel()
				assert.ErrorIs(t, <-done, context.Canceled)
				rooms.requireReleased(t)
			})
		}
	}
}

// Over HTTP without a session a call ends with its connection, whatever its method:
// nobody can come back for the result.
func TestCallsEndWithTheirConnection(t *testing.T) {
	stay := object{"name": "stay"}
	for name, c := range map[string]struct {
		method  string
		params  object
		headers []string
	}{
		"2026-07-28":               {"tools/call", withMeta(stay, meta(object{})), []string{"MCP-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", "stay"}},
		"a saga in 2026-07-28":     {"tools/callSaga", withMeta(stay, meta(object{})), []string{"MCP-Protocol-Version", modern, "Mcp-Method", "tools/callSaga"}},
		"a saga":                   {"tools/callSaga", stay, nil},
		"2025-11-25, no session":   {"tools/call", stay, []string{"MCP-Protocol-Version", legacy}},
		"a saga with that version": {"tools/callSaga", stay, []string{"MCP-Protocol-Version", legacy}},
	} {
		t.Run(name, func(t *testing.T) {
			rooms := new(rooms)
			h := mount(t, gosdk.Options{TurnTimeout: 15 * time.Second}, rooms.stay())
			ctx, leave := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.serve(), strings.NewReader(message(1, c.method, c.params)))
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			for pair := range slices.Chunk(c.headers, 2) {
				r.Header.Set(pair[0], pair[1])
			}
			done := make(chan error, 1)
			go func() {
				_, err := httpClient.Do(r)
				done <- err
			}()
			rooms.requireHeld(t)
			leave()
			assert.ErrorIs(t, <-done, context.Canceled)
			rooms.requireReleased(t)
		})
	}
}

// Gateways may go by headers. The SDK compares them with the bodies of MCP's own
// methods, in MCP 2026-07-28; the rest is compared here.
func TestHeadersOfSagas(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{}, rooms.book(), talk(1))
	url := h.serve()
	s := newSession(t, url, "", forms)
	ways := map[string]struct {
		headers []string
		params  func(object) object
	}{
		"proposal": {nil, func(p object) object { return p }},
		"session":  {s.headers(), func(p object) object { return p }},
		modern:     {[]string{"MCP-Protocol-Version", modern}, func(p object) object { return withMeta(p, meta(object{})) }},
	}
	for name, way := range ways {
		send := func(method string, p object, headers ...string) jsontest.Value {
			if name == modern && !slices.Contains(headers, "Mcp-Method") {
				headers = append(headers, "Mcp-Method", method)
			}
			_, _, body := post(t, httpClient, url, message(1, method, way.params(p)), slices.Concat(way.headers, headers)...)
			return last(body)
		}
		t.Run(name, func(t *testing.T) {
			book := object{"name": "book"}
			for _, headers := range [][]string{{"Mcp-Method", "tools/list"}, {"Mcp-Name", "talk"}, {"Mcp-Name", "=?base64?dGFsaw==?="}, {"Mcp-Name", "=?base64?x?="}} {
				r := send("tools/callSaga", book, headers...)
				assert.Equal(t, int64(-32020), r.Get("error.code").Int(), "%s: %s", headers, r.Raw)
			}
			held, _ := rooms.count()
			require.Zero(t, held, "nothing was done")
			token := send("tools/callSaga", book, "Mcp-Name", "book").Get("result.sagaToken").String()
			for _, method := range []string{"tools/resumeSaga", "tools/cancelSaga"} {
				r := send(method, object{"sagaToken": token, "completedSteps": []any{}}, "Mcp-Name", "talk")
				assert.Equal(t, refusedToken, r.Get("error.message").String(), r.Raw)
			}
			held, _ = rooms.count()
			require.Equal(t, 1, held)
			r := send("tools/cancelSaga", object{"sagaToken": token}, "Mcp-Name", "book")
			assert.Contains(t, r.Get("result.content.0.text").String(), "Cancelled. If the saga went on", r.Raw)
		})
	}
	_, body := s.do(http.MethodPost, message(1, "tools/call", object{"name": "talk"}), "Mcp-Name", "book")
	assert.Equal(t, int64(-32020), last(body).Get("error.code").Int(), "an older client's call: %s", body)
	held, _ := rooms.count()
	assert.Zero(t, held)
}
