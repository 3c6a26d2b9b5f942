package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// watching notes what an observer is told, under a name.
func watching(n *noted, name string) server.Observer {
	ended := func(format string, args ...any) func(error) {
		return func(err error) { n.add(name+" < "+format+": %v", append(args, err)...) }
	}
	return server.Observer{
		Request: func(ctx context.Context, r *server.RequestInfo) (context.Context, func(error)) {
			n.add("%s > %s", name, r.Method)
			return ctx, ended(r.Method)
		},
		Turn: func(ctx context.Context, t *server.TurnInfo) (context.Context, func(error)) {
			n.add("%s > %s %d of %s by %s", name, t.Action, t.Turn, t.Name, t.Request.Method)
			return ctx, func(err error) {
				n.add("%s < %s %s, asked %d, answered %d, token %t: %v", name, t.Outcome, t.Reason, len(t.Asked), len(t.Answers), t.TokenSize > 100, err)
			}
		},
		Effect: func(ctx context.Context, e *server.EffectInfo) (context.Context, func(error)) {
			return ctx, ended("%s in turn %d", e.Name, e.Turn.Turn)
		},
	}
}

// Observers see what hooks do, the first around the others, and hooks may be there or not.
func TestObserversSeeASaga(t *testing.T) {
	for _, hooked := range []bool{false, true} {
		t.Run(fmt.Sprint(hooked), func(t *testing.T) {
			n := new(noted)
			held := make(map[saga.Key]bool)
			o := server.Options{Tools: []saga.Definition{roomTool(1, held)}, Observers: []server.Observer{watching(n, "a"), {}, watching(n, "b")}}
			if hooked {
				passes := noted{sagas: make(map[saga.ID]bool)}
				o.Hooks = []server.Hooks{passes.hooks()}
			}
			s, _ := newGuest(t, o)
			token := ann(s, sagaRequest("callSaga", callRoomParams)).Get("sagaToken").String()
			assert.Equal(t, []string{
				"a > tools/callSaga", "b > tools/callSaga", "a > call 1 of room by tools/callSaga", "b > call 1 of room by tools/callSaga",
				"b < room in turn 1: <nil>", "a < room in turn 1: <nil>",
				"b < suspended , asked 1, answered 0, token true: <nil>", "a < suspended , asked 1, answered 0, token true: <nil>",
				"b < tools/callSaga: <nil>", "a < tools/callSaga: <nil>",
			}, n.take())
			ann(s, sagaRequest("resumeSaga", resumeRoom(token, sureYes)))
			assert.Equal(t, []string{
				"a > resume 2 of room by tools/resumeSaga", "b > resume 2 of room by tools/resumeSaga",
				"b < done , asked 0, answered 1, token false: <nil>", "a < done , asked 0, answered 1, token false: <nil>",
			}, n.take()[2:6])
			ann(s, sagaRequest("resumeSaga", resumeRoom("no token", sureYes)))
			lines := n.take()
			assert.Contains(t, lines[5], "a < refused version, asked 0", lines)
			assert.Regexp(t, `^a < tools/resumeSaga: .+token`, lines[7])
		})
	}
}

// Observers see what hooks refuse.
func TestObserversSeeRefusals(t *testing.T) {
	n := new(noted)
	s, _ := newGuest(t, server.Options{
		Tools: []saga.Definition{roomTool(1, nil)}, Observers: []server.Observer{watching(n, "a")},
		Hooks: []server.Hooks{{Turn: func(context.Context, *server.TurnInfo, next) error { return server.TryAgain("not now", time.Second) }}},
	})
	ann(s, sagaRequest("callSaga", callRoomParams))
	lines := n.take()
	assert.Contains(t, lines[2], "a < refused hook, asked 0")
	assert.Equal(t, "a < tools/callSaga: not now", lines[3])
}

