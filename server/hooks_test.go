package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type next = func(context.Context) error

// noted are hooks that note what they are called around.
type noted struct {
	mu    sync.Mutex
	lines []string
	sagas map[saga.ID]bool
}

func (n *noted) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *noted) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := n.lines
	n.lines = nil
	return lines
}

func (n *noted) hooks() server.Hooks {
	return server.Hooks{
		Request: func(ctx context.Context, r *server.RequestInfo, next next) error {
			n.add("> %s of %s", r.Method, r.Caller.Subject)
			err := next(ctx)
			n.add("< %s: %v", r.Method, err)
			return err
		},
		Turn: func(ctx context.Context, t *server.TurnInfo, next next) error {
			n.mu.Lock()
			n.sagas[t.Saga] = true
			n.mu.Unlock()
			n.add("> %s %d of the %s %q by %s", t.Action, t.Turn, t.Kind, t.Name, t.Request.Method)
			err := next(ctx)
			n.add("< %s%s: %v", t.Outcome, strings.TrimRight(" "+t.Reason, " "), err)
			return err
		},
		Effect: func(ctx context.Context, e *server.EffectInfo, next next) error {
			err := next(ctx)
			n.add("%s %d, undo=%v, in turn %d, %v", e.Name, e.Attempt, e.Undo, e.Turn.Turn, err)
			return err
		},
	}
}

// newHooked returns a server with hooks, and the room that its tool holds.
func newHooked(t *testing.T, hooks ...server.Hooks) (*server.Server, map[saga.Key]bool, *logBuffer) {
	held := make(map[saga.Key]bool)
	s, log := newGuest(t, server.Options{Tools: []saga.Definition{roomTool(1, held)}, Hooks: hooks})
	return s, held, log
}

// ann sends a request and returns the result, or the error.
func ann(s *server.Server, r *server.Request) jsontest.Value {
	r.Caller = saga.Caller{Subject: "ann"}
	raw, err := s.Handle(context.Background(), r)
	var rerr *server.Error
	if errors.As(err, &rerr) {
		raw, _ = json.Marshal(map[string]any{"code": rerr.Code, "message": rerr.Message, "data": rerr.Data})
	}
	return jsontest.Parse(raw)
}

func sagaRequest(method, params string) *server.Request {
	return &server.Request{Method: "tools/" + method, Params: json.RawMessage(params)}
}

// modernParams are parameters with the _meta of 2026-07-28.
func modernParams(members, meta string) json.RawMessage {
	return json.RawMessage(`{` + members + `,"_meta":{` + meta + `"io.modelcontextprotocol/protocolVersion":"2026-07-28",
		"io.modelcontextprotocol/clientCapabilities":` + elicits + `}}`)
}

// agreeing is a peer that accepts everything.
func agreeing() *guestPeer {
	return &guestPeer{ask: func(context.Context, string, json.RawMessage) (steps.Answer, error) {
		return steps.Answer{Result: json.RawMessage(`{"action":"accept","content":{"sure":true}}`)}, nil
	}}
}

const callRoomParams = `{"name":"room"}`

func resumeRoom(token, answer string) string {
	return `{"sagaToken":"` + token + `","completedSteps":[{"stepId":"sure","result":` + answer + `}]}`
}

const (
	sureYes = `{"action":"accept","content":{"sure":true}}`
	sureNo  = `{"action":"decline"}`
)

