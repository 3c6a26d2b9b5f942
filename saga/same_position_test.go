package saga_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// tour asks for one thing, for two instances of it, and for a confirmation in other
// words until it gets it; it has effects, a secret in the other form, and asks again.
func tourFlow() saga.Definition {
	book := echo("book", false)
	return saga.Flow[tripArgs, string]{
		Info: saga.Info{Name: "tour", Asks: []steps.Question{askCity, askDate, askConfirm}, Effects: []saga.Declared{book}},
		Run: func(r *saga.Run, in tripArgs) (string, error) {
			city, err := saga.Ask(r, askCity)
			if err != nil {
				return "", err
			}
			if err := r.AskAll(askCity.Nth(1), askCity.Nth(2).With(steps.Message("And after "+city.City+"?")), askDate); err != nil {
				return "", err
			}
			for i := 0; ; i++ {
				if _, err := saga.Do(r, book, fmt.Sprint(city.City, i)); err != nil {
					return "", err
				}
				sure, err := saga.Ask(r, askConfirm.With(steps.Message(fmt.Sprintf("Sure %d from %s?", i/2, in.From))))
				if err != nil {
					return "", err
				}
				if sure.Sure {
					return fmt.Sprintf("%s after %d at %v", city.City, i, r.Now()), nil
				}
			}
		},
	}
}

type tourState struct {
	Cities []string
	Raw    json.RawMessage
	PIN    saga.Secret
}

func tourMachine() saga.Definition {
	type turn = saga.Turn[tripArgs, tourState]
	book := echo("book", true)
	return saga.Machine[tripArgs, tourState]{
		Info: saga.Info{Name: "tour", Asks: []steps.Question{askCity, askDate, askConfirm}, Effects: []saga.Declared{book}},
		Start: func(t *turn) (saga.Next, error) {
			t.State.PIN, t.State.Raw = saga.NewSecret("1234"), json.RawMessage(`{"raw":"text"}`)
			return t.Ask("where", askCity, askDate)
		},
		Steps: saga.Steps[tripArgs, tourState]{
			"where": func(t *turn) (saga.Next, error) {
				city, err := askCity.Answer(t)
				if err != nil {
					return nil, err
				}
				t.State.Cities = append(t.State.Cities, city.City)
				copy(t.State.Raw[2:], fmt.Sprint(len(t.State.Cities)%10)) // a tool may write into what is its own
				t.State.PIN = saga.NewSecret(t.State.PIN.Reveal() + "5")
				if _, err := saga.Do(t, book, city.City); err != nil {
					return nil, err
				}
				return t.Ask("sure", askConfirm.With(steps.Message("From "+t.Args.From+" to "+city.City+"?")))
			},
			"sure": func(t *turn) (saga.Next, error) {
				sure, err := askConfirm.Answer(t)
				if err != nil {
					return nil, err
				}
				if sure.Sure {
					return t.Textf("%v %s", t.State.Cities, t.State.PIN.Reveal())
				}
				return t.Ask("where", askCity, askDate)
			},
		},
	}
}

// echo is an effect that is always performed in the same way, by whomever at once.
func echo(name string, silent bool) *saga.Effect[string, hold] {
	e := &saga.Effect[string, hold]{Name: name, Do: func(_ context.Context, key saga.Key, in string) (hold, error) { return hold{in + string(key)}, nil }}
	if !silent {
		e.Undo = func(context.Context, saga.Performed[string, hold]) error { return nil }
	}
	return e
}

// seen is all there is to see of an outcome, or of the position in it.
func seen(out *engine.Outcome, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	s := fmt.Sprintf("%+v\n", out.Steps)
	if out.Position != nil {
		s += standing(out.Position)
	}
	if out.Result != nil {
		raw, err := json.Marshal(out.Result)
		s += fmt.Sprintf("%s %v", raw, err)
	}
	return s
}

func standing(p *engine.Position) string {
	return fmt.Sprintf("%v %d %s %d %v %v %v %x", p.ID, p.Turn, p.Tool, p.Revision, p.Deadline, p.HasEnded(), p.PendingIDs(), p.Encode())
}

