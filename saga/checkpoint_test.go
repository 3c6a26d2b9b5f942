package saga_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// crashWorld is what effects act on. It outlives every process.
type crashWorld struct {
	mu    sync.Mutex
	t     require.TestingT
	tries map[string]int    // of Do, by key
	did   map[string]string // by key: what was done with what
	order []string          // the keys in the order in which they were first used
	// ended has the keys whose end is known; settled those whose end is in a checkpoint.
	ended, settled map[string]bool
	undone         []string
	// parts are what was yielded.
	parts []string
}

func newCrashWorld(t require.TestingT) *crashWorld {
	return &crashWorld{t: t, tries: map[string]int{}, did: map[string]string{}, ended: map[string]bool{}, settled: map[string]bool{}}
}

var errWorld = errors.New("no answer came")

// effect returns one that ends as its name begins: "good" is done, "bad" refused, "lost" done
// without anybody hearing of it, "any" as its input begins.
func (w *crashWorld) effect(name string) *saga.Effect[string, string] {
	return &saga.Effect[string, string]{
		Name: name, Tries: 1, AtOnce: 3,
		Do: func(_ context.Context, key saga.Key, in string) (string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			k := string(key)
			require.False(w.t, w.settled[k], "%s is performed again although a checkpoint has its end", name)
			if w.tries[k]++; w.tries[k] == 1 {
				w.order = append(w.order, k)
				w.did[k] = name + " " + in
			}
			require.Equal(w.t, w.did[k], name+" "+in, "the same key for something else")
			switch end := strings.Replace(name, "any", in, 1); {
			case strings.HasPrefix(end, "bad"):
				w.ended[k] = true
				return "", saga.Refused(errWorld)
			case strings.HasPrefix(end, "lost"):
				return "", errWorld
			}
			w.ended[k] = true
			return fmt.Sprintf("%s %x", name, sha256.Sum256([]byte(in)))[:16], nil
		},
		Undo: func(_ context.Context, p saga.Performed[string, string]) error {
			if gone := w.did[string(p.Key)]; !slices.Contains(w.undone, gone) {
				w.undone = append(w.undone, gone)
			}
			return nil
		},
	}
}

// done lists what was done, each once; what was done at the same time by the input.
func (w *crashWorld) done() (list []string) {
	for _, k := range w.order {
		list = append(list, w.did[k])
	}
	for i := range list {
		for ; i > 0 && strings.HasPrefix(list[i-1], "any ") && list[i] < list[i-1]; i-- {
			list[i-1], list[i] = list[i], list[i-1]
		}
	}
	return list
}

var crashEffects = []string{"good1", "good2", "bad", "lost", "any"}

// several are the inputs of a DoAll of "any", which ends for each as they say: more than one group.
func several(in string) []string {
	return []string{"good" + in, "lost" + in, "bad" + in, "good2" + in, "good3" + in}
}

// crashOps are what a random program consists of, besides its effects.
const (
	opNote  = "note" // something goes into the state or into a local variable
	opNow   = "now"
	opAsk   = "ask"
	opGoto  = "goto" // machines only
	opID    = "id"   // flows only
	opYield = "yield"
	opSleep = "sleep"
	opUntil = "until"
	opFail  = "fail"
	opFlop  = "flop" // a result that is an error
)

type crashState struct {
	Notes string
	Code  saga.Secret
}

// crashMachine is the machine that does ops, cut into step functions where the saga asks or
// goes on in another.
func crashMachine(w *crashWorld, ops []string) saga.Definition {
	type turn = saga.Turn[struct{}, crashState]
	effects, declared := crashDeclared(w)
	functions := [][]string{nil}
	for _, op := range ops {
		last := len(functions) - 1
		functions[last] = append(functions[last], op)
		if slices.Contains([]string{opAsk, opGoto, opYield, opSleep, opUntil}, op) {
			functions = append(functions, nil)
		}
	}
	run := func(i int) func(*saga.Turn[struct{}, crashState]) (saga.Next, error) {
		return func(t *turn) (saga.Next, error) {
			if a, err := askConfirm.Answer(t); err == nil {
				t.State.Notes += fmt.Sprintf(" sure %v", a.Sure)
			}
			if t.State.Code.IsZero() {
				t.State.Code = saga.NewSecret("c")
			}
			for n, op := range functions[i] {
				switch op {
				case opNote:
					t.State.Notes += fmt.Sprintf(" %d.%d", i, n)
					t.State.Code = saga.NewSecret(t.State.Code.Reveal() + "x")
				case opNow:
					t.State.Notes += t.Now().Format(" 15:04")
				case opAsk:
					return t.Ask(fmt.Sprint("f", i+1), askConfirm)
				case opGoto:
					return t.Goto(fmt.Sprint("f", i+1))
				case opYield:
					return t.Yield(fmt.Sprint("f", i+1), content.Textf("part%s", t.State.Notes))
				case opSleep:
					return t.Sleep(90*time.Minute, fmt.Sprint("f", i+1))
				case opUntil:
					return t.Until(testNow.Add(3*time.Hour), fmt.Sprint("f", i+1))
				case opFail:
					return nil, saga.Failf("failed with %s", t.State.Notes)
				case opFlop:
					r := content.Resultf("flop")
					r.IsError = true
					return t.Finish(r)
				case "any":
					outs, err := saga.DoAll(t, effects[op], several(fmt.Sprintf("%d.%d", i, n)+t.State.Notes))
					if !errors.As(err, new(saga.EffectErrors)) {
						return nil, err
					}
					t.State.Notes += fmt.Sprintf(" %q %v", outs, err)
				default:
					in := fmt.Sprintf("%d.%d", i, n) + t.State.Notes + t.State.Code.Reveal() + t.Now().Format(" 15:04 MST")
					out, err := saga.Do(t, effects[op], in)
					if unknown := (*saga.EffectError)(nil); err != nil && !errors.As(err, &unknown) {
						return nil, err
					}
					t.State.Notes += fmt.Sprintf(" [%s %v]", out, err != nil)
				}
			}
			return t.Textf("%s, %s", t.State.Notes, t.State.Code.Reveal())
		}
	}
	m := saga.Machine[struct{}, crashState]{
		Info:  saga.Info{Name: "crash", Asks: []steps.Question{askConfirm}, Effects: declared, Yields: true},
		Start: run(0), Steps: saga.Steps[struct{}, crashState]{},
	}
	for i := 1; i < max(2, len(functions)); i++ {
		if i == len(functions) {
			functions = append(functions, nil)
		}
		m.Steps[fmt.Sprint("f", i)] = run(i)
	}
	return m
}