func TestHooksSeeWhatIsDone(t *testing.T) {
	n := &noted{sagas: make(map[saga.ID]bool)}
	s, held, _ := newHooked(t, n.hooks())
	t.Run("saga proposal", func(t *testing.T) {
		token := ann(s, sagaRequest("callSaga", callRoomParams)).Get("sagaToken").String()
		assert.Equal(t, []string{
			"> tools/callSaga of ann", `> call 1 of the tool "room" by tools/callSaga`, "room 1, undo=false, in turn 1, <nil>",
			"< suspended: <nil>", "< tools/callSaga: <nil>",
		}, n.take())
		ann(s, sagaRequest("resumeSaga", resumeRoom(token, sureNo)))
		assert.Equal(t, []string{
			"> tools/resumeSaga of ann", `> resume 2 of the tool "room" by tools/resumeSaga`, "room 1, undo=true, in turn 2, <nil>",
			"< failed: <nil>", "< tools/resumeSaga: <nil>",
		}, n.take())
		ann(s, sagaRequest("cancelSaga", `{"sagaToken":"`+token+`"}`))
		assert.Contains(t, n.take(), "< undone cancelled: <nil>")
		assert.Len(t, n.sagas, 1, "all turns are of one saga")
		ann(s, sagaRequest("resumeSaga", resumeRoom(token, `{"action":"maybe"}`)))
		assert.Contains(t, strings.Join(n.take(), "\n"), `< refused answer: step "sure": `)
		ann(s, sagaRequest("resumeSaga", resumeRoom("nonsense", sureYes)))
		assert.Equal(t, []string{
			"> tools/resumeSaga of ann", `> resume 0 of the  "" by tools/resumeSaga`, "< refused version: token not accepted",
			"< tools/resumeSaga: the saga token is not valid here, or no longer: unless its saga has ended and acted, start again with tools/callSaga",
		}, n.take())
	})
	t.Run("2026-07-28", func(t *testing.T) {
		state := ann(s, &server.Request{Method: "tools/call", Version: "2026-07-28", Params: modernParams(`"name":"room"`, "")}).Get("requestState").String()
		assert.Contains(t, n.take(), "< suspended: <nil>")
		r := ann(s, &server.Request{Method: "tools/call", Version: "2026-07-28", Params: modernParams(`"name":"room","requestState":"`+state+`","inputResponses":{"sure":`+sureYes+`}`, "")})
		assert.Equal(t, "yours", r.Get("content.0.text").String(), r.Raw)
		assert.Equal(t, []string{"> tools/call of ann", `> resume 2 of the tool "room" by tools/call`, "< done: <nil>", "< tools/call: <nil>"}, n.take())
	})
	t.Run("older clients", func(t *testing.T) {
		ann(s, &server.Request{Method: "tools/call", Version: "2025-11-25", Capabilities: json.RawMessage(elicits), Params: json.RawMessage(callRoomParams), Peer: agreeing()})
		assert.Equal(t, []string{
			"> tools/call of ann", `> call 1 of the tool "room" by tools/call`, "room 1, undo=false, in turn 1, <nil>", "< suspended: <nil>",
			`> resume 2 of the tool "room" by tools/call`, "< done: <nil>", "< tools/call: <nil>",
		}, n.take())
	})
	assert.NotEmpty(t, held)
}

// What a hook refuses has not happened, and what it says gets to the client.
func TestHooksRefuse(t *testing.T) {
	type hookError struct {
		err     error
		code    int64
		message string
	}
	for name, e := range map[string]hookError{
		"finally":           {&server.Error{Message: "not for you"}, -32600, "not for you"},
		"with its own code": {fmt.Errorf("wrapped: %w", &server.Error{Code: -32001, Message: "not for you"}), -32001, "not for you"},
		"for now":           {server.TryAgain("too many: send the same request again", time.Minute), -31503, "too many: send the same request again"},
		"by a fault":        {errors.New("secret"), -32603, "internal error"},
		"by saying nothing": {nil, -32603, "internal error"},
	} {
		t.Run("a request, "+name, func(t *testing.T) {
			s, held, log := newHooked(t, server.Hooks{Request: func(context.Context, *server.RequestInfo, next) error { return e.err }})
			for _, r := range []*server.Request{
				sagaRequest("callSaga", callRoomParams),
				{Method: "tools/call", Version: "2026-07-28", Params: modernParams(`"name":"room"`, "")},
				{Method: "tools/call", Version: "2025-11-25", Capabilities: json.RawMessage(elicits), Params: json.RawMessage(callRoomParams), Peer: agreeing()},
			} {
				got := ann(s, r)
				assert.Equal(t, e.code, got.Get("code").Int(), got.Raw)
				assert.Equal(t, e.message, got.Get("message").String())
			}
			assert.Empty(t, held)
			assert.Equal(t, e.code == -32603, strings.Contains(log.take(), "a hook failed"), "faults are logged")
		})
		t.Run("a turn, "+name, func(t *testing.T) {
			refuses := ""
			s, held, log := newHooked(t, server.Hooks{Turn: func(ctx context.Context, i *server.TurnInfo, next next) error {
				if i.Action == refuses && i.Name == "room" && i.Request.Caller.Subject == "ann" {
					return e.err
				}
				return next(ctx)
			}})
			refuses = "call"
			got := ann(s, sagaRequest("callSaga", callRoomParams))
			assert.Equal(t, e.code, got.Get("code").Int(), got.Raw)
			assert.Equal(t, e.message, got.Get("message").String())
			assert.Empty(t, held, "nothing was run")
			refuses = "resume"
			token := ann(s, sagaRequest("callSaga", callRoomParams)).Get("sagaToken").String()
			assert.Equal(t, e.code, ann(s, sagaRequest("resumeSaga", resumeRoom(token, sureYes))).Get("code").Int())
			assert.Len(t, held, 1)
			refuses = ""
			assert.Equal(t, "yours", ann(s, sagaRequest("resumeSaga", resumeRoom(token, sureYes))).Get("content.0.text").String(), "the token is still good")
			said := log.take()
			assert.Equal(t, e.code == -32603, strings.Contains(said, "turn failed"), said)
			assert.Equal(t, e.code != -32603, strings.Contains(said, "turn refused"), said)
		})
	}
}