// An observer that panics has no influence.
func TestObserversThatPanic(t *testing.T) {
	n := new(noted)
	bad := server.Observer{
		Request: func(context.Context, *server.RequestInfo) (context.Context, func(error)) { panic("one") },
		Turn: func(ctx context.Context, _ *server.TurnInfo) (context.Context, func(error)) {
			return nil, func(error) { panic(errors.New("two")) }
		},
		Effect: func(ctx context.Context, _ *server.EffectInfo) (context.Context, func(error)) {
			return ctx, func(error) { panic("three") }
		},
	}
	held := make(map[saga.Key]bool)
	s, log := newGuest(t, server.Options{Tools: []saga.Definition{roomTool(1, held)}, Observers: []server.Observer{bad, watching(n, "a"), bad}})
	token := ann(s, sagaRequest("callSaga", callRoomParams)).Get("sagaToken").String()
	v := ann(s, sagaRequest("resumeSaga", resumeRoom(token, sureYes)))
	assert.Equal(t, "yours", v.Get("content.0.text").String(), v.Raw)
	assert.Len(t, n.take(), 9)
	logged := log.take()
	for _, what := range []string{"one", "two", "three"} {
		assert.Contains(t, logged, what)
	}
}

// How old an answer is, is known to the replica that gets it, and what an observer says of the trace goes with the token.
func TestObserversSayWhereASagaBegan(t *testing.T) {
	now := time.Now()
	var waited []time.Duration
	var traces []string
	s, _ := newGuest(t, server.Options{
		Tools: []saga.Definition{roomTool(1, make(map[saga.Key]bool))}, Now: func() time.Time { return now },
		Observers: []server.Observer{{
			Request: func(ctx context.Context, r *server.RequestInfo) (context.Context, func(error)) {
				if r.Trace == "" {
					r.Trace = traceTwo
				}
				return ctx, nil
			},
			Turn: func(ctx context.Context, i *server.TurnInfo) (context.Context, func(error)) {
				waited, traces = append(waited, i.Waited), append(traces, i.Trace)
				return ctx, nil
			},
		}},
	})
	token := ann(s, sagaRequest("callSaga", callRoomParams)).Get("sagaToken").String()
	now = now.Add(3 * time.Minute)
	ann(s, sagaRequest("resumeSaga", resumeRoom(token, sureYes)))
	assert.Equal(t, []string{traceTwo, traceTwo}, traces)
	assert.Zero(t, waited[0])
	assert.InDelta(t, 180, waited[1].Seconds(), 1)
}

// What a request says of itself is read when somebody asks.
func TestRequestsOfObservers(t *testing.T) {
	var ids, states []string
	s, _ := newGuest(t, server.Options{Tools: []saga.Definition{roomTool(1, nil)}, Observers: []server.Observer{{
		Request: func(ctx context.Context, r *server.RequestInfo) (context.Context, func(error)) {
			ids, states = append(ids, r.ID()), append(states, r.TraceState())
			return ctx, nil
		},
	}}})
	ann(s, &server.Request{Method: "tools/list", Version: "2026-07-28", Params: modernParams(`"a":1`, `"traceparent":"`+traceOne+`","tracestate":"a=b",`)})
	ann(s, &server.Request{Method: "tools/list", Version: "2026-07-28", Params: modernParams(`"a":1`, "")})
	assert.Equal(t, []string{"a=b", ""}, states)
	assert.Len(t, ids, 2)
}

// A tracestate belongs to the traceparent that it came with, and not to that in another place of the request.
func TestTraceStateIsBesideTheTrace(t *testing.T) {
	var states []string
	s, _ := newGuest(t, server.Options{Tools: []saga.Definition{roomTool(1, nil)}, Observers: []server.Observer{{
		Request: func(ctx context.Context, r *server.RequestInfo) (context.Context, func(error)) {
			states = append(states, r.TraceState())
			return ctx, nil
		},
	}}})
	for _, meta := range []string{`"traceparent":"` + traceOne + `",`, `"tracestate":"a=b",`, ""} {
		ann(s, &server.Request{
			Method: "tools/list", Version: "2026-07-28", Params: modernParams(`"a":1`, meta),
			Header: http.Header{"Traceparent": {traceTwo}, "Tracestate": {"proxy=1"}},
		})
	}
	assert.Equal(t, []string{"", "proxy=1", "proxy=1"}, states)
}