func crashFlow(w *crashWorld, ops []string) saga.Definition {
	effects, declared := crashDeclared(w)
	return saga.Flow[struct{}, *content.Result]{
		Info: saga.Info{Name: "crash", Asks: []steps.Question{askConfirm}, Effects: declared, Yields: true},
		Run: func(r *saga.Run, _ struct{}) (*content.Result, error) {
			notes := ""
			for n, op := range ops {
				switch op {
				case opNote, opGoto:
					notes += fmt.Sprint(" ", n)
				case opNow:
					notes += r.Now().Format(" 15:04")
				case opID:
					notes += " " + r.NewID()
				case opAsk:
					a, err := saga.Ask(r, askConfirm.Nth(n))
					if err != nil {
						return nil, err
					}
					notes += fmt.Sprintf(" sure %v", a.Sure)
				case opYield:
					if err := r.Yield(content.Textf("part%s", notes)); err != nil {
						return nil, err
					}
				case opSleep:
					if err := r.Sleep(90 * time.Minute); err != nil {
						return nil, err
					}
				case opUntil:
					if err := r.Until(testNow.Add(3 * time.Hour)); err != nil {
						return nil, err
					}
				case opFail:
					return nil, saga.Failf("failed with %s", notes)
				case opFlop:
					flop := content.Resultf("flop")
					flop.IsError = true
					return flop, nil
				case "any":
					outs, err := saga.DoAll(r, effects[op], several(fmt.Sprint(n)+notes))
					if !errors.As(err, new(saga.EffectErrors)) {
						return nil, err
					}
					notes += fmt.Sprintf(" %q %v", outs, err)
				default:
					out, err := saga.Do(r, effects[op], fmt.Sprint(n)+notes)
					if unknown := (*saga.EffectError)(nil); err != nil && !errors.As(err, &unknown) {
						return nil, err
					}
					notes += fmt.Sprintf(" [%s %v]", out, err != nil)
				}
			}
			return content.Resultf("%s", notes), nil
		},
	}
}

func crashDeclared(w *crashWorld) (map[string]*saga.Effect[string, string], []saga.Declared) {
	effects, declared := map[string]*saga.Effect[string, string]{}, []saga.Declared{}
	for _, name := range crashEffects {
		effects[name] = w.effect(name)
		declared = append(declared, effects[name])
	}
	return effects, declared
}

var errCrash = errors.New("the process has died")