// A client that is asked while its request is served cannot come back, so what it has
// done is undone, whatever hooks say to that.
func TestHooksDoNotKeepFromUndoing(t *testing.T) {
	s, held, _ := newHooked(t, server.Hooks{Turn: func(ctx context.Context, i *server.TurnInfo, next next) error {
		if i.Turn > 1 {
			return &server.Error{Message: "no more"}
		}
		return next(ctx)
	}, Effect: func(ctx context.Context, e *server.EffectInfo, next next) error {
		if assert.NotNil(t, e.Turn) {
			assert.Equal(t, "room", e.Turn.Name)
		}
		return next(ctx)
	}})
	r := ann(s, &server.Request{Method: "tools/call", Version: "2025-11-25", Capabilities: json.RawMessage(elicits), Params: json.RawMessage(callRoomParams), Peer: agreeing()})
	assert.Equal(t, "no more", r.Get("message").String(), r.Raw)
	assert.Empty(t, held)
}

// Whatever a hook makes of what was done, it was done.
func TestHooksCannotTakeBack(t *testing.T) {
	broken := errors.New("broken")
	for name, after := range map[string]func() error{
		"an error": func() error { return broken },
		"a panic":  func() error { panic("oops") },
	} {
		t.Run(name, func(t *testing.T) {
			s, held, log := newHooked(t, server.Hooks{
				Request: func(ctx context.Context, _ *server.RequestInfo, next next) error { _ = next(ctx); return after() },
				Turn:    func(ctx context.Context, _ *server.TurnInfo, next next) error { _ = next(ctx); return after() },
				Effect:  func(ctx context.Context, _ *server.EffectInfo, next next) error { _ = next(ctx); return after() },
			})
			token := ann(s, sagaRequest("callSaga", callRoomParams)).Get("sagaToken").String()
			require.NotEmpty(t, token)
			require.Len(t, held, 1)
			if name == "a panic" {
				assert.Equal(t, 3, strings.Count(log.take(), "a hook panicked"), "each is told once")
			}
			ann(s, sagaRequest("cancelSaga", `{"sagaToken":"`+token+`"}`))
			assert.Empty(t, held)
		})
	}
	s, held, log := newHooked(t, server.Hooks{Request: func(context.Context, *server.RequestInfo, next) error { panic("oops") }})
	assert.Equal(t, "internal error", ann(s, sagaRequest("callSaga", callRoomParams)).Get("message").String())
	assert.Empty(t, held)
	assert.Contains(t, log.take(), "hooks_test.go", "the log has the stack")
	s, held, log = newHooked(t, server.Hooks{Turn: func(context.Context, *server.TurnInfo, next) error { panic("oops") }})
	assert.Equal(t, "internal error", ann(s, sagaRequest("callSaga", callRoomParams)).Get("message").String())
	assert.Empty(t, held)
	assert.Contains(t, log.take(), "hooks_test.go")
}

