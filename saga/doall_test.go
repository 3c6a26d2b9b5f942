package saga_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// crowd is what effects act on that are performed at the same time. Each takes as long as its input says, and ends as
// do says.
type crowd struct {
	mu        sync.Mutex
	now, most int
	tries     map[saga.Key]int
	ended     []string // inputs, in the order in which they ended
	undone    []string
	hangs     bool
	do        func(ctx context.Context, in string) error
}

func (c *crowd) effect(atOnce int) *saga.Effect[string, string] {
	c.tries = map[saga.Key]int{}
	return &saga.Effect[string, string]{
		Name: "hold", AtOnce: atOnce, Tries: 1,
		Do: func(ctx context.Context, key saga.Key, in string) (string, error) {
			c.mu.Lock()
			c.now++
			c.most = max(c.most, c.now)
			c.tries[key]++
			c.mu.Unlock()
			defer func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.now--
				c.ended = append(c.ended, in)
			}()
			takes, _ := time.ParseDuration(strings.Fields(in)[0])
			time.Sleep(takes)
			if c.do != nil {
				if err := c.do(ctx, in); err != nil {
					return "in vain", err
				}
			}
			return "held " + in, nil
		},
		Undo: func(_ context.Context, p saga.Performed[string, string]) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.now > 0 && !c.hangs || p.Known != (p.Out != "") {
				return fmt.Errorf("%d are under way, %+v", c.now, p)
			}
			c.undone = append(c.undone, p.In)
			return nil
		},
	}
}

// performer performs an effect with several inputs; what it returns must not depend on how.
type performer func(ctx saga.Context, e *saga.Effect[string, string], in []string) ([]string, error)

func inALoop(ctx saga.Context, e *saga.Effect[string, string], in []string) ([]string, error) {
	outs, errs := make([]string, len(in)), make(saga.EffectErrors, len(in))
	failed := false
	for i := range in {
		out, err := saga.Do(ctx, e, in[i])
		if outs[i] = out; err != nil && !errors.As(err, &errs[i]) {
			return nil, err
		}
		failed = failed || err != nil
	}
	if failed {
		return outs, errs
	}
	return outs, nil
}

// holding holds some, asks, holds them once more, and says what came of it.
func holding(perform performer, machine bool, e *saga.Effect[string, string], in []string) saga.Definition {
	info := saga.Info{Name: "holding", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{e}}
	hold := func(ctx saga.Context) (string, error) {
		outs, err := perform(ctx, e, in)
		if failed := (saga.EffectErrors)(nil); err != nil && !errors.As(err, &failed) {
			return "", err
		}
		return fmt.Sprintf("%q %v", outs, err), nil
	}
	if machine {
		return saga.Machine[empty, string]{
			Info: info,
			Start: func(t *saga.Turn[empty, string]) (_ saga.Next, err error) {
				if t.State, err = hold(t); err != nil {
					return nil, err
				}
				return t.Ask("end", askConfirm)
			},
			Steps: saga.Steps[empty, string]{"end": func(t *saga.Turn[empty, string]) (saga.Next, error) {
				if _, err := askConfirm.Answer(t); err != nil {
					return nil, err
				}
				more, err := hold(t)
				if err != nil {
					return nil, err
				}
				return t.Textf("%s; %s", t.State, more)
			}},
		}
	}
	return saga.Flow[empty, string]{Info: info, Run: func(r *saga.Run, _ empty) (string, error) {
		first, err := hold(r)
		if err != nil {
			return "", err
		}
		if _, err := saga.Ask(r, askConfirm); err != nil {
			return "", err
		}
		more, err := hold(r)
		return first + "; " + more, err
	}}
}

