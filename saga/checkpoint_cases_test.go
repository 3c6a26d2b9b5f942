package saga_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// watched drives one turn and keeps the positions of its checkpoints as bytes.
type watched struct {
	t    *testing.T
	tool *engine.Program
	seen []engine.Encoded
	// dies says after which checkpoint the process does; zero is never.
	dies int
}

func (w *watched) checkpoint(_ context.Context, p *engine.Position) error {
	w.seen = append(w.seen, p.Encode())
	if len(w.seen) == w.dies {
		return errCrash
	}
	return nil
}

func (w *watched) start(ctx context.Context, now time.Time) (*engine.Outcome, error) {
	return w.tool.Start(ctx, engine.Call{ID: testID, Now: now, Client: steps.AllFeatures(), Checkpoint: w.checkpoint})
}

// position is that of the n-th checkpoint, from 1.
func (w *watched) position(n int) *engine.Position {
	w.t.Helper()
	require.GreaterOrEqual(w.t, len(w.seen), n)
	p := &engine.Position{ID: testID, Tool: w.tool.Name}
	require.NoError(w.t, p.Restore(w.seen[n-1]))
	return p
}

func (w *watched) goOn(n int) (*engine.Outcome, error) {
	w.t.Helper()
	return w.tool.Resume(w.t.Context(), w.position(n), engine.Call{Now: testNow.Add(time.Hour), Client: steps.AllFeatures(), Checkpoint: w.checkpoint})
}

func watch(t *testing.T, d saga.Definition) *watched {
	t.Helper()
	tool, err := d.Compile()
	require.NoError(t, err)
	return &watched{t: t, tool: tool}
}

// oneStep is a machine of one function with the effects of a world.
func oneStep(w *crashWorld, start func(t *saga.Turn[empty, int], do func(name, in string) error) (saga.Next, error)) saga.Machine[empty, int] {
	effects, declared := crashDeclared(w)
	return saga.Machine[empty, int]{
		Info: saga.Info{Name: "one", Effects: declared},
		Start: func(t *saga.Turn[empty, int]) (saga.Next, error) {
			return start(t, func(name, in string) error {
				_, err := saga.Do(t, effects[name], in)
				return err
			})
		},
	}
}

// What a failed saga had done is undone and stays so, even if its code would not fail again.
func TestWhatFailedIsUndoneByTheNext(t *testing.T) {
	world, runs := newCrashWorld(t), 0
	for _, flop := range []bool{false, true} {
		w := watch(t, oneStep(world, func(t *saga.Turn[empty, int], do func(name, in string) error) (saga.Next, error) {
			if err := do("good1", "a"); err != nil {
				return nil, err
			}
			switch runs++; {
			case runs > 1:
				return t.Textf("booked")
			case flop:
				r := content.Resultf("no way")
				r.IsError, r.Meta = true, map[string]any{"a": "b"}
				return t.Finish(r)
			}
			return nil, saga.Fail("no way", errors.New("the cause"))
		}))
		*world, runs = *newCrashWorld(t), 0
		whole, err := w.start(t.Context(), testNow)
		require.NoError(t, err)
		require.Equal(t, []string{"good1 a"}, world.undone)

		*world, runs = *newCrashWorld(t), 0
		var at engine.Undoing
		_, err = w.tool.Start(t.Context(), engine.Call{ID: testID, Now: testNow, Checkpoint: w.checkpoint, Undoing: func(_ context.Context, u engine.Undoing) error {
			at = u
			return errCrash
		}})
		require.ErrorIs(t, err, errCrash)
		require.Empty(t, world.undone, "it is written down before")
		assert.True(t, at.Position.HasEnded())
		assert.Equal(t, []string{"good1"}, at.Position.Effects())

		out, err := w.tool.Undo(t.Context(), at)
		require.NoError(t, err)
		assert.Equal(t, whole.Result, out.Result)
		assert.Equal(t, whole.Disclosed, out.Disclosed)
		assert.Equal(t, flop, out.Err == nil)
		assert.Equal(t, []string{"good1 a"}, world.undone)
		assert.Equal(t, 1, runs, "the code does not run again")

		out, err = w.tool.Cancel(t.Context(), at.Position, engine.Call{Now: testNow, Held: true})
		require.NoError(t, err)
		assert.Contains(t, text(t, out), "Cancelled.")
	}
}