// What is no JSON does not spoil the response.
func TestHooksRefuseWithDataThatIsNoJSON(t *testing.T) {
	for _, data := range []string{"", "oops", "{}}"} {
		s, _, _ := newHooked(t, server.Hooks{Request: func(context.Context, *server.RequestInfo, next) error {
			return &server.Error{Message: "no", Data: json.RawMessage(data)}
		}})
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		r.Header.Set("Content-Type", "application/json")
		s.Handler().ServeHTTP(w, r)
		assert.Equal(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"no"}}`, w.Body.String())
	}
}

// A hook that returns before what it has begun has ended is waited for, and one that comes
// late has nothing done: nothing of a request goes on when its response is out.
func TestHooksThatDoNotWait(t *testing.T) {
	early := func(ctx context.Context, next next) error {
		began := make(chan struct{})
		go func() {
			close(began)
			_ = next(ctx)
		}()
		<-began
		time.Sleep(time.Millisecond)
		return nil
	}
	s, held, _ := newHooked(t, server.Hooks{
		Request: func(ctx context.Context, _ *server.RequestInfo, next next) error { return early(ctx, next) },
		Turn:    func(ctx context.Context, _ *server.TurnInfo, next next) error { return early(ctx, next) },
		Effect:  func(ctx context.Context, _ *server.EffectInfo, next next) error { return early(ctx, next) },
	})
	got := ann(s, sagaRequest("callSaga", callRoomParams))
	if token := got.Get("sagaToken").String(); token != "" { // or none has begun in time
		assert.Len(t, held, 1)
	} else {
		assert.Empty(t, held, got.Raw)
	}
	var kept []next
	var mu sync.Mutex
	keep := func(next next) error { mu.Lock(); defer mu.Unlock(); kept = append(kept, next); return nil }
	s, held, _ = newHooked(t, server.Hooks{Turn: func(_ context.Context, _ *server.TurnInfo, next next) error { return keep(next) }})
	assert.Equal(t, "internal error", ann(s, sagaRequest("callSaga", callRoomParams)).Get("message").String())
	for _, next := range kept {
		assert.Error(t, next(t.Context()))
	}
	assert.Empty(t, held)
}

// A hook's error is one of the effect: it is tried again, and undone if it stays.
func TestHooksOfEffects(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		for fails, want := range map[int][]string{
			2: {"Do 1", "Do 2", "Do 3"},
			3: {"Do 1", "Do 2", "Do 3", "Undo 1"},
		} {
			var tries []string
			keys := make(map[saga.Key]bool)
			s, held, _ := newHooked(t, server.Hooks{Effect: func(ctx context.Context, e *server.EffectInfo, next next) error {
				what := map[bool]string{false: "Do", true: "Undo"}[e.Undo]
				tries = append(tries, fmt.Sprint(what, " ", e.Attempt))
				keys[e.Key] = true
				if !e.Undo && e.Attempt <= fails {
					return errors.New("not now")
				}
				return next(ctx)
			}})
			r := ann(s, sagaRequest("callSaga", callRoomParams))
			assert.Equal(t, fails == 2, r.Get("sagaToken").Exists(), r.Raw)
			assert.Equal(t, fails == 2, len(held) == 1)
			assert.Equal(t, want, tries)
			assert.Len(t, keys, 1)
		}
	})
}

// The first hooks are outermost, and what they put into the context is inside.
func TestHooksAreNested(t *testing.T) {
	type key struct{}
	var order []string
	hooks := func(name string) server.Hooks {
		enter := func(ctx context.Context, what string) context.Context {
			path, _ := ctx.Value(key{}).(string)
			path += " " + name + "." + what
			order = append(order, strings.TrimSpace(path))
			return context.WithValue(ctx, key{}, path)
		}
		return server.Hooks{
			Request: func(ctx context.Context, _ *server.RequestInfo, next next) error { return next(enter(ctx, "request")) },
			Turn:    func(ctx context.Context, _ *server.TurnInfo, next next) error { return next(enter(ctx, "turn")) },
			Effect:  func(ctx context.Context, _ *server.EffectInfo, next next) error { return next(enter(ctx, "effect")) },
		}
	}
	s, _, _ := newHooked(t, hooks("a"), server.Hooks{}, hooks("b"))
	ann(s, sagaRequest("callSaga", callRoomParams))
	require.Len(t, order, 6)
	assert.Equal(t, "a.request b.request a.turn b.turn a.effect b.effect", order[5])
}
