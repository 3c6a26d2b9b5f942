package server_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Steps of the proposal's tool, answered.
var (
	targetAnswer = object{"stepId": "step-elicitation-A", "result": object{"action": "accept", "content": object{"target": "production"}}}
	modelAnswer  = object{"stepId": "step-sampling-B", "result": object{
		"role": "assistant", "model": "m", "content": object{"type": "text", "text": "Yes, all systems are green."},
	}}
)

// modernSaga is a request of a saga method in MCP 2026-07-28 as SDKs send it: the
// header Mcp-Name is for MCP's own methods.
func modernSaga(method string, params object) *request {
	q := modernRequest("tools/"+method, params)
	q.header.Del("Mcp-Name")
	return q
}

// sagaWay sends a saga method's request and returns the result.
type sagaWay struct {
	name   string
	modern bool
	send   func(method string, params object) jsontest.Value
}

// sagaWays are the ways by which a client can send the saga methods.
func sagaWays(r *rig) []sagaWay {
	plain := func(method string, params object) string {
		q := modernSaga(method, params)
		q.meta = nil
		return q.body()
	}
	result := func(raw string) jsontest.Value {
		r.t.Helper()
		require.True(r.t, jsontest.Get(raw, "result").Exists(), raw)
		return jsontest.Get(raw, "result")
	}
	session := r.connect("2025-11-25", everything)
	onStdio := func(message string) jsontest.Value {
		got := lines(r.t, r.srv, initializeMessage("2025-11-25", everything)+"\n"+message+"\n")
		require.Len(r.t, got, 2)
		if jsontest.Get(got[0], "result.protocolVersion").Exists() {
			got = got[1:]
		}
		return result(got[0])
	}
	return []sagaWay{
		{"proposal", false, func(method string, params object) jsontest.Value { return result(r.post(plain(method, params))) }},
		{"2025-11-25", false, func(method string, params object) jsontest.Value { return result(session.ask(plain(method, params))) }},
		{"2025-11-25 stdio", false, func(method string, params object) jsontest.Value { return onStdio(plain(method, params)) }},
		{"2026-07-28", true, func(method string, params object) jsontest.Value {
			return result(r.send(modernSaga(method, params)).raw)
		}},
		{"2026-07-28 stdio", true, func(method string, params object) jsontest.Value {
			return result(lines(r.t, r.srv, modernSaga(method, params).body()+"\n")[0])
		}},
		{"2026-07-28, a guest", true, func(method string, params object) jsontest.Value {
			raw, err := r.srv.Handle(r.t.Context(), &server.Request{
				Method: "tools/" + method, Version: "2026-07-28", Params: json.RawMessage(jsontest.Get(modernSaga(method, params).body(), "params").Raw),
			})
			require.NoError(r.t, err)
			return jsontest.Parse(raw)
		}},
		{"proposal, a guest", false, func(method string, params object) jsontest.Value {
			raw, err := r.srv.Handle(r.t.Context(), &server.Request{
				Method: "tools/" + method, Version: "2026-07-28", Params: json.RawMessage(jsontest.Get(plain(method, params), "params").Raw),
			})
			require.NoError(r.t, err)
			return jsontest.Parse(raw)
		}},
	}
}

// requireEnvelope: a result of MCP 2026-07-28 says of which type it is and who sent
// it; any other is as the proposal has it.
func (w sagaWay) requireEnvelope(t *testing.T, result jsontest.Value) {
	t.Helper()
	require.True(t, jsontext.Value(result.Raw).IsValid(), "a name occurs twice: %s", result.Raw)
	if w.modern {
		require.Equal(t, "complete", result.Get("resultType").String(), result.Raw)
		require.Equal(t, "mcpsaga", result.Get(`_meta.io\.modelcontextprotocol/serverInfo.name`).String(), result.Raw)
		return
	}
	require.False(t, result.Get("resultType").Exists(), result.Raw)
	require.NotContains(t, result.Raw, "serverInfo")
}