// someAnswers returns answers to some of the steps: good, bad, of errors, and others
// to what was answered before.
func someAnswers(random *rand.Rand, pending []string, earlier []steps.Answer) []steps.Answer {
	var answers []steps.Answer
	for _, id := range pending {
		good := map[string][]string{
			"city": {goodCity, `{"city":"Oslo"}`, `{"city":"R"}`}, "date": {goodDate, `{"date":"then"}`}, "confirm": {`{"sure":false}`, yes, `{}`},
		}[id[:strings.IndexAny(id+"~", "~#")]]
		switch n := random.IntN(12); {
		case n == 0:
		case n == 1:
			answers = append(answers, steps.Answer{StepID: id, Error: &steps.ClientError{Code: -1, Message: "no"}})
		case n == 2:
			answers = append(answers, action(id, "decline"))
		case n < 5:
			answers = append(answers, accept(id, good[random.IntN(len(good))]))
		default:
			answers = append(answers, accept(id, good[0]))
		}
	}
	for _, a := range earlier {
		switch random.IntN(8) {
		case 0:
			answers = append(answers, a)
		case 1:
			answers = append(answers, accept("unknown", `{}`))
		}
	}
	if len(earlier) > 0 && random.IntN(6) == 0 {
		answers = append(answers, action(earlier[random.IntN(len(earlier))].StepID, "cancel"))
	}
	return answers
}

// TestAPositionIsNotChanged takes turns from one position again and again, in other
// ways, at once, and cancels it: each ends as if it were the only one, and the
// position and those that came of it stay what they were.
func TestAPositionIsNotChanged(t *testing.T) {
	ctx := t.Context()
	for name, d := range map[string]saga.Definition{"flow": tourFlow(), "machine": tourMachine()} {
		tool, err := d.Compile()
		require.NoError(t, err)
		deepest := 0
		for seed := range uint64(30) {
			random := rand.New(rand.NewPCG(seed, 1))
			out, err := tool.Start(ctx, engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures(), Arguments: json.RawMessage(`{"from":"Oslo"}`)})
			require.NoError(t, err)
			var earlier []steps.Answer
			kept := map[*engine.Position]string{}
			for pos, depth := out.Position, 0; pos != nil && depth < 9; depth++ {
				kept[pos] = standing(pos)
				if random.IntN(3) == 0 { // as if from a token
					back := &engine.Position{ID: pos.ID, Turn: pos.Turn, Tool: pos.Tool, Revision: pos.Revision, Deadline: pos.Deadline}
					require.NoError(t, back.Restore(pos.Encode()))
					pos = back
					kept[pos] = standing(pos)
				}
				type attempt struct {
					cancel  bool
					answers []steps.Answer
				}
				attempts := []attempt{{true, nil}}
				for range 4 {
					attempts = append(attempts, attempt{random.IntN(4) == 0, someAnswers(random, pos.PendingIDs(), earlier)})
				}
				run := func(a attempt) (*engine.Outcome, error) {
					r := engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: a.answers}
					if a.cancel {
						return tool.Cancel(ctx, pos, r)
					}
					return tool.Resume(ctx, pos, r)
				}
				// Alone: from a copy that nobody else has.
				alone := make([]string, len(attempts))
				shared := pos
				for i, a := range attempts {
					pos = &engine.Position{ID: shared.ID, Turn: shared.Turn, Tool: shared.Tool, Revision: shared.Revision, Deadline: shared.Deadline}
					require.NoError(t, pos.Restore(shared.Encode()))
					alone[i] = seen(run(a))
				}
				pos = shared
				var all sync.WaitGroup
				outcomes := make([]*engine.Outcome, 2*len(attempts))
				ends := make([]string, len(outcomes))
				for i := range outcomes {
					all.Go(func() {
						out, err := run(attempts[i%len(attempts)])
						outcomes[i], ends[i] = out, seen(out, err)
					})
				}
				all.Wait()
				for i, end := range ends {
					require.Equal(t, alone[i%len(attempts)], end, "%s %d %v", name, seed, attempts[i%len(attempts)])
				}
				next := -1
				for i, out := range outcomes {
					if out != nil && out.Position != nil {
						require.Equal(t, ends[i], seen(out, nil), "changed by another turn")
						kept[out.Position] = standing(out.Position)
						if !attempts[i%len(attempts)].cancel && (next < 0 || random.IntN(2) == 0) {
							next = i
						}
					}
				}
				for p, was := range kept {
					require.Equal(t, was, standing(p), "%s %d", name, seed)
				}
				pos = nil
				if next >= 0 {
					pos, earlier = outcomes[next].Position, append(earlier, attempts[next%len(attempts)].answers...)
					deepest = max(deepest, depth+1)
				}
			}
		}
		require.Greater(t, deepest, 5, name)
	}
}