func TestDoAllIsAsDoInALoop(t *testing.T) {
	rapid.Check(t, func(draw *rapid.T) {
		machine := rapid.Bool().Draw(draw, "machine")
		atOnce := rapid.IntRange(-1, 4).Draw(draw, "at once")
		var in []string
		for i, takes := range rapid.SliceOfN(rapid.IntRange(1, 20), 0, 12).Draw(draw, "takes") {
			in = append(in, fmt.Sprintf("%dms %s %d", takes, rapid.SampledFrom([]string{"good", "good", "bad", "lost"}).Draw(draw, "end"), i))
		}
		synctest.Test(t, func(t *testing.T) {
			do := func(_ context.Context, in string) error {
				switch {
				case strings.Contains(in, "bad"):
					return saga.Refused(errWorld)
				case strings.Contains(in, "lost"):
					return errWorld
				}
				return nil
			}
			type end struct {
				encoded engine.Encoded
				text    string
				tries   map[saga.Key]int
				refused []string
			}
			one := func(first, then performer) (got end, c *crowd) {
				c = &crowd{do: do}
				e := c.effect(atOnce)
				s := play(t, holding(first, machine, e, in))
				s.start(`{}`)
				got.encoded = s.pos.Encode()
				s = &session{t: t, tool: play(t, holding(then, machine, e, in)).tool, pos: s.pos}
				_, err := s.resume(action("confirm", "decline"))
				require.NoError(t, err)
				got.refused, c.undone = c.undone, nil
				got.text = text(t, s.answer(accept("confirm", yes)))
				got.tries = c.tries
				return got, c
			}
			loop, _ := one(inALoop, inALoop)
			all, c := one(saga.DoAll[string, string], saga.DoAll[string, string])
			assert.Equal(t, loop, all)
			if atOnce <= 0 {
				atOnce = 8
			}
			assert.Equal(t, min(atOnce, len(in)), c.most, "at the same time")
			changed, _ := one(inALoop, saga.DoAll[string, string])
			assert.Equal(t, loop, changed)
			changed, _ = one(saga.DoAll[string, string], inALoop)
			assert.Equal(t, loop, changed)
			var want []string
			for _, in := range slices.Backward(in) {
				if !strings.Contains(in, "bad") {
					want = append(want, in)
				}
			}
			assert.Equal(t, want, all.refused, "the last is undone first, and what was refused is not")
		})
	})
}

func TestDoAllSaysWhichFailed(t *testing.T) {
	c := crowd{do: func(_ context.Context, in string) error {
		switch in {
		case "no":
			return saga.Refused(errors.New("taken"))
		case "who knows":
			return errWorld
		}
		return nil
	}}
	var failed saga.EffectErrors
	e := c.effect(2)
	e.Fails = []error{errWorld}
	out := play(t, saga.Flow[empty, string]{Info: saga.Info{Name: "f", Effects: []saga.Declared{e}}, Run: func(r *saga.Run, _ empty) (string, error) {
		none, err := saga.DoAll(r, e, nil)
		assert.Empty(t, none)
		require.NoError(t, err)
		outs, err := saga.DoAll(r, e, []string{"a", "no", "b", "who knows", "c"})
		assert.Equal(t, []string{"held a", "", "held b", "", "held c"}, outs)
		require.ErrorAs(t, err, &failed)
		assert.ErrorIs(t, err, errWorld)
		return "", fmt.Errorf("wrapped: %w", err)
	}}).start(`{}`)
	require.Len(t, failed, 5)
	assert.Equal(t, []bool{true, false, true, false, true}, []bool{failed[0] == nil, failed[1] == nil, failed[2] == nil, failed[3] == nil, failed[4] == nil})
	assert.Equal(t, `2 of 5 effects failed, the first with input 1: effect "hold": taken`, failed.Error())
	assert.False(t, failed[1].Unknown)
	assert.True(t, failed[3].Unknown)
	assert.Equal(t, []string{"c", "who knows", "b", "a"}, c.undone)
	assert.Equal(t, []string{"hold", "hold", "hold", "hold"}, report(t, out).Undone)
	assert.ErrorContains(t, out.Err, "2 of 5 effects failed")
}

