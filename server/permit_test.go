package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

const stepUp = `Bearer error="insufficient_scope", scope="office"`

// byScopes gives callers what the header Scopes says, and permits what begins with no letter of theirs: "h" hides what is
// for the office, "s" demands a scope for it.
func byScopes(o *server.Options) {
	o.Authenticate = func(r *http.Request) (saga.Caller, error) {
		c, _ := users(r)
		c.Scopes = r.Header.Values("Scopes")
		return c, nil
	}
	o.Permit = func(_ context.Context, who saga.Caller, kind, name string) error {
		switch office := slices.Contains([]string{"tool seat", "tool parts", "prompt greeting", "resource notes", "resource static"}, kind+" "+name); {
		case !office || who.HasScope("office"):
			return nil
		case who.HasScope("asks"):
			return &server.AuthError{Status: 403, Challenge: stepUp, Err: errors.New("secret")}
		case who.HasScope("fault"):
			return errors.New("secret")
		}
		return fmt.Errorf("not of the office: %w", server.ErrHidden)
	}
}

func newPermitRig(t *testing.T) *rig {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	o := server.Options{Ledger: store, Tools: append(taskTools(), new(seats).tool(), inParts, legacyPrompt, legacyNotes, legacyStatic)}
	byScopes(&o)
	return newRig(t, o)
}

func withScope(scope string) func(*legacyClient) {
	return func(c *legacyClient) { c.header = http.Header{"User": {"ann"}, "Scopes": {scope}} }
}

// listedAs are the names in all lists, as somebody sees them.
func listedAs(t *testing.T, ask func(method string) json.RawMessage) (names []string) {
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		var lists map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(ask(method), &lists), method)
		for _, member := range []string{"tools", "prompts", "resources", "resourceTemplates"} {
			var list []struct{ Name string }
			if json.Unmarshal(lists[member], &list) == nil {
				for _, e := range list {
					names = append(names, e.Name)
				}
			}
		}
	}
	return names
}

// Lists have what a caller may use, and what it could if it asked for it; in every protocol.
func TestListsAreOfWhatACallerMayUse(t *testing.T) {
	r := newPermitRig(t)
	office := []string{"seat", "parts", "greeting", "notes", "static"}
	for scope, sees := range map[string]bool{"office": true, "asks": true, "none": false} {
		ways := map[string]func(string) json.RawMessage{
			"2026-07-28": func(method string) json.RawMessage {
				q := asAnn(modernRequest(method, nil))
				q.header.Set("Scopes", scope)
				got := r.send(q)
				assert.Contains(t, string(got.Result), `"cacheScope":"private"`, "another caller sees another list")
				return got.Result
			},
			"no session": func(method string) json.RawMessage {
				if method != "tools/list" { // which is all that there is without one
					return json.RawMessage("{}")
				}
				_, body := r.do("POST", "/mcp", methodCall(1, method, "{}"), func(q *http.Request) { q.Header.Set("Scopes", scope) })
				return parseLegacy(t, body).Result
			},
		}
		for name, c := range map[string]*legacyClient{
			"2024-11-05": r.connect("2024-11-05", "{}", withScope(scope)), "tasks": r.connect("2025-11-25", `{"elicitation":{}}`, withScope(scope)),
			"asynchronous tools": r.connect("2025-11-25", asyncTools, withScope(scope)),
		} {
			ways[name] = func(method string) json.RawMessage { return parseLegacy(t, c.ask(methodCall(1, method, "{}"))).Result }
		}
		for name, ask := range ways {
			names := listedAs(t, ask)
			assert.Contains(t, names, "plain", name)
			for i, n := range office {
				if name == "no session" && i > 1 {
					break
				}
				assert.Equal(t, sees, slices.Contains(names, n), "%s %s for %q", name, n, scope)
			}
		}
	}
}

