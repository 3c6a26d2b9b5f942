package sagatest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

func TestBrokenTools(t *testing.T) {
	if testing.Short() {
		t.Skip("sweeps a tool for each mistake")
	}
	var words int
	tests := []struct {
		name  string
		blind bool // the kit is not shown the world
		tool  func(h *hotel) saga.Definition
		skip  []string
		forks bool
		want  []string
	}{
		{name: "the key is not honoured", blind: true, tool: func(h *hotel) saga.Definition {
			n := 0
			h.room.Do = func(context.Context, saga.Key, string) (int, error) { n++; return n, nil }
			return h.visit(h.correctly)
		}, want: []string{"broken rule: an effect happens once per key", "scenario: crash after hold-room in turn 2, then the client repeats the turn",
			`effect "hold-room" was performed twice with the same key and input, and the second time it had another result: first 1, then 2`,
			"what to do: hand the key that Do gets to the system behind it, as its idempotency key"}},
		{name: "the key is not honoured, which only the world shows", tool: func(h *hotel) saga.Definition {
			h.room.Do = func(_ context.Context, _ saga.Key, what string) (int, error) {
				h.held = append(h.held, what)
				return 7, nil
			}
			h.room.Undo = func(context.Context, saga.Performed[string, int]) error { h.held = []string{}; return nil }
			return h.visit(h.correctly)
		}, want: []string{"broken rule: a disturbance does not change the world", `expected: ["room in rome"]`, `but is:   ["room in rome","room in rome"]`,
			"most likely an effect acted twice", "idempotency key"}},
		{name: "undo in a defer", tool: func(h *hotel) saga.Definition {
			return h.visit(func(r *saga.Run) (out string, err error) {
				city, err := saga.Ask(r, askCity)
				if err != nil {
					return "", err
				}
				if _, err = saga.Do(r, h.room, "room in "+city.City); err != nil {
					return "", err
				}
				defer func() {
					if err != nil {
						h.held = []string{}
					}
				}()
				if _, err = saga.Ask(r, askSure); err != nil {
					return "", err
				}
				return "Enjoy your stay.", nil
			})
		}, want: []string{"broken rule: until its last turn, a saga acts by effects only", "scenario: nothing goes wrong", "the world changed in turn 2, outside of Do and Undo of any effect",
			`expected: ["room in rome"]`, "but is:   []", "a defer also runs when the saga is only suspended"}},
		{name: "an effect in a defer", blind: true, tool: func(h *hotel) saga.Definition {
			cleaning := &saga.Effect[string, bool]{Name: "clean", Do: func(context.Context, saga.Key, string) (bool, error) { return true, nil }}
			f := h.visit(func(r *saga.Run) (string, error) {
				defer func() { _, _ = saga.Do(r, cleaning, "all") }()
				return h.correctly(r)
			})
			f.Effects = append(f.Effects, cleaning)
			return f
		}, want: []string{"broken rule: a flow that has asked returns at once", `effect "clean" was asked for after the flow had suspended`, "perform no effect in a defer"}},
		{name: "a swallowed suspension", tool: func(h *hotel) saga.Definition {
			return h.visit(func(r *saga.Run) (string, error) {
				if _, err := saga.Ask(r, askCity); err != nil {
					return "No city, no stay.", nil
				}
				return h.correctly(r)
			})
		}, want: []string{"broken rule: a flow that has asked returns at once", "scenario: nothing goes wrong", `the flow asked "city" and then returned a result`,
			"return every error of saga.Ask, r.AskAll and saga.Do where you get it"}},
		{name: "the wall clock in a flow", tool: func(h *hotel) saga.Definition {
			return h.visit(func(r *saga.Run) (string, error) {
				if _, err := saga.Ask(r, askCity); err != nil {
					return "", err
				}
				if _, err := saga.Do(r, h.room, time.Now().Format(time.StampNano)); err != nil { //sagavet:ignore broken on purpose
					return "", err
				}
				_, err := saga.Ask(r, askSure)
				return "Enjoy your stay.", err
			})
		}, want: []string{"broken rule: a flow does the same each time it runs", "scenario: nothing goes wrong", "the flow diverges from its record", `effect "hold-room"`,
			"take the time from r.Now(), ids from r.NewID() and random numbers from r.Rand()"}},
		{name: "the order of a map", blind: true, tool: func(h *hotel) saga.Definition {
			cities := make(map[int]bool)
			for i := range 100 {
				cities[i] = true
			}
			return h.visit(func(r *saga.Run) (string, error) {
				if _, err := saga.Ask(r, askCity); err != nil {
					return "", err
				}
				for city := range cities { //sagavet:ignore broken on purpose
					if _, err := saga.Do(r, h.room, fmt.Sprint(city)); err != nil {
						return "", err
					}
				}
				_, err := saga.Ask(r, askSure)
				return "Enjoy your stay.", err
			})
		}, want: []string{"broken rule: a flow does the same each time it runs", "scenario: nothing goes wrong", `effect "hold-room"`, "do not range over a map"}},
		{name: "the time of the turn in a machine's effect", blind: true, tool: func(h *hotel) saga.Definition {
			type turn = saga.Turn[struct{}, struct{}]
			return saga.Machine[struct{}, struct{}]{
				Info:  saga.Info{Name: "visit", Asks: []steps.Question{askCity, askSure}, Effects: []saga.Declared{h.room}},
				Start: func(t *turn) (saga.Next, error) { return t.Ask("hold", askCity, askSure) },
				Steps: saga.Steps[struct{}, struct{}]{"hold": func(t *turn) (saga.Next, error) {
					if _, err := askSure.Answer(t); err != nil {
						return nil, err
					}
					if _, err := saga.Do(t, h.room, t.Now().String()); err != nil {
						return nil, err
					}
					return t.Textf("Enjoy your stay.")
				}},
			}
		}, want: []string{"broken rule: a turn that is repeated does the same", `effect "hold-room" was begun twice with one key but with different inputs: first "2026-01-01 12:00:0`,
			"decide on them in an earlier turn and keep them in the state"}},
		{name: "a forgotten Undo", blind: true, tool: func(h *hotel) saga.Definition {
			h.room.Undo = nil
			return h.visit(h.correctly)
		}, want: []string{"broken rule: a saga that ends badly undoes what it did", "scenario: the client cancels instead of turn 3, twice",
			`the saga ended badly, and effect "hold-room" was done and has no Undo`, "give the effect an Undo. If there is no way back from it, mark it Irreversible"}},
		{name: "a forgotten Undo that the world shows", tool: func(h *hotel) saga.Definition {
			h.room.Undo = nil
			return h.visit(h.correctly)
		}, want: []string{`effect "hold-room" was done and has no Undo; afterwards the world is not as it was before`, "expected: []", `but is:   ["room in rome"]`}},
		{name: "an Undo that believes that unknown means not done", tool: func(h *hotel) saga.Definition {
			undo := h.room.Undo
			h.room.Undo = func(ctx context.Context, p saga.Performed[string, int]) error {
				if !p.Known {
					return nil
				}
				return undo(ctx, p)
			}
			return h.visit(h.correctly)
		}, want: []string{"broken rule: a saga that ends badly undoes what it did", "scenario: hold-room fails but has done its work in turn 2", "Undo was called for everything that it did, but something is left",
			"with known=false it must find out by the key whether Do did it"}},
		{name: "an Undo that works only once", tool: func(h *hotel) saga.Definition {
			undo := h.room.Undo
			h.room.Undo = func(ctx context.Context, p saga.Performed[string, int]) error {
				if len(h.held) == 0 {
					return errors.New("no such room")
				}
				return undo(ctx, p)
			}
			return h.visit(h.correctly)
		}, want: []string{"broken rule: what was begun can be undone", "scenario: the client cancels instead of turn 3, twice", "Undo failed for hold-room", "no such room",
			"It must succeed when nothing was done (known is then false), and when everything is undone already"}},
		{name: "an effect that is not declared", tool: func(h *hotel) saga.Definition {
			f := h.visit(h.correctly)
			f.Effects = nil
			return f
		}, want: []string{"broken rule: what a tool asks and does is declared", `effect "hold-room" is not declared`, "list the question in Asks, or the effect in Effects"}},
		{name: "acting before asking", blind: true, tool: func(h *hotel) saga.Definition {
			return h.visit(func(r *saga.Run) (string, error) {
				if _, err := saga.Do(r, h.room, "any"); err != nil {
					return "", err
				}
				if _, err := saga.Ask(r, askCity); err != nil {
					return "", err
				}
				_, err := saga.Ask(r, askSure)
				return "Enjoy your stay.", err
			})
		}, want: []string{"broken rule: a saga asks before it acts", `effect "hold-room" is performed in the first turn`, "ask a question first"}},
		{name: "a failure that is told as a success", tool: func(h *hotel) saga.Definition {
			return h.visit(func(r *saga.Run) (string, error) {
				if _, err := saga.Ask(r, askCity); err != nil {
					return "", err
				}
				if _, err := saga.Do(r, h.room, "room"); err != nil {
					return "There is no room.", nil
				}
				_, err := saga.Ask(r, askSure)
				return "Enjoy your stay.", err
			})
		}, want: []string{"broken rule: a saga that ends well knows what it did", "broken rule: a turn that is stopped from outside does not end the saga",
			"scenario: turn 2 is stopped before hold-room, then the client repeats the turn", "There is no room.", "return the error that saga.Do returned"}},
		{name: "another way after whatever failure", tool: func(h *hotel) saga.Definition {
			return h.visit(func(r *saga.Run) (string, error) { return h.orElse(r, func(*saga.EffectError) bool { return true }) })
		}, want: []string{"broken rule: a saga that ends well knows what it did", "scenario: hold-room fails but has done its work in turn 2", `effect "hold-room" failed with an unknown outcome`}},
		{name: "a result that counts", tool: func(h *hotel) saga.Definition {
			hold, n := h.room.Do, 0
			h.room.Do = func(ctx context.Context, key saga.Key, what string) (int, error) {
				n++
				return hold(ctx, key, what)
			}
			return h.visit(func(r *saga.Run) (string, error) {
				if _, err := h.correctly(r); err != nil {
					return "", err
				}
				return fmt.Sprint("request ", n), nil
			})
		}, want: []string{"broken rule: a disturbance does not change the result", "expected: ", "request 1", "request 2", "Case.Same"}},
		{name: "a flow that counts", tool: func(h *hotel) saga.Definition {
			n := 0
			return h.visit(func(r *saga.Run) (string, error) {
				n++
				if _, err := h.correctly(r); err != nil {
					return "", err
				}
				return fmt.Sprint("run ", n), nil
			})
		}, want: []string{"broken rule: nothing survives between two turns but the token", "expected: ", "run 3", "run 2", "from what was answered"}},
		{name: "a key that is refused when it comes again", tool: func(h *hotel) saga.Definition {
			hold, seen := h.room.Do, map[saga.Key]bool{}
			h.room.Do = func(ctx context.Context, key saga.Key, what string) (int, error) {
				if seen[key] {
					return 0, saga.Refused(errors.New("duplicate request"))
				}
				seen[key] = true
				return hold(ctx, key, what)
			}
			return h.visit(h.correctly)
		}, want: []string{"broken rule: a disturbance does not change the end", "scenario: crash after hold-room in turn 2, then the client repeats the turn",
			"it did not end well", "duplicate request", "a turn that is repeated must find what it did before, by the effects' keys"}},
		{name: "a tool that asks for ever", blind: true, tool: func(h *hotel) saga.Definition {
			return h.visit(func(r *saga.Run) (string, error) {
				_, err := saga.Ask(r, askCity)
				for errors.Is(err, steps.ErrDeclined) {
					if _, again := saga.Ask(r, askSure); again != nil && !errors.Is(again, steps.ErrDeclined) {
						return "", again
					}
				}
				if err != nil {
					return "", err
				}
				_, err = saga.Ask(r, askSure)
				return "Enjoy your stay.", err
			})
		}, skip: []string{"cancels"}, want: []string{"broken rule: a saga ends", "scenario: city is declined", "after 100 turns the tool still asks \"sure~", "let the tool give up"}},
		{name: "a ledger that remembers no turn", forks: true, tool: func(h *hotel) saga.Definition {
			f := h.visit(h.correctly)
			f.SingleUse = saga.SingleUseNever
			return f
		}, want: []string{"broken rule: a turn of a tool that acts is taken once", "leave SingleUse out"}},
		{name: "a step function that the machine does not have", tool: func(h *hotel) saga.Definition {
			type turn = saga.Turn[struct{}, struct{}]
			return saga.Machine[struct{}, struct{}]{
				Info:  saga.Info{Name: "visit", Asks: []steps.Question{askCity, askSure}, Effects: []saga.Declared{h.room}},
				Start: func(t *turn) (saga.Next, error) { return t.Ask("chose", askCity) },
				Steps: saga.Steps[struct{}, struct{}]{"chosen": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
			}
		}, want: []string{`there is no step function "chose"`}},
		{name: "a panic", tool: func(h *hotel) saga.Definition {
			return h.visit(func(r *saga.Run) (string, error) {
				if _, err := saga.Ask(r, askCity); err != nil {
					return "", err
				}
				var rooms []string
				return rooms[len(h.held)], nil
			})
		}, want: []string{"broken rule: a tool does not panic", "index out of range", "broken_test.go:", "return an error instead"}},
		{name: "a fork that is half done", forks: true, tool: func(h *hotel) saga.Definition {
			breakfast := &saga.Effect[string, bool]{Name: "breakfast", Do: func(context.Context, saga.Key, string) (bool, error) {
				h.held = append(h.held, "breakfast")
				return true, nil
			}, Irreversible: true}
			f := h.visit(func(r *saga.Run) (string, error) {
				out, err := h.correctly(r)
				if err != nil {
					return "", err
				}
				_, err = saga.Do(r, breakfast, "early")
				return out, err
			})
			f.Effects = append(f.Effects, breakfast)
			return f
		}, skip: []string{"crashes", "duplicates", "failures", "losses"},
			want: []string{"broken rule: a fork is done as a whole or undone as a whole", "scenario: turn 3 is", "a client can use one token twice with different answers"}},
		{name: "the words of a question depend on chance", tool: func(h *hotel) saga.Definition {
			return h.visit(func(r *saga.Run) (string, error) {
				words++
				if _, err := saga.Ask(r, askCity.With(steps.Message(fmt.Sprint("Which city? ", words)))); err != nil {
					return "", err
				}
				_, err := saga.Ask(r, askSure)
				return "Enjoy your stay.", err
			})
		}, want: []string{"broken rule: a flow does the same each time it runs", `question "city" is asked anew`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := visitCase(test.blind, test.tool)
			if test.forks {
				c.Skip = nil
			}
			c.Skip = append(c.Skip, test.skip...)
			f := reported(t, func(t testing.TB) { sagatest.Sweep(t, c) })
			all := strings.Join(f.errors, "\n")
			t.Log(all)
			for _, w := range test.want {
				assert.Contains(t, all, w)
			}
			if assert.NotEmpty(t, f.errors) {
				assert.Contains(t, f.errors[0], test.want[0], "the first report is about what is wrong")
			}
			for i, e := range f.errors {
				assert.Equal(t, strings.Contains(e, "again a broken rule"), i > 0 && !strings.Contains(e, "what to do"), "each rule is explained once")
			}
		})
	}
}

func TestGoroutineThatOutlivesTheTurn(t *testing.T) {
	c := visitCase(true, nil)
	late := func() {} // has the last subject's goroutine act, and waits for it
	c.New = func(testing.TB) sagatest.Subject {
		late() // no turn is under way when the kit makes a new subject
		h := newHotel()
		over := make(chan struct{})
		var left sync.WaitGroup
		var begin sync.Once
		late = func() {
			close(over)
			left.Wait()
		}
		return sagatest.Subject{
			Tool: h.visit(func(r *saga.Run) (string, error) {
				if _, err := saga.Ask(r, askCity); err != nil {
					return "", err
				}
				if _, err := saga.Ask(r, askSure); err != nil {
					return "", err
				}
				begin.Do(func() {
					left.Go(func() { //sagavet:ignore broken on purpose
						<-over
						_, _ = saga.Do(r, h.room, "late")
					})
				})
				return "Enjoy your stay.", nil
			}),
		}
	}
	f := reported(t, func(t testing.TB) { sagatest.Sweep(t, c) })
	late()
	if assert.Len(t, f.errors, 1) {
		assert.Contains(t, f.errors[0], "broken rule: nothing goes on after a turn")
		assert.Contains(t, f.errors[0], `effect "hold-room" was asked for when no turn was under way`)
	}
}
