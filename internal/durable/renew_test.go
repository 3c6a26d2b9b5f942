package durable_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
)

// A task that nobody wants any more is undone, whatever it is at, and one that somebody wants is
// not, wherever he says so.
func TestWhatNobodyWantsIsEnded(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		for _, state := range []string{"runs", "waits", "sleeps"} {
			t.Run(map[bool]string{true: "wanted ", false: "unwanted "}[wanted]+state, func(t *testing.T) {
				inBubble(t, func(t *testing.T, r *rig) {
					d := newDesk()
					effect := &saga.Effect[hold, string]{Name: "hold", Do: d.do, Undo: d.undo}
					tool := saga.Machine[none, none]{
						Info: saga.Info{Name: "long", Tasks: optional, Effects: []saga.Declared{effect}},
						Start: func(t *turn) (saga.Next, error) {
							if _, err := saga.Do(t, effect, hold{Task: "x", What: "a"}); err != nil {
								return nil, err
							}
							return t.Goto("rest")
						},
						Steps: saga.Steps[none, none]{
							"rest": func(t *turn) (saga.Next, error) {
								if state == "sleeps" {
									return t.Sleep(time.Hour, "end")
								}
								select {
								case <-t.Context.Done():
									return nil, context.Cause(t.Context)
								case <-time.After(time.Hour):
									return t.Textf("done")
								}
							},
							"end": func(t *turn) (saga.Next, error) { return t.Textf("done") },
						},
					}
					m := r.manager(nil, tool, greeter())
					other := r.manager(nil, tool, greeter())
					r.work(m)
					name := "long"
					if state == "waits" {
						name = "greet"
					}
					start := call(m, name, "")
					start.Patience = time.Minute
					task := r.start(m, start)
					for range 30 {
						time.Sleep(30 * time.Second)
						if wanted {
							_, err := other.Renew(t.Context(), "p", task.ID, time.Minute, nil)
							require.NoError(t, err)
						}
					}
					now, err := m.Get(t.Context(), "p", task.ID)
					require.NoError(t, err)
					if wanted {
						assert.False(t, now.Status.Ended(), "%v", now.Status)
						_, err = m.Cancel(t.Context(), "p", task.ID)
						require.NoError(t, err)
						r.until(m, task.ID, tasks.Cancelled)
						return
					}
					assert.Equal(t, tasks.Failed, now.Status)
					assert.Less(t, now.Updated.Sub(now.Created), 2*time.Minute)
				})
			})
		}
	}
}

// Who watches a task sees that its note was changed, though it runs and writes nothing.
func TestRenewedNoteIsSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		tool := single("long", func(t *turn) (saga.Next, error) {
			<-t.Context.Done()
			return nil, context.Cause(t.Context)
		})
		m, other := r.manager(nil, tool), r.manager(nil, tool)
		r.work(m)
		start := call(m, "long", "")
		start.Patience, start.Note = time.Minute, json.RawMessage(`"old"`)
		task := r.start(m, start)
		time.Sleep(time.Second)
		for i, by := range []*durable.Core{m, other} {
			note := json.RawMessage([]string{`"here"`, `"elsewhere"`}[i])
			changed, err := by.Renew(t.Context(), "p", task.ID, time.Minute, func(json.RawMessage) json.RawMessage { return note })
			require.NoError(t, err)
			assert.Equal(t, note, changed.Note)
			began := time.Now()
			for seen, err := range m.Watch(t.Context(), "p", task.ID, changed.Rev-1) {
				require.NoError(t, err)
				assert.JSONEq(t, string(note), string(seen.Note))
				break
			}
			assert.Less(t, time.Since(began), time.Second)
		}
		_, err := m.Cancel(t.Context(), "p", task.ID)
		require.NoError(t, err)
		r.until(m, task.ID, tasks.Cancelled)
	})
}

// What was renewed just now is not written again, however often a client looks.
func TestARenewalThatIsFreshIsNotWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, greeter())
		r.work(m)
		s := call(m, "greet", "")
		s.Patience = time.Hour
		task := r.until(m, r.start(m, s).ID, tasks.InputRequired)
		for range 3 {
			time.Sleep(time.Minute)
			now, err := m.Renew(t.Context(), "p", task.ID, time.Hour, nil)
			require.NoError(t, err)
			assert.Equal(t, task.Rev, now.Rev)
		}
		time.Sleep(2 * time.Minute)
		now, err := m.Renew(t.Context(), "p", task.ID, time.Hour, nil)
		require.NoError(t, err)
		assert.Greater(t, now.Rev, task.Rev)
	})
}
