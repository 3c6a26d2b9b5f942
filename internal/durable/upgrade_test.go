package durable_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A task whose state a newer revision cannot read ends, and what it did is undone once, also if it is
// cancelled there.
func TestAnUpgradeThatFailsUndoesOnce(t *testing.T) {
	type state struct{ City string }
	for name, upgrade := range map[string]func() (state, error){
		"with an error": func() (state, error) { return state{}, errors.New("no such city") },
		"by a panic":    func() (state, error) { panic("no such city") },
	} {
		for _, cancel := range []bool{false, true} {
			inBubble(t, func(t *testing.T, r *rig) {
				undone := make(map[saga.Key]int)
				effect := &saga.Effect[string, string]{
					Name: "hold", Do: func(_ context.Context, _ saga.Key, in string) (string, error) { return in, nil },
					Undo: func(_ context.Context, p saga.Performed[string, string]) error { undone[p.Key]++; return nil },
				}
				tool := func(revision uint32) saga.Definition {
					m := saga.Machine[none, state]{
						Info: saga.Info{Name: "trip", Tasks: optional, Revision: revision, Asks: []steps.Question{nameForm}, Effects: []saga.Declared{effect}},
						Start: func(t *saga.Turn[none, state]) (saga.Next, error) {
							t.State.City = "Rome"
							for _, what := range []string{"a", "b"} {
								if _, err := saga.Do(t, effect, what); err != nil { //sagavet:ignore a task loses no response
									return nil, err
								}
							}
							return t.Ask("end", nameForm)
						},
						Steps: saga.Steps[none, state]{"end": func(t *saga.Turn[none, state]) (saga.Next, error) { return t.Textf("done") }},
					}
					if revision > 0 {
						m.Upgrades = map[uint32]saga.Upgrade[state]{0: saga.From(func(state) (state, error) { return upgrade() })}
					}
					return m
				}
				old, now := r.manager(nil, tool(0)), r.manager(nil, tool(1))
				stop := r.work(old)
				task := r.until(old, r.start(old, call(old, "trip", "")).ID, tasks.InputRequired)
				stop()
				r.work(now)
				want := tasks.Failed
				if name == "with an error" {
					want = tasks.Completed // with a result that says so
				}
				var err error
				if cancel {
					want = tasks.Cancelled
					_, err = now.Cancel(t.Context(), "p", task.ID)
				} else {
					_, err = now.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Ada"}`)})
				}
				require.NoError(t, err)
				task = r.until(now, task.ID, want)
				assert.Equal(t, !cancel && name == "with an error", strings.Contains(task.Message, "the tool has changed"), task.Message)
				time.Sleep(time.Hour)
				assert.Len(t, undone, 2, name)
				for key, times := range undone {
					assert.Equal(t, 1, times, "%s: %s", name, key)
				}
			})
		}
	}
}