// refusedCalls are requests for what is for the office, by protocol, with what they are of things that there are not.
func refusedCalls(t *testing.T, r *rig, scope string) map[string][2]*http.Request {
	modern := func(q *request) *http.Request {
		asAnn(q).header.Set("Scopes", scope)
		return r.httpRequest(t.Context(), q)
	}
	plain := func(message string, c *legacyClient) *http.Request {
		q := newRequest(t, r, "POST", "/mcp", message, "User", "ann", "Scopes", scope, "Accept", "application/json, text/event-stream")
		if c != nil {
			q.Header.Set("Mcp-Session-Id", c.session)
			q.Header.Set("Mcp-Protocol-Version", c.version)
		}
		return q
	}
	calls := map[string][2]*http.Request{
		"2026-07-28 tool":     {modern(callTool("seat", nil)), modern(callTool("none", nil))},
		"2026-07-28 task":     {modern(callTool("seat", nil).with(withTasks)), modern(callTool("none", nil).with(withTasks))},
		"2026-07-28 prompt":   {modern(modernRequest("prompts/get", object{"name": "greeting"})), modern(modernRequest("prompts/get", object{"name": "none"}))},
		"2026-07-28 resource": {modern(modernRequest("resources/read", object{"uri": "static://one"})), modern(modernRequest("resources/read", object{"uri": "static://none"}))},
		"saga":                {plain(methodCall(1, "tools/callSaga", `{"name":"seat"}`), nil), plain(methodCall(1, "tools/callSaga", `{"name":"none"}`), nil)},
		"completion": {
			plain(methodCall(1, "completion/complete", `{"ref":{"type":"ref/prompt","name":"greeting"},"argument":{"name":"name","value":"x"}}`), r.connect("2025-11-25", "{}", withScope(scope))),
			plain(methodCall(1, "completion/complete", `{"ref":{"type":"ref/prompt","name":"none"},"argument":{"name":"name","value":"x"}}`), r.connect("2025-11-25", "{}", withScope(scope))),
		},
	}
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		c := r.connect(version, `{"elicitation":{}}`, withScope(scope))
		calls[version+" tool"] = [2]*http.Request{plain(toolCall(1, "seat", "{}"), c), plain(toolCall(1, "none", "{}"), c)}
		calls[version+" prompt"] = [2]*http.Request{plain(methodCall(1, "prompts/get", `{"name":"greeting"}`), c), plain(methodCall(1, "prompts/get", `{"name":"none"}`), c)}
		calls[version+" resource"] = [2]*http.Request{plain(methodCall(1, "resources/read", `{"uri":"static://one"}`), c), plain(methodCall(1, "resources/read", `{"uri":"static://none"}`), c)}
	}
	c := r.connect("2025-11-25", `{"elicitation":{}}`, withScope(scope))
	calls["2025-11-25 task"] = [2]*http.Request{plain(taskCall(1, "seat", "{}", "{}"), c), plain(taskCall(1, "none", "{}", "{}"), c)}
	c = r.connect("2025-11-25", asyncTools, withScope(scope))
	calls["operation"] = [2]*http.Request{plain(methodCall(1, "tools/call", `{"name":"seat","arguments":{},"operation":{}}`), c), plain(methodCall(1, "tools/call", `{"name":"none","arguments":{},"operation":{}}`), c)}
	c = r.connect("2025-03-26", "{}", withScope(scope))
	calls["batch"] = [2]*http.Request{plain("["+toolCall(2, "seat", "{}")+"]", c), plain("["+toolCall(2, "none", "{}")+"]", c)}
	return calls
}

