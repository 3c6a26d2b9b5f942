package saga_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// stays is a flow that holds a room, asks, and ends.
func stays[T any](in T, revision uint32) saga.Flow[empty, string] {
	ask := &steps.Form[confirmForm]{ID: "confirm", Message: "Sure?"}
	hold := &saga.Effect[T, string]{Name: "hold", Do: func(context.Context, saga.Key, T) (string, error) { return "held", nil },
		Undo: func(context.Context, saga.Performed[T, string]) error { return nil }}
	return saga.Flow[empty, string]{Info: saga.Info{Name: "f", Revision: revision, Asks: []steps.Question{ask}, Effects: []saga.Declared{hold}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			if _, err := saga.Do(r, hold, in); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, ask)
			return "done", err
		}}
}

func TestNewFieldOfAnInput(t *testing.T) {
	type before struct{ City string }
	type now struct{ City, Room string }
	for input, want := range map[now]string{{City: "Rome"}: "done", {City: "Rome", Room: "7"}: "failed", {City: "Oslo"}: "failed"} {
		for revision := range uint32(2) {
			s := play(t, stays(before{"Rome"}, 0))
			s.start(`{}`)
			s.tool = play(t, stays(input, revision)).tool
			assert.Contains(t, text(t, s.answer(accept("confirm", yes))), want)
		}
	}
}

func TestRenamedInstances(t *testing.T) {
	flow := func(id string, revision uint32, renamed map[string]string) saga.Definition {
		each, last := &steps.Form[confirmForm]{ID: id, Message: "Sure?"}, &steps.Form[confirmForm]{ID: "last", Message: "Last?"}
		return saga.Flow[empty, string]{Info: saga.Info{Name: "f", Revision: revision, Renamed: renamed, Asks: []steps.Question{each, last}},
			Run: func(r *saga.Run, _ empty) (string, error) {
				for i := range 2 {
					if _, err := saga.Ask(r, each.Nth(i)); err != nil {
						return "", err
					}
				}
				_, err := saga.Ask(r, last)
				return "done", err
			}}
	}
	for answered := range 2 { // before and after the new revision
		s := play(t, flow("old", 0, nil))
		s.start(`{}`)
		s.answer(accept("old#0", yes))
		if answered > 0 {
			s.answer(accept("old#1", yes))
		}
		s.tool = play(t, flow("new", 1, map[string]string{"old": "new"})).tool
		if answered == 0 {
			require.Equal(t, []string{"last"}, ids(s.answer(accept("old#1", yes))))
		}
		assert.Equal(t, "done", text(t, s.answer(accept("last", yes))))
	}
}

// What others may take counts from when they are asked, not from the time that a turn has kept.
func TestWithinAfterACheckpoint(t *testing.T) {
	paid := &steps.Event[struct{ Cents int }]{ID: "paid", Message: "m", Within: 30 * time.Minute}
	act := &saga.Effect[string, string]{Name: "act", Do: func(_ context.Context, _ saga.Key, in string) (string, error) { return in, nil }}
	w := watch(t, saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{paid}, Effects: []saga.Declared{act}}, Run: func(r *saga.Run, _ empty) (string, error) {
		if _, err := saga.Do(r, act, "x"); err != nil {
			return "", err
		}
		_, err := saga.Ask(r, paid)
		return "paid", err
	}})
	w.dies = 1
	_, err := w.start(t.Context(), testNow)
	require.ErrorIs(t, err, errCrash)
	w.dies = 0
	out, err := w.goOn(1) // an hour later
	require.NoError(t, err)
	assert.WithinDuration(t, testNow.Add(90*time.Minute), out.Position.AwaitsUntil(), 0)
}

// So does a sleep.
func TestSleepAfterACheckpoint(t *testing.T) {
	act := &saga.Effect[string, string]{Name: "act", Do: func(_ context.Context, _ saga.Key, in string) (string, error) { return in, nil }}
	for name, tool := range map[string]func(time.Duration) saga.Definition{
		"flow": func(d time.Duration) saga.Definition {
			return saga.Flow[empty, string]{Info: saga.Info{Name: "f", Effects: []saga.Declared{act}}, Run: func(r *saga.Run, _ empty) (string, error) {
				if _, err := saga.Do(r, act, "x"); err != nil {
					return "", err
				}
				return "slept", r.Sleep(d)
			}}
		},
		"machine": func(d time.Duration) saga.Definition {
			return saga.Machine[empty, empty]{Info: saga.Info{Name: "m", Effects: []saga.Declared{act}},
				Start: func(t *saga.Turn[empty, empty]) (saga.Next, error) {
					if _, err := saga.Do(t, act, "x"); err != nil {
						return nil, err
					}
					return t.Sleep(d, "slept")
				},
				Steps: saga.Steps[empty, empty]{"slept": func(t *saga.Turn[empty, empty]) (saga.Next, error) { return t.Textf("slept") }},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, d := range []time.Duration{30 * time.Minute, 0, -time.Minute} {
				w := watch(t, tool(d))
				w.dies = 1
				_, err := w.start(t.Context(), testNow)
				require.ErrorIs(t, err, errCrash)
				w.dies = 0
				out, err := w.goOn(1) // an hour later
				require.NoError(t, err)
				if d <= 0 {
					assert.Equal(t, "slept", text(t, out))
					continue
				}
				require.NotNil(t, out.Position)
				assert.WithinDuration(t, testNow.Add(90*time.Minute), out.Position.Wake, 0)
				out, err = w.tool.Resume(t.Context(), out.Position, engine.Call{Now: out.Position.Wake, Client: steps.AllFeatures()})
				require.NoError(t, err)
				assert.Equal(t, "slept", text(t, out))
			}
		})
	}
}