// Who cancels from the last checkpoint finds what the turn had begun since, and nothing more
// is begun.
func TestCancelFromACheckpoint(t *testing.T) {
	for name, ops := range map[string][]string{"another effect": {"good1", "good2", "good1"}, "another step": {"good1", "lost", opGoto, "good2"}} {
		t.Run(name, func(t *testing.T) {
			world := newCrashWorld(t)
			w := watch(t, crashMachine(world, ops))
			_, err := w.start(t.Context(), testNow)
			require.NoError(t, err)
			*world = *newCrashWorld(t) // but for good1 and what comes next, nothing has happened yet
			out, err := w.tool.Cancel(t.Context(), w.position(1), engine.Call{
				Now: testNow, Held: true, Client: steps.AllFeatures(),
				Checkpoint: func(context.Context, *engine.Position) error { return errors.New("not wanted") },
			})
			require.NoError(t, err)
			assert.Len(t, world.order, 1, "only what may have been begun is looked for")
			assert.Contains(t, text(t, out), "Undone: "+ops[1]+", good1.")
		})
	}
}

// A step function that runs again must come to what it has performed.
func TestStepsThatDiverge(t *testing.T) {
	for name, second := range map[string]struct {
		ops  []string // names and inputs of effects
		want string
	}{
		"left out":       {nil, `recorded is effect "good1", but now came the end of the step function`},
		"another before": {[]string{"good2", "x", "good1", "a"}, `recorded is effect "good1", but now came effect "good2", which is new`},
		"the same":       {[]string{"good1", "a"}, ""},
		"another input":  {[]string{"good1", "b"}, `recorded is effect "good1" (number 1) with the input "a", but now came the same effect with the input "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			world, ops := newCrashWorld(t), []string{"good1", "a"}
			w := watch(t, oneStep(world, func(t *saga.Turn[empty, int], do func(name, in string) error) (saga.Next, error) {
				for i := 0; i < len(ops); i += 2 {
					_ = do(ops[i], ops[i+1]) // whatever the code makes of it
				}
				return t.Textf("done")
			}))
			w.dies = 1
			_, err := w.start(t.Context(), testNow)
			require.ErrorIs(t, err, errCrash)
			ops = second.ops
			out, err := w.goOn(1)
			require.NoError(t, err)
			if second.want == "" {
				require.NoError(t, out.Err)
				return
			}
			var diverged *engine.DivergedError
			require.ErrorAs(t, out.Err, &diverged)
			assert.ErrorContains(t, out.Err, `the step function "start" goes on from a checkpoint and diverges from its record: `+second.want)
			assert.Equal(t, []string{"good1 a"}, world.undone)
			assert.Len(t, world.order, 1, "nothing new is performed")
		})
	}
}

// What runs again is told the same time in the same words.
func TestTimeOfACheckpoint(t *testing.T) {
	var told []string
	w := watch(t, oneStep(newCrashWorld(t), func(t *saga.Turn[empty, int], do func(name, in string) error) (saga.Next, error) {
		told = append(told, t.Now().Format(time.RFC3339Nano))
		return nil, errors.Join(do("good1", ""), errors.New("the end"))
	}))
	w.dies = 1
	for _, now := range []time.Time{time.Now(), testNow.In(time.FixedZone("there", 3600)), {}} {
		told, w.seen = nil, nil
		_, err := w.start(t.Context(), now)
		require.ErrorIs(t, err, errCrash)
		_, err = w.goOn(1)
		require.NoError(t, err)
		assert.Equal(t, []string{now.UTC().Format(time.RFC3339Nano), now.UTC().Format(time.RFC3339Nano)}, told)
	}
}

// An effect whose end nobody knows is performed again, unless the code went on from there.
func TestCheckpointsAndUnknownEnds(t *testing.T) {
	run := func(t *testing.T, cancel context.CancelFunc) *watched {
		return watch(t, oneStep(newCrashWorld(t), func(t *saga.Turn[empty, int], do func(name, in string) error) (saga.Next, error) {
			_ = do("lost", "a")
			if cancel != nil {
				cancel()
			}
			_ = do("lost", "b")
			_ = do("good1", "c")
			return t.Textf("done")
		}))
	}
	w := run(t, nil)
	_, err := w.start(t.Context(), testNow)
	require.NoError(t, err)
	require.Len(t, w.seen, 1)
	d, err := w.position(1).Describe()
	require.NoError(t, err)
	assert.Len(t, d.Effects, 3)

	ctx, cancel := context.WithCancel(t.Context())
	w = run(t, cancel)
	_, err = w.start(ctx, testNow)
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, w.seen, "what the end of the turn has cut off is no end")
}

// Nobody was lost beyond a checkpoint that was not there before.
func TestALostTurnIsFoundAtItsFirstCheckpoint(t *testing.T) {
	for _, found := range []bool{false, true} {
		w := watch(t, oneStep(newCrashWorld(t), func(t *saga.Turn[empty, int], do func(name, in string) error) (saga.Next, error) {
			if found {
				_ = do("good1", "a")
			}
			return nil, do("lost", "b")
		}))
		out, err := w.tool.Start(t.Context(), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures(), Lost: true, Checkpoint: w.checkpoint})
		if !found {
			require.ErrorAs(t, err, new(*engine.UnsettledError))
			continue
		}
		require.NoError(t, err)
		assert.True(t, out.Result.IsError)
	}
}

func TestCheckpointsAcrossRevisions(t *testing.T) {
	type v1 struct{ Old string }
	type v2 struct{ New string }
	first := crashDeclaredOnce(newCrashWorld(t))
	one := saga.Machine[empty, v1]{
		Info: saga.Info{Name: "up", Effects: []saga.Declared{first}},
		Start: func(t *saga.Turn[empty, v1]) (saga.Next, error) {
			t.State.Old = "x"
			return t.Goto("next")
		},
		Steps: saga.Steps[empty, v1]{
			"next": func(t *saga.Turn[empty, v1]) (saga.Next, error) {
				out, err := saga.Do(t, first, "")
				if err != nil {
					return nil, err
				}
				t.State.Old += out
				return t.Goto("start") // also a step function
			},
		},
	}
	w := watch(t, one)
	w.dies = 3
	_, err := w.start(t.Context(), testNow)
	require.ErrorIs(t, err, errCrash)
	again := crashDeclaredOnce(newCrashWorld(t))
	two := saga.Machine[empty, v2]{
		Info: saga.Info{Name: "up", Revision: 1, Effects: []saga.Declared{again}},
		Upgrades: map[uint32]saga.Upgrade[v2]{0: saga.From(func(old v1) (v2, error) {
			return v2{"was " + old.Old}, nil
		})},
		Start: func(t *saga.Turn[empty, v2]) (saga.Next, error) { return t.Textf("start %s", t.State.New[:5]) },
		Steps: saga.Steps[empty, v2]{"next": func(t *saga.Turn[empty, v2]) (saga.Next, error) {
			out, err := saga.Do(t, again, "")
			return finish(t.Textf("next %s %s", t.State.New, out))(err)
		}},
	}
	w.tool, err = two.Compile()
	require.NoError(t, err)
	var results []string
	for n := range 3 {
		out, err := w.goOn(n + 1)
		require.NoError(t, err)
		require.NoError(t, out.Err)
		results = append(results, text(t, out)[:10])
	}
	assert.Equal(t, []string{"next was x", "next was x", "start was "}, results)
}

func finish(n saga.Next, err error) func(error) (saga.Next, error) {
	return func(before error) (saga.Next, error) { return n, errors.Join(before, err) }
}

func crashDeclaredOnce(w *crashWorld) *saga.Effect[string, string] { return w.effect("good1") }

// Only positions that have something more are encoded in the newer format.
func TestFormatOfPauses(t *testing.T) {
	w := watch(t, crashMachine(newCrashWorld(t), []string{"good1", opYield, opSleep, opNote}))
	out, err := w.start(t.Context(), testNow)
	require.NoError(t, err)
	require.Contains(t, out.Yielded.Text(), "part [good1 ")
	assert.EqualValues(t, 2, out.Position.Encode().Body[0])
	assert.EqualValues(t, 3, w.seen[0].Body[0])
	out, err = w.tool.Resume(t.Context(), out.Position, engine.Call{Now: testNow, Client: steps.AllFeatures()})
	require.NoError(t, err)
	e := out.Position.Encode()
	assert.EqualValues(t, 3, e.Body[0])
	for n := range len(e.Body) {
		short := e
		short.Body = e.Body[:n]
		assert.Error(t, new(engine.Position).Restore(short), "%d bytes", n)
	}
	more := w.seen[0]
	more.Effects = nil
	assert.ErrorContains(t, new(engine.Position).Restore(more), "more effects than the saga")

	cancelled, err := w.tool.Cancel(t.Context(), out.Position, engine.Call{Now: testNow, Held: true, Client: steps.AllFeatures()})
	require.NoError(t, err)
	assert.Contains(t, text(t, cancelled), "Undone: good1.", "one that sleeps is only undone")
}