// One token, whatever the revision: each turn of a saga may be taken in another one.
func TestSagaTokensMoveBetweenRevisions(t *testing.T) {
	r := newRig(t, server.Options{})
	ways := sagaWays(r)
	for _, one := range ways {
		for _, two := range ways {
			for _, three := range ways {
				result := one.send("callSaga", object{"name": "complex_tool", "arguments": object{"initial_arg": "v"}})
				one.requireEnvelope(t, result)
				require.Equal(t, "suspended", result.Get("state").String())
				require.Equal(t, "elicitation", result.Get("steps.0.type").String())
				result = two.send("resumeSaga", object{"sagaToken": result.Get("sagaToken").String(), "completedSteps": []object{targetAnswer}})
				two.requireEnvelope(t, result)
				require.Equal(t, "sampling", result.Get("steps.0.type").String(), "though the client has declared nothing")
				result = three.send("resumeSaga", object{"sagaToken": result.Get("sagaToken").String(), "completedSteps": []object{targetAnswer, modelAnswer}})
				three.requireEnvelope(t, result)
				require.Contains(t, result.Get("content.0.text").String(), "initiated successfully", "%s, %s, %s", one.name, two.name, three.name)
			}
		}
	}
}

// Whoever began a saga, by whatever method: it can be cancelled in every revision.
func TestSagasAreCancelledInEveryRevision(t *testing.T) {
	held := map[saga.Key]bool{}
	r := newRig(t, server.Options{Tools: []saga.Definition{roomTool(1, held)}})
	ways := sagaWays(r)
	begin := map[string]func() string{
		"requestState": func() string { return r.state(callTool("room", object{}).with(allCapabilities)) },
	}
	for _, w := range ways {
		begin[w.name] = func() string { return w.send("callSaga", object{"name": "room"}).Get("sagaToken").String() }
	}
	for name, begin := range begin {
		for _, w := range ways {
			t.Run(name+" by "+w.name, func(t *testing.T) {
				token := begin()
				require.Len(t, held, 1)
				result := w.send("cancelSaga", object{"sagaToken": token})
				w.requireEnvelope(t, result)
				assert.Contains(t, result.Get("content.0.text").String(), "Cancelled. If the saga went on")
				assert.Equal(t, `["room"]`, result.Get(`_meta.io\.github\.mcpsaga/undo.undone`).Raw, "the report stays beside the server's name")
				assert.Empty(t, held)
			})
		}
	}
}

// What _meta says makes a request one of MCP 2026-07-28, and nothing else does.
func TestMetaOfTheProposal(t *testing.T) {
	r := newRig(t, server.Options{})
	bare := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"complex_tool"}}`)
	for _, meta := range []string{`{}`, `{"progressToken":1}`, `{"` + capabilitiesMeta + `":{}}`, `null`, `7`} {
		got := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"complex_tool","_meta":` + meta + `}}`)
		without := func(body string) string {
			return strings.Replace(body, jsontest.Get(body, "result.sagaToken").String(), "", 1)
		}
		assert.Equal(t, without(bare), without(got), meta)
	}
}

