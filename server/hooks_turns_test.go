package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// turnHook has one Turn hook on all servers of a test.
type turnHook struct {
	mu    sync.Mutex
	turns []string
	// refuse returns why a turn is refused, or nil.
	refuse func(*server.TurnInfo) error
}

func (h *turnHook) hooks() []server.Hooks {
	return []server.Hooks{{Turn: func(ctx context.Context, t *server.TurnInfo, next next) error {
		h.mu.Lock()
		h.turns = append(h.turns, fmt.Sprintf("%s %s %s: %s of %s by %s", t.Action, t.Kind, t.Name, t.Request.Method, t.Request.Caller.Subject, t.Request.Dialect))
		refuse := h.refuse
		h.mu.Unlock()
		if refuse != nil {
			if err := refuse(t); err != nil {
				return err
			}
		}
		return next(ctx)
	}}}
}

func (h *turnHook) seen() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.turns
}

// guarded are two servers with one ledger and a hook, whose callers are known.
type guarded struct {
	turnHook
	seats
	here, there *rig
}

// newGuarded begins with one server; the other one is there from [guarded.restart] on.
func newGuarded(t *testing.T, change ...func(*server.Options)) *guarded {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	g := new(guarded)
	tool := g.tool()
	tool.Tasks = saga.Tasks{Mode: saga.TasksOptional, TTL: time.Hour, Poll: 250 * time.Millisecond}
	o := server.Options{
		Keys: newKeys(t), Authenticate: users, Ledger: store, Hooks: g.hooks(),
		Tools: append(taskTools(), tool, legacyPrompt, legacyNotes),
	}
	for _, f := range change {
		f(&o)
	}
	g.here, g.there = newRig(t, o), newRig(t, o)
	return g
}

// guardedWay takes a saga through its turns: it begins at one server and goes on at the other, which
// alone works from then on if restarted is called.
type guardedWay struct {
	what, method, dialect string
	take                  func(t *testing.T, g *guarded, restarted func()) (said string)
}

func asAnn(q *request) *request {
	q.header.Set("User", "ann")
	return q
}

// annsTask has a task asked and answered until it has ended.
func annsTask(t *testing.T, g *guarded, tool string, restarted func(), answers ...object) taskShown {
	id := g.here.begin(asAnn(callTool(tool, nil))).TaskID
	get := func() taskShown { return readTask(t, g.there.send(asAnn(taskRequest("get", id))).Result) }
	for i, a := range answers {
		var s taskShown
		require.Eventually(t, func() bool { s = get(); return s.Status != "working" }, time.Minute, 20*time.Millisecond, "it works on and on")
		if s.Status != "input_required" {
			return s
		}
		if i == 0 {
			restarted()
		}
		responses := object{}
		for key := range s.InputRequests {
			name, _, _ := strings.Cut(key, "~")
			responses[key] = a[name]
		}
		g.there.ack(asAnn(taskRequest("update", id, object{"inputResponses": responses})))
	}
	var s taskShown
	require.Eventually(t, func() bool { s = get(); return s.Status != "working" && s.Status != "input_required" }, time.Minute, 20*time.Millisecond, "it works on and on")
	return s
}

// created is the task that a call has begun.
func created(t *testing.T, m legacyMessage) string {
	var begun struct{ Task legacyTask }
	require.NoError(t, json.Unmarshal(m.Result, &begun))
	return begun.Task.TaskID
}