// crashed drives a saga to its end as a server does, from what is on disk alone. After each
// checkpoint, crash says whether the process dies, and whether before it was on disk.
func crashed(t require.TestingT, define func(*crashWorld, []string) saga.Definition, ops []string, crash func() (dies, before bool)) (*crashWorld, *content.Result) {
	w := newCrashWorld(t)
	type disk struct {
		turn    uint32
		encoded *engine.Encoded
		answers []steps.Answer
		midway  bool
		wake    time.Time
	}
	var saved disk
	tool := func() *engine.Program {
		p, err := define(w, ops).Compile()
		require.NoError(t, err)
		return p
	}
	clone := func(e engine.Encoded) *engine.Encoded {
		return &engine.Encoded{Body: slices.Clone(e.Body), State: slices.Clone(e.State), Effects: slices.Clone(e.Effects), Secrets: slices.Clone(e.Secrets)}
	}
	checkpoint := func(_ context.Context, p *engine.Position) error {
		dies, before := crash()
		if !dies || !before {
			saved = disk{p.Turn, clone(p.Encode()), nil, true, time.Time{}}
			for k := range w.ended {
				w.settled[k] = true
			}
		}
		if dies {
			return errCrash
		}
		return nil
	}
	late, longer := time.Duration(0), time.Minute
	if slices.Contains(ops, opSleep) {
		longer = time.Second // a sleep counts from the present, and the programs tell minutes
	}
	for range 1000 {
		now := testNow.Add(time.Duration(saved.turn) * time.Hour)
		if now.Before(saved.wake) {
			now = saved.wake
		}
		if saved.midway {
			late += longer // the clock goes on; what runs again must not see it
			now = now.Add(late)
		}
		var out *engine.Outcome
		var err error
		if saved.encoded == nil {
			out, err = tool().Start(context.Background(), engine.Call{ID: testID, Now: now, Client: steps.AllFeatures(), Checkpoint: checkpoint})
		} else {
			pos := &engine.Position{ID: testID, Turn: saved.turn, Tool: "crash"}
			require.NoError(t, pos.Restore(*saved.encoded))
			require.Equal(t, saved.wake, pos.Wake)
			if !saved.wake.IsZero() {
				_, err := tool().Resume(context.Background(), pos, engine.Call{Now: saved.wake.Add(-1), Client: steps.AllFeatures()})
				require.Equal(t, &engine.EarlyError{At: saved.wake}, err)
			}
			require.Equal(t, *saved.encoded, pos.Encode(), "an encoding is read and written again")
			out, err = tool().Resume(context.Background(), pos, engine.Call{Now: now, Client: steps.AllFeatures(), Answers: saved.answers, Checkpoint: checkpoint})
		}
		var halted *engine.HaltedError
		if errors.As(err, &halted) {
			require.ErrorIs(t, err, errCrash)
			continue
		}
		require.NoError(t, err)
		if out.Position == nil {
			return w, out.Result
		}
		saved = disk{out.Position.Turn, clone(out.Position.Encode()), nil, false, out.Position.Wake}
		if out.Yielded != nil {
			w.parts = append(w.parts, out.Yielded.Text())
			require.Empty(t, out.Steps)
			require.Zero(t, saved.wake)
		}
		for k := range w.tries {
			w.settled[k] = true // the turn has ended
		}
		for _, s := range out.Steps {
			saved.answers = append(saved.answers, accept(s.ID, yes))
		}
	}
	require.Fail(t, "it comes to no end")
	return nil, nil
}

// TestCheckpoints crashes random programs after any checkpoints, any number of times, and
// compares with what they come to otherwise.
func TestCheckpoints(t *testing.T) {
	for name, kind := range map[string]struct {
		define func(*crashWorld, []string) saga.Definition
		ops    []string
	}{
		"machine": {crashMachine, []string{opNote, opNow, opAsk, opGoto, opGoto, opYield, opSleep, opUntil}},
		"flow":    {crashFlow, []string{opNote, opNow, opAsk, opID, opYield, opSleep, opUntil}},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				op := rapid.SampledFrom(slices.Concat(crashEffects, crashEffects, kind.ops))
				ops := rapid.SliceOfN(op, 0, 14).Draw(t, "ops")
				if end := rapid.SampledFrom([]string{"", "", opFail, opFlop}).Draw(t, "end"); end != "" {
					ops = append(ops, end)
				}
				want, result := crashed(t, kind.define, ops, func() (dies, before bool) { return false, false })
				left := rapid.IntRange(1, 12).Draw(t, "crashes")
				got, end := crashed(t, kind.define, ops, func() (dies, before bool) {
					if left == 0 || !rapid.Bool().Draw(t, "dies") {
						return false, false
					}
					left--
					return true, rapid.Bool().Draw(t, "before")
				})
				require.Equal(t, result, end)
				require.Equal(t, want.done(), got.done())
				require.Equal(t, want.parts, got.parts)
				require.ElementsMatch(t, want.undone, got.undone)
			})
		})
	}
}

// A checkpoint that cannot be written ends the turn, whatever the code makes of it.
func TestCheckpointsThatFail(t *testing.T) {
	for name, define := range map[string]func(*crashWorld, []string) saga.Definition{"machine": crashMachine, "flow": crashFlow} {
		t.Run(name, func(t *testing.T) {
			w := newCrashWorld(t)
			tool, err := define(w, []string{"good1", "good2", opFail}).Compile()
			require.NoError(t, err)
			calls := 0
			_, err = tool.Start(t.Context(), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures(), Held: true, Checkpoint: func(context.Context, *engine.Position) error {
				calls++
				return errCrash
			}})
			var halted *engine.HaltedError
			require.ErrorAs(t, err, &halted)
			require.ErrorIs(t, err, errCrash)
			assert.Len(t, w.done(), 1, "nothing more is performed")
			assert.Empty(t, w.undone, "nor undone")
			assert.Equal(t, 1, calls)
		})
	}
}
