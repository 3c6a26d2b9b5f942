package sagatest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// printer stands for the *testing.T of a test: it prints what is reported.
type printer struct {
	testing.TB
	failed bool
}

func (*printer) Helper()             {}
func (*printer) Logf(string, ...any) {}
func (p *printer) Failed() bool      { return p.failed }
func (p *printer) Errorf(format string, args ...any) {
	if !p.failed {
		fmt.Printf(format+"\n", args...)
	}
	p.failed = true
}
func (p *printer) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	runtime.Goexit()
}

// A play runs a tool against a script and tells what happened.
func ExamplePlay() {
	t := &printer{}
	played := sagatest.Play(t, orderCake(newFakeBakery()), orderArgs{For: "Ada"},
		sagatest.Accept("cake", cake{Flavour: "lemon"}),
		sagatest.Accept("consent", consent{Yes: true}),
	)
	for i, round := range played.Rounds {
		fmt.Printf("round %d: %s\n", i+1, round.Asked[0].Message())
	}
	fmt.Println(played.Effects())
	fmt.Println(played.Text())
	// Output:
	// round 1: Which cake would you like?
	// round 2: Shall we bake a lemon cake in oven 1?
	// [reserve bake]
	// A lemon cake for Ada is in oven 1.
}

// A flow is started in the middle with what it was answered and has done.
func ExamplePlayer_After() {
	t := &printer{}
	middle := sagatest.Player{}.After(sagatest.Accept("cake", cake{Flavour: "nut"})).Performed("reserve", nil, 7)
	played := middle.Play(t, orderCake(newFakeBakery()), orderArgs{For: "Ada"}, sagatest.Decline("consent"))
	fmt.Println(played.Find("consent").Message())
	fmt.Println(played.Effects())
	// Output:
	// Shall we bake a nut cake in oven 7?
	// [undo reserve]
}

// A machine is started in any of its step functions.
func ExamplePlayer_At() {
	type state struct{ Flavour string }
	type turn = saga.Turn[struct{}, state]
	tool := saga.Machine[struct{}, state]{
		Info:  saga.Info{Name: "eat_cake", Asks: []steps.Question{askCake, askConsent}},
		Start: func(t *turn) (saga.Next, error) { return t.Ask("chosen", askCake) },
		Steps: saga.Steps[struct{}, state]{
			"chosen": func(t *turn) (saga.Next, error) {
				chosen, err := askCake.Answer(t)
				if err != nil {
					return nil, err
				}
				t.State.Flavour = chosen.Flavour
				return t.Ask("agreed", askConsent)
			},
			"agreed": func(t *turn) (saga.Next, error) {
				if _, err := askConsent.Answer(t); err != nil {
					return nil, err
				}
				return t.Textf("Enjoy your %s cake.", t.State.Flavour)
			},
		},
	}

	t := &printer{}
	played := sagatest.Player{}.At("agreed", state{Flavour: "lemon"}, sagatest.Accept("consent", consent{Yes: true})).Play(t, tool, nil)
	fmt.Println(played.Text())
	// Output: Enjoy your lemon cake.
}

// forgetfulBakery does not know keys: who asks twice gets two slots.
type forgetfulBakery struct{ *fakeBakery }

func (b forgetfulBakery) Reserve(_ context.Context, key, _ string) (int, error) {
	b.keys = append(b.keys, key)
	return len(b.keys), nil
}

// A sweep finds what goes wrong when things go wrong, and says what to do.
func ExampleSweep() {
	t := &printer{}
	sagatest.Sweep(t, sagatest.Case{
		New: func(testing.TB) sagatest.Subject {
			return sagatest.Subject{Tool: orderCake(forgetfulBakery{newFakeBakery()})}
		},
		Script: orderCase.Script,
		Args:   orderCase.Args,
	})
	// Output:
	// sagatest: broken rule: an effect happens once per key
	//   scenario: crash after reserve in turn 2, then the client repeats the turn
	//   what happened: effect "reserve" was performed twice with the same key and input, and the second time it had another result: first 1, then 2
	//   what to do: hand the key that Do gets to the system behind it, as its idempotency key: when a key comes again, that system must not act again but return what it returned first
}

// An answer can depend on what is asked.
func ExampleFunc() {
	t := &printer{}
	played := sagatest.Play(t, orderCake(newFakeBakery()), orderArgs{For: "Ada"},
		sagatest.Func("cake", func(a sagatest.Asked) sagatest.Answer {
			return sagatest.Accept("cake", cake{Flavour: a.Choices("flavour")[1]})
		}),
		sagatest.Func("consent", func(a sagatest.Asked) sagatest.Answer {
			return sagatest.Accept("consent", consent{Yes: strings.Contains(a.Message(), "nut")})
		}),
	)
	fmt.Println(played.Text())
	// Output: A nut cake for Ada is in oven 1.
}

// A journal proves that sagas which wait since before a change still go on. The
// first run, with SAGATEST_UPDATE=1 in the environment, writes it.
func ExampleJournal() {
	t := &printer{}
	sagatest.Journal(t, orderCase)
	fmt.Println("failed:", t.Failed())
	// Output: failed: false
}