func TestStatelessSagaHeaders(t *testing.T) {
	held := map[saga.Key]bool{}
	r := newRig(t, server.Options{Tools: []saga.Definition{roomTool(1, held), headerTool(), complextool.Tool}})
	begin := func() string {
		return jsontest.Get(r.send(modernSaga("callSaga", object{"name": "room"})).raw, "result.sagaToken").String()
	}
	const mismatch, refused = -32020, -32602
	tests := []struct {
		name   string
		method string
		change func(*request)
		code   int
	}{
		{"no name", "callSaga", func(*request) {}, 0},
		{"the name", "callSaga", func(q *request) { q.header.Set("Mcp-Name", "room") }, 0},
		{"the name, encoded", "callSaga", func(q *request) { q.header.Set("Mcp-Name", "=?base64?cm9vbQ==?=") }, 0},
		{"another name", "callSaga", func(q *request) { q.header.Set("Mcp-Name", "complex_tool") }, mismatch},
		{"an empty name", "callSaga", func(q *request) { q.header["Mcp-Name"] = []string{""} }, mismatch},
		{"two names", "callSaga", func(q *request) { q.header["Mcp-Name"] = []string{"room", "room"} }, mismatch},
		{"a name that cannot be decoded", "callSaga", func(q *request) { q.header.Set("Mcp-Name", "=?base64?cm9?=") }, mismatch},
		{"no method", "callSaga", func(q *request) { q.header.Del("Mcp-Method") }, mismatch},
		{"another method", "callSaga", func(q *request) { q.header.Set("Mcp-Method", "tools/call") }, mismatch},
		{"no version", "callSaga", func(q *request) { q.header.Del("Mcp-Protocol-Version") }, mismatch},
		{"another version", "callSaga", func(q *request) { q.header.Set("Mcp-Protocol-Version", "2025-11-25") }, mismatch},
		{"a version without a handshake", "callSaga", func(q *request) {
			q.header.Set("Mcp-Protocol-Version", "2099-01-01")
			q.meta[versionMeta] = "2099-01-01"
		}, -32022},
		{"no capabilities", "callSaga", func(q *request) { delete(q.meta, capabilitiesMeta) }, refused},
		{"a progress token that is none", "callSaga", func(q *request) { q.meta["progressToken"] = object{} }, refused},
		{"no name", "resumeSaga", func(*request) {}, 0},
		{"the token's name", "resumeSaga", func(q *request) { q.header.Set("Mcp-Name", "room") }, 0},
		{"another name", "resumeSaga", func(q *request) { q.header.Set("Mcp-Name", "complex_tool") }, refused},
		{"a name that cannot be decoded", "resumeSaga", func(q *request) { q.header.Set("Mcp-Name", "=?base64?cm9?=") }, mismatch},
		{"another method", "resumeSaga", func(q *request) { q.header.Set("Mcp-Method", "tools/cancelSaga") }, mismatch},
		{"no name", "cancelSaga", func(*request) {}, 0},
		{"the token's name", "cancelSaga", func(q *request) { q.header.Set("Mcp-Name", "room") }, 0},
		{"another name", "cancelSaga", func(q *request) { q.header.Set("Mcp-Name", "complex_tool") }, refused},
		{"no method", "cancelSaga", func(q *request) { q.header.Del("Mcp-Method") }, mismatch},
	}
	for _, test := range tests {
		t.Run(test.method+", "+test.name, func(t *testing.T) {
			clear(held)
			params := map[string]object{
				"callSaga": {"name": "room"}, "resumeSaga": {"completedSteps": []object{}}, "cancelSaga": {},
			}[test.method]
			if test.method != "callSaga" {
				params["sagaToken"] = begin()
			}
			before := len(held)
			q := modernSaga(test.method, params)
			test.change(q)
			got := r.send(q)
			assert.Equal(t, test.code, got.code(), got.raw)
			if test.code == 0 {
				assert.Equal(t, 200, got.status)
				return
			}
			assert.Len(t, held, before, "nothing was done, or undone")
			assert.Equal(t, "1", string(got.ID))
			if test.code != refused {
				assert.Equal(t, 400, got.status)
			}
		})
	}
	for header, code := range map[string]int{"eu": 0, "us": mismatch, "-": 0} {
		q := modernSaga("callSaga", object{"name": "headers", "arguments": object{"region": "eu"}})
		if header != "-" {
			q.header.Set("Mcp-Param-Region", header)
		}
		assert.Equal(t, code, r.send(q).code(), "a header that repeats an argument: %s", header)
	}
}

