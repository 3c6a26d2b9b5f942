package saga_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// hanging is a tool that does a, b and c, asks, and goes on as end says. The undo of
// those in stuck hangs until its context ends; that of the others takes a second.
func hanging(t *testing.T, stuck map[string]bool, end func(r *saga.Run) error) *engine.Program {
	type form struct {
		Sure bool `json:"sure"`
	}
	sure := &steps.Form[form]{ID: "sure", Message: "Sure?"}
	effect := func(name string) *saga.Effect[bool, bool] {
		return &saga.Effect[bool, bool]{
			Name: name,
			Do:   func(context.Context, saga.Key, bool) (bool, error) { return true, nil },
			Undo: func(ctx context.Context, _ saga.Performed[bool, bool]) error {
				work := time.After(time.Second)
				if stuck[name] {
					work = nil
				}
				select {
				case <-work:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			},
		}
	}
	effects := []*saga.Effect[bool, bool]{effect("a"), effect("b"), effect("c")}
	tool, err := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "hanging", Asks: []steps.Question{sure}, Effects: []saga.Declared{effects[0], effects[1], effects[2]}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			for _, e := range effects {
				if _, err := saga.Do(r, e, true); err != nil {
					return "", err
				}
			}
			if end != nil {
				return "", end(r)
			}
			_, err := saga.Ask(r, sure)
			return "", err
		},
	}.Compile()
	require.NoError(t, err)
	return tool
}

// An undo that hangs does not hold the turn for ever, in whatever way the saga came
// to it, nor does it take the time of the others.
func TestUndoHasItsTime(t *testing.T) {
	const turn = time.Minute
	fail := func(*saga.Run) error { return saga.Failf("no") }
	wait := func(r *saga.Run) error { <-r.Done(); return r.Err() }
	// resumed has the report of a saga that a second turn ended.
	resumed := func(t *testing.T, ctx context.Context, tool *engine.Program, f func(*engine.Position) (*engine.Outcome, error)) *engine.UndoReport {
		out, err := tool.Start(ctx, engine.Call{Now: time.Now(), Client: steps.AllFeatures()})
		require.NoError(t, err)
		out, err = f(out.Position)
		require.NoError(t, err)
		return report(t, out)
	}
	ways := []struct {
		name string
		most time.Duration // how long it may take altogether
		run  func(t *testing.T, stuck map[string]bool) *engine.UndoReport
	}{
		{"the tool fails", turn + engine.UndoTime, func(t *testing.T, stuck map[string]bool) *engine.UndoReport {
			ctx, cancel := context.WithTimeout(t.Context(), turn)
			defer cancel()
			out, err := hanging(t, stuck, fail).Start(ctx, engine.Call{Now: time.Now()})
			require.NoError(t, err)
			return report(t, out)
		}},
		{"the turn's time is over", turn + engine.UndoTime, func(t *testing.T, stuck map[string]bool) *engine.UndoReport {
			ctx, cancel := context.WithTimeout(t.Context(), turn)
			defer cancel()
			_, err := hanging(t, stuck, wait).Start(ctx, engine.Call{Now: time.Now(), Held: true})
			var undone *engine.UndoneError
			require.ErrorAs(t, err, &undone)
			return undone.Report
		}},
		{"the client goes away", time.Second + engine.UndoTime, func(t *testing.T, stuck map[string]bool) *engine.UndoReport {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err := hanging(t, stuck, wait).Start(ctx, engine.Call{Now: time.Now(), Held: true})
			var undone *engine.UndoneError
			require.ErrorAs(t, err, &undone)
			return undone.Report
		}},
		{"cancelled", turn + engine.UndoTime, func(t *testing.T, stuck map[string]bool) *engine.UndoReport {
			ctx, cancel := context.WithTimeout(t.Context(), turn)
			defer cancel()
			tool := hanging(t, stuck, nil)
			return resumed(t, ctx, tool, func(p *engine.Position) (*engine.Outcome, error) {
				return tool.Cancel(ctx, p, engine.Call{Now: time.Now()})
			})
		}},
		{"abandoned", turn + engine.UndoTime, func(t *testing.T, stuck map[string]bool) *engine.UndoReport {
			ctx, cancel := context.WithTimeout(t.Context(), turn)
			defer cancel()
			tool := hanging(t, stuck, nil)
			return resumed(t, ctx, tool, func(p *engine.Position) (*engine.Outcome, error) {
				return tool.Abandon(ctx, p, engine.Call{Why: "gone"})
			})
		}},
		{"declined", turn + engine.UndoTime, func(t *testing.T, stuck map[string]bool) *engine.UndoReport {
			ctx, cancel := context.WithTimeout(t.Context(), turn)
			defer cancel()
			tool := hanging(t, stuck, nil)
			return resumed(t, ctx, tool, func(p *engine.Position) (*engine.Outcome, error) {
				no := steps.Answer{StepID: "sure", Result: []byte(`{"action":"decline"}`)}
				return tool.Resume(ctx, p, engine.Call{Now: time.Now(), Client: steps.AllFeatures(), Answers: []steps.Answer{no}})
			})
		}},
		{"a turn without a deadline", 3 * 3 * 35 * time.Second, func(t *testing.T, stuck map[string]bool) *engine.UndoReport {
			out, err := hanging(t, stuck, fail).Start(t.Context(), engine.Call{Now: time.Now()})
			require.NoError(t, err)
			return report(t, out)
		}},
	}
	for _, way := range ways {
		for _, names := range [][]string{{"a"}, {"c"}, {"c", "b"}, {"c", "b", "a"}} {
			t.Run(way.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					stuck := map[string]bool{}
					for _, name := range names {
						stuck[name] = true
					}
					begun := time.Now()
					u := way.run(t, stuck)
					assert.LessOrEqual(t, time.Since(begun), way.most)
					assert.Equal(t, names, u.Outstanding)
					rest := slices.DeleteFunc([]string{"c", "b", "a"}, func(s string) bool { return stuck[s] })
					assert.Equal(t, rest, u.Undone)

					// What is outstanding can be tried again once it does not hang.
					out, err := hanging(t, nil, nil).Cancel(t.Context(), u.Again, engine.Call{Now: time.Now()})
					require.NoError(t, err)
					again := report(t, out)
					assert.Equal(t, names, again.Undone)
					assert.Empty(t, again.Outstanding)
				})
			})
		}
	}
}

func TestLogSaysThatTheTimeToUndoIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		tool := hanging(t, map[string]bool{"c": true}, func(*saga.Run) error { return saga.Failf("no") })
		out, err := tool.Start(ctx, engine.Call{Now: time.Now()})
		require.NoError(t, err)
		assert.ErrorContains(t, out.Err, `undo of "c": the time for undoing it is over`)
		assert.NotContains(t, text(t, out), "time")
	})
}

// Where the turn has the time, long tries are as many as short ones.
func TestLongTriesAreCountedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		slow := &saga.Effect[empty, empty]{Name: "slow", Timeout: time.Hour, Do: func(context.Context, saga.Key, empty) (empty, error) {
			time.Sleep(20 * time.Minute)
			if tries++; tries < 3 {
				return empty{}, errors.New("connection reset")
			}
			return empty{}, nil
		}}
		s := play(t, saga.Flow[empty, string]{
			Info: saga.Info{Name: "long", Effects: []saga.Declared{slow}},
			Run: func(r *saga.Run, _ empty) (string, error) {
				_, err := saga.Do(r, slow, empty{})
				return "done", err
			},
		})
		assert.Equal(t, "done", text(t, s.start(`{}`)))
		assert.Equal(t, 3, tries)
	})
}