var guardedWays = []guardedWay{
	{"task of MCP 2026-07-28", "tools/call", "MCP 2026-07-28", func(t *testing.T, g *guarded, restarted func()) string {
		s := annsTask(t, g, "seat", restarted, rowSeven, sevenSure)
		if s.Error != nil {
			return fmt.Sprint(s.Status, " ", s.Error.Code, " ", s.Error.Message)
		}
		said, _ := text(t, s.members["result"])
		return said
	}},
	{"task of MCP 2025-11-25", "tools/call", "MCP 2024-11-05 to 2025-11-25", func(t *testing.T, g *guarded, restarted func()) string {
		c := g.here.user("ann", "2025-11-25")
		task := c.create("seat", "{}")
		restarted()
		return answerSeat(c.at(g.there), c.at(g.there).stream(aboutTask(2, "result", task.TaskID)))
	}},
	{"call with effects", "tools/call", "MCP 2024-11-05 to 2025-11-25", func(t *testing.T, g *guarded, _ func()) string {
		c := g.here.user("ann", "2025-11-25")
		return answerSeat(c.at(g.there), c.stream(toolCall(1, "seat", "{}")))
	}},
	{"call", "tools/call", "MCP 2024-11-05 to 2025-11-25", func(t *testing.T, g *guarded, _ func()) string {
		c := g.here.user("ann", "2025-11-25")
		return answerSeat(c.at(g.there), c.stream(toolCall(1, "twice", "{}")))
	}},
	{"prompt", "prompts/get", "MCP 2024-11-05 to 2025-11-25", func(t *testing.T, g *guarded, _ func()) string {
		c := g.here.user("ann", "2025-11-25")
		return answerSeat(c.at(g.there), c.stream(methodCall(1, "prompts/get", `{"name":"greeting","arguments":{"name":"I"}}`)))
	}},
	{"resource", "resources/read", "MCP 2024-11-05 to 2025-11-25", func(t *testing.T, g *guarded, _ func()) string {
		c := g.here.user("ann", "2025-11-25")
		return answerSeat(c.at(g.there), c.stream(methodCall(1, "resources/read", `{"uri":"notes://ask"}`)))
	}},
	{"asynchronous tool", "tools/call", "asynchronous tools (SEP-1391)", func(t *testing.T, g *guarded, restarted func()) string {
		c := g.here.connect("2025-11-25", asyncTools, byUser("ann"))
		c.begin(1, "seat", "{}", "anns-own-token")
		restarted()
		c = c.at(g.there)
		for {
			resp := c.post(asyncMessage(2, "status", "anns-own-token"))
			if resp.Header.Get("Content-Type") == "text/event-stream" {
				answerSeat(c, c.read(resp))
				continue
			}
			if status := decoded[operationStatus](t, readAll(t, resp)).Status; status == "completed" || status == "failed" {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		m := parseLegacy(t, c.ask(asyncMessage(3, "result", "anns-own-token")))
		if m.Error != nil {
			return fmt.Sprint(m.Error.Code, " ", m.Error.Message)
		}
		return string(m.Result)
	}},
	{"resumable request", "tools/call", "MCP 2024-11-05 to 2025-11-25", func(t *testing.T, g *guarded, restarted func()) string {
		c := g.here.connect("2025-11-25", `{"elicitation":{"form":{}},"resumableRequests":{}}`, byUser("ann"))
		s := c.stream(toolCall(1, "seat", "{}"))
		e := s.wait("notifications/requests/resumePolicy")
		var policy struct{ ResumeToken string }
		require.NoError(t, json.Unmarshal(e.Params, &policy))
		s.wait("elicitation/create")
		restarted()
		c = c.at(g.there)
		return answerSeat(c, c.stream(methodCall(1, "requests/resume", fmt.Sprintf(`{"resumeToken":%q}`, policy.ResumeToken))))
	}},
}

// answerSeat answers what is asked on a stream, in the words of the tools of this file, and returns
// the result, or the error.
func answerSeat(c *legacyClient, s *sseReader) string {
	for {
		m := s.message()
		switch {
		case m.Error != nil:
			return fmt.Sprint(m.Error.Code, " ", m.Error.Message)
		case m.Method == "":
			said, _ := text(c.t, m.Result)
			return said
		case m.Method == "elicitation/create":
			var q struct {
				Operation json.RawMessage `json:"_operation"`
			}
			require.NoError(c.t, json.Unmarshal(m.Params, &q))
			extra := ""
			if q.Operation != nil {
				extra = `"_operation":` + string(q.Operation) + ","
			}
			c.reply(m.ID, `{`+extra+`"action":"accept","content":{"row":"7","sure":true,"name":"x"}}`)
		}
	}
}

// A hook knows whose turn it is, and by which request, in every turn: also in those that the server
// takes by itself, on another server than the one where the request came in.
func TestHooksKnowTheCallerOfEveryTurn(t *testing.T) {
	for _, way := range guardedWays {
		t.Run(way.what, func(t *testing.T) {
			t.Parallel()
			g := newGuarded(t)
			way.take(t, g, g.here.srv.Close)
			seen := g.seen()
			require.GreaterOrEqual(t, len(seen), 2)
			for _, turn := range seen {
				assert.Contains(t, turn, ": "+way.method+" of ann by "+way.dialect)
			}
		})
	}
}

// What a hook refuses in a later turn ends the saga: the client hears what the hook says, and what
// the saga did is undone, though the hook would refuse that, too.
func TestHooksEndWhatTheyRefuse(t *testing.T) {
	for name, refusal := range map[string]struct {
		err  error
		want string
	}{
		"with an error of its own": {&server.Error{Code: -32001, Message: "you may not"}, "-32001 you may not"},
		"by a fault":               {errors.New("secret"), "-32603 internal error"},
	} {
		for _, way := range guardedWays {
			t.Run(way.what+" "+name, func(t *testing.T) {
				t.Parallel()
				g := newGuarded(t)
				g.refuse = func(i *server.TurnInfo) error {
					if i.Turn > 2 || i.Turn == 2 && way.what != "task of MCP 2026-07-28" && i.Name != "seat" {
						return refusal.err
					}
					return nil
				}
				want := refusal.want
				if way.what == "asynchronous tool" { // which has its own code, for a result that there is not
					_, want, _ = strings.Cut(want, " ")
				}
				assert.Contains(t, way.take(t, g, g.here.srv.Close), want)
				until(t, func() bool { held, _ := g.now(); return held == 0 })
				if _, calls := g.now(); way.method == "tools/call" && way.what != "call" {
					assert.Equal(t, 1, calls, "it has acted before")
				}
			})
		}
	}
}

// The documented hook for authorization, with a caller who may not: also what would be a task ends
// with what the hook says, at once or when it is looked at.
func TestHooksRefuseTasks(t *testing.T) {
	for name, slow := range map[string]time.Duration{"at once": 0, "later": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t)
			g.refuse = func(i *server.TurnInfo) error {
				if time.Sleep(slow); i.Action != "cancel" && i.Request.Caller.Subject != "bob" {
					return &server.Error{Message: "you may not order"}
				}
				return nil
			}
			said := make(chan string, 3)
			m := g.here.send(asAnn(callTool("seat", nil)).with(withTasks))
			if m.Error == nil {
				id := readTask(t, m.Result).TaskID
				var s taskShown
				until(t, func() bool {
					s = readTask(t, g.there.send(asAnn(taskRequest("get", id))).Result)
					return s.Status == "failed"
				})
				said <- fmt.Sprint(s.Error.Code, " ", s.Error.Message)
			} else {
				said <- fmt.Sprint(m.Error.Code, " ", m.Error.Message)
			}
			c := g.here.user("ann", "2025-11-25")
			one := parseLegacy(t, c.ask(taskCall(1, "seat", "{}", "{}")))
			if one.Error == nil {
				one = parseLegacy(t, c.ask(aboutTask(2, "result", created(t, one))))
			}
			said <- fmt.Sprint(one.Error.Code, " ", one.Error.Message)
			call := parseLegacy(t, c.ask(toolCall(3, "seat", "{}")))
			said <- fmt.Sprint(call.Error.Code, " ", call.Error.Message)
			for range 3 {
				assert.Equal(t, "-32600 you may not order", <-said)
			}
			for _, turn := range g.seen() {
				assert.Contains(t, turn, " of ann ")
			}
		})
	}
}