// Refusals have the codes and status of MCP 2026-07-28, and the words of the methods.
func TestStatelessSagaErrors(t *testing.T) {
	keys := newKeys(t)
	held := map[saga.Key]bool{}
	r := newRig(t, server.Options{Keys: keys, Tools: append(statelessTools(), roomTool(2, held))})
	older := newRig(t, server.Options{Keys: keys, Tools: []saga.Definition{roomTool(1, map[saga.Key]bool{})}})
	token := jsontest.Get(r.send(modernSaga("callSaga", object{"name": "room"})).raw, "result.sagaToken").String()
	state := r.state(callTool("ask_name", nil).with(allCapabilities))
	const start = "the saga token is not valid here, or no longer: unless its saga has ended and acted, start again with tools/callSaga"
	tests := []struct {
		name, method string
		params       object
		code         int
		text         string
	}{
		{"no tool", "callSaga", object{}, -32602, "params.name is missing"},
		{"an unknown tool", "callSaga", object{"name": "nothing"}, -32602, "there is no tool of that name"},
		{"arguments that are none", "callSaga", object{"name": "room", "arguments": []int{}}, -32602, "must be an object"},
		{"a name that is none", "callSaga", object{"name": 7}, -32602, "/name"},
		{"a panic", "callSaga", object{"name": "panics"}, -32603, "internal error"},
		{"no steps", "resumeSaga", object{"sagaToken": token}, -32602, "completedSteps is missing"},
		{"no token", "cancelSaga", object{}, -32602, "sagaToken is missing"},
		{"no token to resume", "resumeSaga", object{"completedSteps": []int{}}, -32602, start},
		{"nonsense", "resumeSaga", object{"sagaToken": "AAAA", "completedSteps": []int{}}, -32602, start},
		{"nonsense to cancel", "cancelSaga", object{"sagaToken": "AAAA"}, -32602, start},
		{"a requestState", "resumeSaga", object{"sagaToken": state, "completedSteps": []int{}}, -32602, start},
		{"an answer that is none", "resumeSaga", object{"sagaToken": token, "completedSteps": []object{{"stepId": "sure", "result": object{}}}}, -32602, "action"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := modernSaga(test.method, test.params)
			got := r.send(q)
			assert.Equal(t, 200, got.status, "it was delivered, and answered")
			require.Equal(t, test.code, got.code(), got.raw)
			assert.Contains(t, got.Error.Message, test.text)
			line := parseMessage(t, lines(t, r.srv, q.body()+"\n")[0])
			assert.Equal(t, got.raw, line.raw, "alike on stdio")
		})
	}
	t.Run("a token of a newer revision", func(t *testing.T) {
		got := older.send(modernSaga("resumeSaga", object{"sagaToken": token, "completedSteps": []int{}}))
		assert.Equal(t, 503, got.status)
		assert.Equal(t, "1", got.header.Get("Retry-After"))
		assert.Equal(t, -31503, got.code())
	})
	t.Run("a failure that is the tool's", func(t *testing.T) {
		got := r.send(modernSaga("callSaga", object{"name": "fails"})).result(t)
		assert.True(t, got.IsError)
		assert.Equal(t, "complete", got.ResultType)
	})
	t.Run("its own _meta", func(t *testing.T) {
		got := r.send(modernSaga("callSaga", object{"name": "meta"})).result(t)
		assert.Contains(t, got.Meta, "example.com/x")
		assert.NotContains(t, string(got.Meta["io.modelcontextprotocol/serverInfo"]), "forged")
	})
	t.Run("a notification is no call", func(t *testing.T) {
		clear(held)
		q := modernSaga("callSaga", object{"name": "room"})
		q.id = nil
		assert.Equal(t, 202, r.send(q).status)
		assert.Empty(t, held)
	})
}

