package saga_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// orders has tools that act twice on an answer, and says what they have done.
type orders struct {
	keys []saga.Key
	held map[saga.Key]bool
}

// of is what a tool asks in these words, and does then.
func (o *orders) of(words string) (info saga.Info, ask *steps.Form[confirmForm], act func(saga.Context) error) {
	effect := func(name string) *saga.Effect[string, string] {
		return &saga.Effect[string, string]{Name: name,
			Do: func(_ context.Context, key saga.Key, in string) (string, error) {
				o.keys = append(o.keys, key)
				o.held[key] = true
				return in, nil
			},
			Undo: func(_ context.Context, p saga.Performed[string, string]) error { delete(o.held, p.Key); return nil },
		}
	}
	first, second := effect("first"), effect("second")
	ask = &steps.Form[confirmForm]{ID: "confirm", Message: words}
	return saga.Info{Name: "order", Asks: []steps.Question{ask}, Effects: []saga.Declared{first, second}}, ask, func(c saga.Context) error {
		if _, err := saga.Do(c, first, "x"); err != nil {
			return err
		}
		_, err := saga.Do(c, second, "y")
		return err
	}
}

// machine is one that acts in a step function that got the answer itself, or in the next.
func (o *orders) machine(further bool) func(words string, revision uint32) saga.Definition {
	return func(words string, revision uint32) saga.Definition {
		info, ask, act := o.of(words)
		info.Revision = revision
		acts := func(t *saga.Turn[empty, int]) (saga.Next, error) {
			if _, err := ask.Answer(t); err != nil {
				return nil, err
			}
			if err := act(t); err != nil {
				return nil, err
			}
			return t.Textf("done")
		}
		m := saga.Machine[empty, int]{
			Info:  info,
			Start: func(t *saga.Turn[empty, int]) (saga.Next, error) { return t.Ask("go", ask) },
			Steps: saga.Steps[empty, int]{"go": acts, "act": acts},
		}
		if further {
			m.Steps["go"] = func(t *saga.Turn[empty, int]) (saga.Next, error) { return t.Goto("act") }
		}
		if revision > 0 {
			m.Upgrades = map[uint32]saga.Upgrade[int]{0: saga.From(func(n int) (int, error) { return n, nil })}
		}
		return m
	}
}

func (o *orders) flow(varied bool) func(words string, revision uint32) saga.Definition {
	return func(words string, revision uint32) saga.Definition {
		info, ask, act := o.of(words)
		info.Revision = revision
		return saga.Flow[empty, string]{Info: info, Run: func(r *saga.Run, _ empty) (string, error) {
			var err error
			if varied {
				_, err = saga.Ask(r, ask.With(steps.Message(words+" Please")))
			} else {
				_, err = saga.Ask(r, ask)
			}
			if err != nil {
				return "", err
			}
			return "done", act(r)
		}}
	}
}

// A turn that has begun with an answer goes on with it, though the code that takes it again would ask in other words: what
// the turn did would otherwise be done again under another key, or not be known any more.
func TestRewordedWhileATurnIsUnderWay(t *testing.T) {
	o := new(orders)
	tools := map[string]func(string, uint32) saga.Definition{
		"machine": o.machine(false), "machine that goes to a step": o.machine(true), "flow": o.flow(false), "varied flow": o.flow(true),
	}
	call := func(c engine.Call) engine.Call {
		c.Now, c.Client = testNow, steps.AllFeatures()
		return c
	}
	yes := []steps.Answer{accept("confirm", yes)}
	for name, tool := range tools {
		for revision := range uint32(2) {
			for how, again := range map[string]func(now *engine.Program, w *watched, begun *engine.Position) (*engine.Outcome, error){
				"after a checkpoint": func(now *engine.Program, w *watched, _ *engine.Position) (*engine.Outcome, error) {
					return now.Resume(t.Context(), w.position(len(w.seen)), call(engine.Call{}))
				},
				"before it": func(now *engine.Program, _ *watched, begun *engine.Position) (*engine.Outcome, error) {
					return now.Resume(t.Context(), begun, call(engine.Call{Answers: yes, Held: true, Lost: true}))
				},
				"cancelled": func(now *engine.Program, w *watched, begun *engine.Position) (*engine.Outcome, error) {
					return now.Cancel(t.Context(), begun, call(engine.Call{Answers: yes, Held: true, Lost: true, Checkpoint: w.checkpoint}))
				},
			} {
				t.Run(name+" "+how, func(t *testing.T) {
					o.keys, o.held = nil, make(map[saga.Key]bool)
					w := watch(t, tool("Sure?", 0))
					out, err := w.start(t.Context(), testNow)
					require.NoError(t, err)
					if w.dies = 1 + len(w.seen); name == "machine that goes to a step" && how == "after a checkpoint" {
						w.dies++
					}
					_, err = w.tool.Resume(t.Context(), out.Position, call(engine.Call{Answers: yes, Checkpoint: w.checkpoint}))
					require.ErrorIs(t, err, errCrash)
					now, err := tool("Really sure?", revision).Compile()
					require.NoError(t, err)
					out, err = again(now, w, out.Position)
					require.NoError(t, err)
					require.Nil(t, out.Position, "it asks again")
					if how == "cancelled" {
						assert.Contains(t, text(t, out), "Cancelled")
						assert.Empty(t, o.held)
						return
					}
					assert.Equal(t, "done", text(t, out))
					assert.Len(t, o.held, 2, "each was done once")
				})
			}
		}
	}
}

// So does one whose question has other fields by now, which the answer lacks.
func TestOtherFieldsWhileATurnIsUnderWay(t *testing.T) {
	o := &orders{held: make(map[saga.Key]bool)}
	info, _, act := o.of("Sure?")
	now := tool(info, &steps.Form[confirmForm]{ID: "confirm", Message: "Sure?"}, act)
	w := watch(t, now)
	out, err := w.start(t.Context(), testNow)
	require.NoError(t, err)
	w.dies = 1 + len(w.seen)
	c := engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}, Checkpoint: w.checkpoint}
	_, err = w.tool.Resume(t.Context(), out.Position, c)
	require.ErrorIs(t, err, errCrash)
	require.Len(t, o.held, 1)

	later, err := tool(info, &steps.Form[struct {
		Confirm bool   `json:"confirm"`
		Why     string `json:"why"`
	}]{ID: "confirm", Message: "Sure, and why?"}, act).Compile()
	require.NoError(t, err)
	c.Held, c.Lost, w.dies = true, true, 0
	_, err = later.Cancel(t.Context(), out.Position, c)
	require.NoError(t, err)
	assert.Empty(t, o.held, "what was done is found")
	c.Checkpoint = nil
	end, err := later.Resume(t.Context(), out.Position, c)
	require.NoError(t, err)
	require.Nil(t, end.Position, "it asks again")
	assert.Equal(t, "done", text(t, end))
}

// tool is a flow that acts on an answer.
func tool[T any](info saga.Info, ask *steps.Form[T], act func(saga.Context) error) saga.Definition {
	info.Asks = []steps.Question{ask}
	return saga.Flow[empty, string]{Info: info, Run: func(r *saga.Run, _ empty) (string, error) {
		if _, err := saga.Ask(r, ask); err != nil {
			return "", err
		}
		return "done", act(r)
	}}
}