// What a caller may not see reads as what there is not, and what takes another permission says so before anything else.
func TestCallsOfWhatACallerMayNotUse(t *testing.T) {
	r := newPermitRig(t)
	send := func(q *http.Request) (int, string, string) {
		resp, err := r.client().Do(q)
		require.NoError(t, err)
		return resp.StatusCode, resp.Header.Get("WWW-Authenticate"), strings.ReplaceAll(readAll(t, resp), "static://one", "static://none")
	}
	for what, pair := range refusedCalls(t, r, "none") {
		status, challenge, body := send(pair[0])
		wantStatus, _, want := send(pair[1])
		assert.Equal(t, wantStatus, status, what)
		assert.Equal(t, want, body, what)
		assert.Empty(t, challenge)
	}
	for what, pair := range refusedCalls(t, r, "asks") {
		status, challenge, body := send(pair[0])
		assert.Equal(t, 403, status, "%s: %s", what, body)
		assert.Equal(t, stepUp, challenge, what)
		assert.NotContains(t, body, "secret")
	}
	for what, pair := range refusedCalls(t, r, "fault") {
		_, challenge, body := send(pair[0])
		assert.Contains(t, body, "internal error", what)
		assert.Empty(t, challenge)
		assert.NotContains(t, body, "secret")
	}
	for what, pair := range refusedCalls(t, r, "office") {
		resp, err := r.client().Do(pair[0])
		require.NoError(t, err)
		assert.Equal(t, 200, resp.StatusCode, what)
		assert.NoError(t, resp.Body.Close()) // some ask on it
	}
	assert.Contains(t, r.log.take(), "secret")
}

// permits is a Permit whose answer for all changes.
type permits struct{ lost atomic.Pointer[error] }

// errNoAnswer stands for whom it asks not answering.
var errNoAnswer = errors.New("no answer")

func (p *permits) permit(ctx context.Context, _ saga.Caller, kind, name string) error {
	if lost := p.lost.Load(); lost != nil && kind+" "+name != "tool plain" {
		if *lost == errNoAnswer {
			<-ctx.Done()
			return ctx.Err()
		}
		return *lost
	}
	return nil
}

// A caller who has lost the permission meanwhile goes on with nothing, whatever it has in the hand: a token, a task, a
// session that waits for its answer. It can have undone what it has begun, and does not see more of it.
func TestPermissionsThatAreLost(t *testing.T) {
	for name, lost := range map[string]error{"hidden": server.ErrHidden, "a scope": &server.AuthError{Status: 403, Challenge: stepUp}} {
		t.Run(name, func(t *testing.T) {
			var p permits
			g := newGuarded(t, func(o *server.Options) { o.Hooks, o.Permit = nil, p.permit })
			refused := func(what string, q *request, like string) {
				m := g.there.send(asAnn(q))
				require.NotNil(t, m.Error, what)
				if want := 403; name == "a scope" {
					assert.Equal(t, want, m.status, what)
					assert.Equal(t, stepUp, m.header.Get("WWW-Authenticate"), what)
					return
				}
				assert.Contains(t, m.Error.Message, like, what)
			}
			state := g.here.state(asAnn(callTool("twice", nil)))
			_, body := g.here.do("POST", "/mcp", methodCall(1, "tools/callSaga", `{"name":"twice"}`), func(q *http.Request) { q.Header.Set("User", "ann") })
			var begun struct{ SagaToken string }
			require.NoError(t, json.Unmarshal(parseLegacy(t, body).Result, &begun))
			task := g.here.begin(asAnn(callTool("twice", nil))).TaskID
			until(t, func() bool {
				return readTask(t, g.here.send(asAnn(taskRequest("get", task))).Result).Status == "input_required"
			})
			c := g.here.user("ann", "2025-11-25")
			held := c.stream(toolCall(1, "twice", "{}"))
			question := held.wait("elicitation/create")

			p.lost.Store(&lost)
			answers := object{"sure": object{"action": "accept", "content": object{"sure": true}}}
			refused("state", callTool("twice", nil).with(allCapabilities).answering(state, answers), "there is no tool of that name")
			refused("token", modernRequest("tools/resumeSaga", object{"sagaToken": begun.SagaToken, "completedSteps": []object{{"stepId": "sure", "result": answers["sure"]}}}), "the saga token is not valid here")
			refused("get", taskRequest("get", task), "there is no such task")
			refused("update", taskRequest("update", task, object{"inputResponses": answers}), "there is no such task")
			for _, method := range []string{"get", "result"} {
				resp := c.request("POST", aboutTask(2, method, task), nil)
				body := readAll(t, resp)
				assert.Contains(t, body, `"error"`)
				assert.Equal(t, map[bool]int{true: 403, false: 200}[name == "a scope"], resp.StatusCode, method+body)
			}
			assert.Empty(t, c.listed())
			resp := c.request("POST", `{"jsonrpc":"2.0","id":`+string(question.ID)+`,"result":{"action":"accept","content":{"sure":true}}}`, nil)
			assert.Less(t, 399, resp.StatusCode, readAll(t, resp))
			if name == "a scope" {
				assert.Equal(t, 403, resp.StatusCode)
			}
			g.there.ack(asAnn(taskRequest("cancel", task)))
			m := g.there.send(asAnn(modernRequest("tools/cancelSaga", object{"sagaToken": begun.SagaToken})))
			assert.Nil(t, m.Error, m.raw)
			p.lost.Store(nil)
			until(t, func() bool {
				return readTask(t, g.here.send(asAnn(taskRequest("get", task))).Result).Status == "cancelled"
			})
		})
	}
}