// What server/discover and tools/list say is true: the methods are there, also if
// there is no tool, as what a prompt asks can be cancelled.
func TestSagaMethodsAreAsDiscovered(t *testing.T) {
	for name, definitions := range map[string][]saga.Definition{"tools": statelessTools(), "prompts alone": {promptRounds()}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, server.Options{Tools: definitions})
			found := r.send(modernRequest("server/discover", nil))
			require.True(t, jsontest.Get(found.raw, `result.capabilities.experimental.io\.github\.mcpsaga/saga`).IsObject(), found.raw)
			for _, method := range []string{"callSaga", "resumeSaga", "cancelSaga"} {
				assert.Equal(t, -32602, r.send(modernSaga(method, nil)).code(), method)
				line := parseMessage(t, lines(t, r.srv, modernSaga(method, nil).body()+"\n")[0])
				assert.Equal(t, -32602, line.code(), method)
			}
		})
	}
	r := newModern(t)
	for _, tool := range jsontest.Get(r.send(modernRequest("tools/list", nil)).raw, "result.tools").Array() {
		if method := tool.Get(`_meta.io\.github\.mcpsaga/saga.method`); method.Exists() {
			q := modernRequest(method.String(), object{"name": tool.Get("name").String()})
			assert.NotEqual(t, -32601, r.send(q).code(), tool.Raw)
		}
	}
}

// A turn tells those who asked for it how far it is, on the request's own way.
func TestStatelessSagaNotifications(t *testing.T) {
	r := newModern(t)
	q := modernSaga("callSaga", object{"name": "progress"})
	assert.Equal(t, "application/json", r.send(q).header.Get("Content-Type"), "nobody asked")
	q.meta["progressToken"] = "p"
	got := r.send(q)
	assert.Equal(t, "text/event-stream", got.header.Get("Content-Type"))
	assert.Equal(t, []string{"notifications/progress", "notifications/progress", "notifications/progress"}, got.methods())
	assert.Equal(t, "done", got.result(t).text())
	assert.Len(t, lines(t, r.srv, q.body()+"\n"), 4)

	q = modernSaga("callSaga", object{"name": "log"})
	q.meta[logLevelMeta] = "warning"
	got = r.send(q)
	assert.Equal(t, []string{"notifications/message", "notifications/message"}, got.methods())
	assert.Equal(t, "logged", got.result(t).text())
}

// holding is a tool that holds a room and then waits to be cancelled.
func holding(held map[saga.Key]bool) (tool saga.Flow[struct{}, string], entered chan bool) {
	tool, entered = roomTool(1, held), make(chan bool, 1)
	room := tool.Effects[0].(*saga.Effect[string, bool])
	tool.Asks = nil
	tool.Run = func(r *saga.Run, _ struct{}) (string, error) {
		if _, err := saga.Do(r, room, "7"); err != nil {
			return "", err
		}
		entered <- true
		<-r.Done()
		return "", r.Err()
	}
	return tool, entered
}

// A client that goes away has cancelled: what its first turn did is undone, as it has
// no token to do so itself.
func TestStatelessSagaDisconnect(t *testing.T) {
	held := map[saga.Key]bool{}
	tool, entered := holding(held)
	r := newRig(t, server.Options{Tools: []saga.Definition{tool}, TurnTimeout: time.Minute})
	for _, streaming := range []bool{false, true} {
		assert.Error(t, r.leave(modernSaga("callSaga", object{"name": "room"}), streaming, entered))
		until(t, func() bool { return strings.Contains(r.log.take(), "cancelled") })
		assert.Empty(t, held)
	}
	t.Run("stdio", func(t *testing.T) {
		p := newPipe(t, r.srv)
		p.send(modernSaga("callSaga", object{"name": "room"}))
		<-entered
		p.cancel("1")
		until(t, func() bool { return strings.Contains(r.log.take(), "cancelled") })
		assert.Empty(t, held)
		q := modernRequest("tools/list", nil)
		q.id = "after"
		p.send(q)
		assert.Equal(t, `"after"`, string(p.next().ID), "nothing is said of what was cancelled")
	})
}