// A hook that says that it is too early has the turn taken later.
func TestHooksPutTurnsOff(t *testing.T) {
	for _, way := range guardedWays[:4] {
		t.Run(way.what, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				g := newGuarded(t)
				var first time.Time
				g.refuse = func(i *server.TurnInfo) error {
					if first.IsZero() && i.Turn == 2 {
						first = time.Now()
					}
					if i.Turn == 2 && time.Since(first) < 3*time.Second {
						return server.TryAgain("later", time.Second)
					}
					return nil
				}
				assert.Contains(t, []string{"seat in 7", "sure enough"}, way.take(t, g, func() {}))
				assert.GreaterOrEqual(t, time.Since(first), 3*time.Second)
				g.here.srv.Close()
				g.there.srv.Close()
			})
		})
	}
}

// A hook learns whose saga it is that the server undoes as its client never came back, and cannot
// keep the server from that.
func TestHooksKnowWhoseSagaIsUndone(t *testing.T) {
	now := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	g := newGuarded(t, func(o *server.Options) {
		o.Ledger, o.Now, o.TokenTTL = ledger.NewMemory(ledger.MemoryOptions{Now: now.Now}), now.Now, time.Hour
	})
	g.refuse = func(i *server.TurnInfo) error {
		if i.Action == "undo" {
			return &server.Error{Message: "no"}
		}
		return nil
	}
	post := func(message string) string {
		_, body := g.here.do(http.MethodPost, "/mcp", message, func(r *http.Request) { r.Header.Set("User", "ann") })
		return tokenOf(t, body)
	}
	token := post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"seat"}}`)
	post(seatMessage("resumeSaga", token, rowSeven))
	now.set(now.Now().Add(65 * time.Minute))
	until(t, func() bool { held, _ := g.now(); return held == 0 })
	assert.Contains(t, g.seen(), "undo tool seat: tools/resumeSaga of ann by saga proposal")
}