// What keeps a DoAll from being begun keeps all of it from being begun.
func TestDoAllIsRefused(t *testing.T) {
	var c crowd
	e := c.effect(0)
	final, other := *e, c.effect(0)
	final.Name, final.Irreversible = "final", true
	type number = *saga.Effect[float64, string]
	numbers := number(&saga.Effect[float64, string]{Name: "numbers", Do: func(context.Context, saga.Key, float64) (string, error) {
		t.Error("it is performed")
		return "", nil
	}})
	for want, do := range map[string]func(r *saga.Run) error{
		`effect "final" is Irreversible`: func(r *saga.Run) error { _, err := saga.DoAll(r, &final, []string{"a"}); return err },
		`effect "hold" is not declared`:  func(r *saga.Run) error { _, err := saga.DoAll(r, other, []string{"a"}); return err },
		`effect "numbers": its input cannot be encoded`: func(r *saga.Run) error {
			_, err := saga.DoAll(r, numbers, []float64{1, math.NaN()})
			return err
		},
	} {
		out := play(t, saga.Flow[empty, string]{Info: saga.Info{Name: "f", Effects: []saga.Declared{e, &final, numbers}}, Run: func(r *saga.Run, _ empty) (string, error) {
			return "", do(r)
		}}).start(`{}`)
		assert.ErrorContains(t, out.Err, want)
		assert.Empty(t, c.ended)
	}
	_, err := saga.Flow[empty, string]{Info: saga.Info{Name: "f", Effects: []saga.Declared{c.effect(65)}}, Run: func(*saga.Run, empty) (string, error) { return "", nil }}.Compile()
	assert.ErrorContains(t, err, `("hold") has an AtOnce of more than 64`)
}

// A turn that breaks off in the middle of a group undoes all that was begun, once all of it has ended.
func TestDoAllBreaksOff(t *testing.T) {
	in := []string{"0s a", "5ms b", "9ms c", "20ms d", "0s e", "0s f"}
	for name, test := range map[string]struct {
		do     func(ctx context.Context, in string, stop func()) error
		want   string
		undone []string
	}{
		"a panic": {func(_ context.Context, in string, _ func()) error {
			if strings.HasSuffix(in, "b") {
				panic("boom")
			}
			return nil
		}, "panic: boom", []string{"0s f", "0s e", "20ms d", "9ms c", "5ms b", "0s a"}},
		"Goexit": {func(_ context.Context, in string, _ func()) error {
			if strings.HasSuffix(in, "b") {
				runtime.Goexit()
			}
			return nil
		}, "runtime.Goexit", []string{"20ms d", "9ms c", "5ms b", "0s a"}},
		"the client has gone": {func(ctx context.Context, in string, stop func()) error {
			if strings.HasSuffix(in, "b") {
				stop()
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, "context canceled", []string{"20ms d", "9ms c", "5ms b", "0s a"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				c := crowd{}
				c.do = func(ctx context.Context, in string) error { return test.do(ctx, in, stop) }
				e := c.effect(4)
				tool, err := saga.Flow[empty, string]{Info: saga.Info{Name: "f", Effects: []saga.Declared{e}}, Run: func(r *saga.Run, _ empty) (string, error) {
					_, err := saga.DoAll(r, e, in)
					return "", err
				}}.Compile()
				require.NoError(t, err)
				saved := 0
				checkpoint := func(context.Context, *engine.Position) error { saved++; return nil }
				_, err = tool.Start(ctx, engine.Call{ID: testID, Now: testNow, Held: true, Limit: time.Minute, Checkpoint: checkpoint})
				var undone *engine.UndoneError
				require.ErrorAs(t, err, &undone)
				assert.ErrorContains(t, err, test.want)
				assert.Equal(t, test.undone, c.undone)
				assert.Zero(t, saved, "what was cut off is to be performed again")
				assert.Zero(t, c.now)
			})
		})
	}
}

// Code of an effect cannot use the turn, nor can another goroutine meanwhile.
func TestNothingElseDuringDoAll(t *testing.T) {
	for name, want := range map[string]string{
		"within": `saga.Do of the effect "hold" was called within saga.DoAll of the effect "hold"`,
		"beside": `saga.Do of the effect "hold" was called in a goroutine of the tool's own`,
	} {
		t.Run(name, func(t *testing.T) {
			var c crowd
			e := c.effect(0)
			tool, err := saga.Flow[empty, string]{Info: saga.Info{Name: "f", Effects: []saga.Declared{e}}, Run: func(r *saga.Run, _ empty) (string, error) {
				c.do = func(context.Context, string) error {
					if name == "within" {
						_, _ = saga.Do(r, e, "c")
						return nil
					}
					var own sync.WaitGroup
					own.Go(func() { _, _ = saga.Do(r, e, "c") }) //sagavet:ignore it is to be refused
					own.Wait()
					return nil
				}
				_, err := saga.DoAll(r, e, []string{"a", "b"})
				return "done", err
			}}.Compile()
			require.NoError(t, err)
			out, err := tool.Start(t.Context(), engine.Call{ID: testID, Now: testNow})
			require.NoError(t, err)
			assert.ErrorContains(t, out.Err, want)
			assert.ElementsMatch(t, []string{"a", "b"}, c.ended)
		})
	}
}

