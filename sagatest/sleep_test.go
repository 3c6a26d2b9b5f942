package sagatest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// TestSleeps plays and sweeps tools that yield, and sleep for a moment and for a week.
func TestSleeps(t *testing.T) {
	began := time.Now()
	week := 7 * 24 * time.Hour
	ask := &steps.Form[struct {
		Go bool `json:"go"`
	}]{ID: "go", Message: "Go?"}
	script := []answer{accept("go", map[string]any{"go": true})}
	note := &saga.Effect[string, string]{
		Name: "note",
		Do:   func(_ context.Context, _ saga.Key, in string) (string, error) { return in, nil },
		Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
	}
	info := saga.Info{Name: "sleeps", Asks: []steps.Question{ask}, Effects: []saga.Declared{note}, Yields: true}
	flow := saga.Flow[struct{}, string]{Info: info, Run: func(r *saga.Run, _ struct{}) (string, error) {
		first := r.Now()
		if err := r.Yield(content.Textf("one")); err != nil {
			return "", err
		}
		if err := r.Sleep(time.Second); err != nil {
			return "", err
		}
		if _, err := saga.Ask(r, ask); err != nil {
			return "", err
		}
		if _, err := saga.Do(r, note, "before"); err != nil {
			return "", err
		}
		if err := r.Sleep(week); err != nil {
			return "", err
		}
		if err := r.Until(first.Add(2 * week)); err != nil {
			return "", err
		}
		if slept := r.Now().Sub(first); slept < 2*week {
			return "", saga.Failf("slept for %v only", slept)
		}
		if _, err := saga.Do(r, note, "after"); err != nil {
			return "", err
		}
		return "two", nil
	}}
	type turn = saga.Turn[struct{}, time.Time]
	machine := saga.Machine[struct{}, time.Time]{
		Info: info,
		Start: func(t *turn) (saga.Next, error) {
			t.State = t.Now()
			return t.Yield("part", content.Textf("one"))
		},
		Steps: saga.Steps[struct{}, time.Time]{
			"part":  func(t *turn) (saga.Next, error) { return t.Sleep(time.Second, "awake") },
			"awake": func(t *turn) (saga.Next, error) { return t.Ask("asked", ask) },
			"asked": func(t *turn) (saga.Next, error) {
				if _, err := saga.Do(t, note, "before"); err != nil {
					return nil, err
				}
				return t.Until(t.State.Add(2*week), "late")
			},
			"late": func(t *turn) (saga.Next, error) {
				if slept := t.Now().Sub(t.State); slept < 2*week {
					return nil, saga.Failf("slept for %v only", slept)
				}
				_, err := saga.Do(t, note, "after")
				if err != nil {
					return nil, err
				}
				return t.Textf("two")
			},
		},
	}
	for name, tool := range map[string]saga.Definition{"flow": flow, "machine": machine} {
		t.Run(name, func(t *testing.T) {
			played := sagatest.Player{}.Play(t, tool, nil, script...)
			assert.Equal(t, "one\ntwo", played.Text())
			sagatest.Sweep(t, sagatest.Case{Tool: tool, Script: script})
		})
	}
	assert.Less(t, time.Since(began), 5*time.Minute, "nobody waits for it")
}