// A turn that the server takes by itself is not taken if its caller may not use the tool any more, and put off as long as
// that cannot be said.
func TestServersTakeNoTurnsOfWhatIsNotPermitted(t *testing.T) {
	for name, lost := range map[string]error{"hidden": server.ErrHidden, "a scope": &server.AuthError{Status: 403}, "a fault": errors.New("secret"), "no answer": errNoAnswer} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var p permits
				g := newGuarded(t, func(o *server.Options) { o.Hooks, o.Permit = nil, p.permit })
				id := g.here.begin(asAnn(callTool("nap", object{"millis": 3000}))).TaskID
				time.Sleep(time.Second)
				p.lost.Store(&lost)
				time.Sleep(5 * time.Second)
				p.lost.Store(nil)
				time.Sleep(2 * time.Minute)
				if got := readTask(t, g.here.send(asAnn(taskRequest("get", id))).Result); name == "a fault" || name == "no answer" {
					assert.Equal(t, "completed", got.Status)
				} else {
					assert.Equal(t, "failed", got.Status)
					assert.NotContains(t, got.Error.Message, "secret")
				}
				g.here.srv.Close()
				g.there.srv.Close()
			})
		})
	}
}

// A first turn that another server takes is taken for who may still use the tool.
func TestFirstTurnsElsewhereArePermitted(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var p permits
		store := ledger.NewMemory(ledger.MemoryOptions{})
		o := server.Options{Keys: newKeys(t), Authenticate: users, Ledger: store, Tools: taskTools(), Permit: p.permit, Workers: -1}
		here := newRig(t, o)
		id := here.begin(asAnn(callTool("twice", nil))).TaskID
		p.lost.Store(&server.ErrHidden)
		o.Workers = 1
		there := newRig(t, o)
		time.Sleep(5 * time.Second)
		p.lost.Store(nil)
		assert.Equal(t, "failed", readTask(t, there.send(asAnn(taskRequest("get", id))).Result).Status)
		here.srv.Close()
		there.srv.Close()
	})
}

// A client that may still read, though its request's context has ended, learns of what failed for that reason that it may try again.
func TestWhatFailsAsTheRequestIsCutOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s, _ := newGuest(t, server.Options{Tools: []saga.Definition{roomTool(1, nil)}, Permit: func(ctx context.Context, _ saga.Caller, _, _ string) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}})
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":` + string(modernParams(`"name":"room"`, "")) + `}`
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/callSaga", "Mcp-Name": "room",
	} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Contains(t, w.Body.String(), "the request was cut off: send the same request again")
}
