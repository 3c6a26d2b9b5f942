package server_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// order is a tool that asks before it does something.
func order() saga.Definition {
	type none struct{}
	type sure struct {
		Sure bool `json:"sure"`
	}
	ask := &steps.Form[sure]{ID: "sure", Message: "Shall I order?"}
	place := &saga.Effect[string, string]{
		Name: "place-order", Irreversible: true,
		Do: func(context.Context, saga.Key, string) (string, error) { return "ordered", nil },
	}
	return saga.Flow[none, string]{
		Info: saga.Info{Name: "order", Asks: []steps.Question{ask}, Effects: []saga.Declared{place}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if answer, err := saga.Ask(r, ask); err != nil || !answer.Sure {
				return "not ordered", err
			}
			return saga.Do(r, place, "lunch")
		},
	}
}

// asClient calls the tool, agrees, and prints how that ended.
func asClient(s *server.Server, of saga.Caller, traceparent string) {
	send := func(method string, params map[string]any) (reply struct{ SagaToken string }) {
		params["_meta"] = map[string]any{"traceparent": traceparent}
		raw, _ := json.Marshal(params)
		result, err := s.Handle(context.Background(), &server.Request{Method: method, Params: raw, Caller: of})
		if err != nil {
			fmt.Println("the client reads:", err)
			return reply
		}
		_ = json.Unmarshal(result, &reply)
		return reply
	}
	if first := send("tools/callSaga", map[string]any{"name": "order"}); first.SagaToken != "" {
		agrees := map[string]any{"action": "accept", "content": map[string]any{"sure": true}}
		send("tools/resumeSaga", map[string]any{"sagaToken": first.SagaToken, "completedSteps": []any{map[string]any{"stepId": "sure", "result": agrees}}})
	}
}

// A line for each turn says what came of it. The words of Outcome and Reason are few, so
// they may be labels of metrics as well.
func ExampleHooks() {
	s := example(server.Options{
		Tools: []saga.Definition{order()},
		Hooks: []server.Hooks{{
			Turn: func(ctx context.Context, t *server.TurnInfo, next func(context.Context) error) error {
				err := next(ctx)
				fmt.Printf("%s %s: turn %d %s\n", t.Kind, t.Name, t.Turn, t.Outcome)
				return err
			},
			Effect: func(ctx context.Context, e *server.EffectInfo, next func(context.Context) error) error {
				err := next(ctx)
				fmt.Printf("%s, try %d: %v\n", e.Name, e.Attempt, err)
				return err
			},
		}},
	})
	asClient(s, saga.Caller{}, "")
	// Output:
	// tool order: turn 1 suspended
	// place-order, try 1: <nil>
	// tool order: turn 2 done
}

// An observer sees what begins, and how it ends.
func ExampleObserver() {
	s := example(server.Options{
		Tools: []saga.Definition{order()},
		Observers: []server.Observer{{
			Turn: func(ctx context.Context, t *server.TurnInfo) (context.Context, func(error)) {
				return ctx, func(error) { fmt.Printf("turn %d of %s: %s, asked %d\n", t.Turn, t.Name, t.Outcome, len(t.Asked)) }
			},
		}},
	})
	asClient(s, saga.Caller{}, "")
	// Output:
	// turn 1 of order: suspended, asked 1
	// turn 2 of order: done, asked 0
}

// Who may use which tool is decided before anything is run. A saga that somebody has begun
// can be cancelled in any case.
func ExampleHooks_authorization() {
	mayOrder := map[string]bool{"ann": true}
	s := example(server.Options{
		Tools: []saga.Definition{order()},
		Hooks: []server.Hooks{{
			Turn: func(ctx context.Context, t *server.TurnInfo, next func(context.Context) error) error {
				if t.Name == "order" && t.Action != "cancel" && !mayOrder[t.Request.Caller.Subject] {
					return &server.Error{Message: "you may not order: ask the office for the right to"}
				}
				return next(ctx)
			},
		}},
	})
	asClient(s, saga.Caller{Subject: "bob"}, "")
	asClient(s, saga.Caller{Subject: "ann"}, "")
	// Output:
	// the client reads: you may not order: ask the office for the right to
}

// tracer is a tracer of a few lines, as those of OpenTelemetry are used: a span is in the
// context, and those that begin inside are its children.
type tracer struct{ spans uint64 }

type spanKey struct{}

// start begins a span. One without a parent in the context is a child of traceparent.
func (t *tracer) start(ctx context.Context, name, traceparent string) (context.Context, func(error)) {
	parent, ok := ctx.Value(spanKey{}).(string)
	if !ok && len(traceparent) == 55 {
		parent = traceparent[36:52]
	}
	t.spans++
	id := hex.EncodeToString([]byte{0, 0, 0, 0, 0, 0, 0, byte(t.spans)})
	return context.WithValue(ctx, spanKey{}, id), func(err error) {
		if err != nil && !errors.Is(err, context.Canceled) {
			name += " failed"
		}
		fmt.Println("span", id, "of", parent, name)
	}
}

// A span around each request, turn and effect: those of a request are children of what the
// client was doing. A turn has the trace context of the first one besides, to link to.
func ExampleHooks_tracing() {
	t := new(tracer)
	s := example(server.Options{
		Tools: []saga.Definition{order()},
		Hooks: []server.Hooks{{
			Request: func(ctx context.Context, r *server.RequestInfo, next func(context.Context) error) error {
				ctx, end := t.start(ctx, r.Method, r.Trace)
				err := next(ctx)
				end(err)
				return err
			},
			Turn: func(ctx context.Context, i *server.TurnInfo, next func(context.Context) error) error {
				ctx, end := t.start(ctx, fmt.Sprintf("turn %d, begun in %.11s…", i.Turn, i.Trace), "")
				err := next(ctx)
				end(err)
				return err
			},
			Effect: func(ctx context.Context, e *server.EffectInfo, next func(context.Context) error) error {
				ctx, end := t.start(ctx, e.Name, "")
				err := next(ctx)
				end(err)
				return err
			},
		}},
	})
	asClient(s, saga.Caller{}, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	// Output:
	// span 0000000000000002 of 0000000000000001 turn 1, begun in 00-0af76519…
	// span 0000000000000001 of b7ad6b7169203331 tools/callSaga
	// span 0000000000000005 of 0000000000000004 place-order
	// span 0000000000000004 of 0000000000000003 turn 2, begun in 00-0af76519…
	// span 0000000000000003 of b7ad6b7169203331 tools/resumeSaga
}