// A turn is given up whose effects ignore its context. What had ended by then is known, and what ends later is ignored.
func TestDoAllThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := crowd{hangs: true}
		e := c.effect(3)
		var late error
		tool, err := saga.Flow[empty, string]{Info: saga.Info{Name: "f", Effects: []saga.Declared{e}}, Run: func(r *saga.Run, _ empty) (_ string, err error) {
			_, late = saga.DoAll(r, e, []string{"1h a", "1ms b", "2h c", "0s d"})
			return "", late
		}}.Compile()
		require.NoError(t, err)
		var did *engine.Position
		_, err = tool.Start(t.Context(), engine.Call{ID: testID, Now: testNow, Limit: time.Minute, Did: func(p *engine.Position) { did = p }})
		var hang *engine.HangError
		require.ErrorAs(t, err, &hang)
		assert.Contains(t, err.Error(), `effect "hold", ignores its context`)
		out, err := tool.Cancel(t.Context(), nil, engine.Call{ID: testID, Now: testNow, Begun: did})
		require.NoError(t, err)
		assert.Equal(t, []string{"hold", "hold", "hold"}, report(t, out).Undone)
		assert.Equal(t, []string{"2h c", "1ms b", "1h a"}, c.undone)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		assert.ErrorContains(t, late, "the turn is over")
		assert.Equal(t, []string{"1ms b", "1h a", "2h c"}, c.ended, "no other is begun")
	})
}

// A checkpoint is written when a group has ended. A worker that goes on there performs what was not in it.
func TestCheckpointsOfDoAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := []string{"4ms a", "2ms b", "3ms c", "1ms d", "2ms e"}
		for _, machine := range []bool{false, true} {
			var c crowd
			tool := play(t, holding(saga.DoAll[string, string], machine, c.effect(2), in)).tool
			var saved []engine.Encoded
			call := engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures(), Checkpoint: func(_ context.Context, p *engine.Position) error {
				saved = append(saved, p.Encode())
				return nil
			}}
			want, err := tool.Start(t.Context(), call)
			require.NoError(t, err)
			require.Len(t, saved, 3)
			for i, done := range []int{2, 4, 5} {
				pos := &engine.Position{ID: testID, Tool: "holding"}
				require.NoError(t, pos.Restore(saved[i]))
				assert.Len(t, pos.Effects(), done)
				c.ended = nil
				out, err := tool.Resume(t.Context(), pos, call)
				require.NoError(t, err)
				assert.Equal(t, want.Position.Encode(), out.Position.Encode())
				assert.ElementsMatch(t, in[done:], c.ended)

				c.undone, c.ended = nil, nil
				cancelled, err := tool.Cancel(t.Context(), pos, engine.Call{Now: testNow, Client: steps.AllFeatures(), Held: true, Checkpoint: call.Checkpoint})
				require.NoError(t, err)
				next := min(done+2, len(in))
				assert.Len(t, report(t, cancelled).Undone, next)
				assert.ElementsMatch(t, in[done:next], c.ended, "a lost turn came no further than its next checkpoint")
				undone := slices.Clone(in[:next])
				slices.Reverse(undone)
				assert.Equal(t, undone, c.undone)
			}
		}
	})
}

// As long as it is not known what became of one of a lost turn, the turn does not end.
func TestDoAllOfALostTurn(t *testing.T) {
	fail := errWorld
	c := crowd{do: func(_ context.Context, in string) error {
		if in == "b" {
			return fail
		}
		return nil
	}}
	tool := play(t, holding(saga.DoAll[string, string], false, c.effect(2), []string{"a", "b", "c"})).tool
	call := engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures(), Lost: true}
	_, err := tool.Start(t.Context(), call)
	require.ErrorAs(t, err, new(*engine.UnsettledError))
	fail = saga.Refused(errWorld)
	out, err := tool.Start(t.Context(), call)
	require.NoError(t, err)
	out, err = tool.Cancel(t.Context(), out.Position, engine.Call{Now: testNow})
	require.NoError(t, err)
	assert.Equal(t, []string{"c", "b", "a"}, c.undone, "b may have been done before it was refused")
	assert.Len(t, report(t, out).Undone, 3)
}
