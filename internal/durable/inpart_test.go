package durable_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
)

// A task that is cancelled and meets what is final, when something is undone, says so; an operator, too, learns that
// not all is undone. It is the same if that is found out after the task has ended.
func TestTasksThatAreCancelledInPart(t *testing.T) {
	used := saga.Final(errors.New("it is used"))
	for name, first := range map[string]error{"at once": used, "later": errors.New("no answer")} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				things := &counter{holds: map[string]bool{}}
				fails := func(err error) {
					things.mu.Lock()
					defer things.mu.Unlock()
					things.before = func(what string) error {
						if what == "a" {
							return err
						}
						return nil
					}
				}
				fails(first)
				m := r.manager(nil, things.two(saga.Info{}))
				r.work(m)
				o := durable.NewOperator(r.store, func() *codec.Keyset { return r.keys }, "test")
				id := r.start(m, call(m, "two", "")).ID
				r.until(m, id, tasks.InputRequired)
				var w durable.Waiting
				for w = range o.Waiting(t.Context()) {
				}
				require.NoError(t, o.UndoNow(t.Context(), w.ID))
				task := r.until(m, id, tasks.Cancelled)
				assert.Equal(t, map[string]bool{"a": true}, things.held())
				if errors.Is(first, used) {
					assert.Equal(t, "Cancelled in part: the saga has ended, but \"a\" is final.\nUndone up to \"a\", which is final.\nUndone: b.", task.Message)
					assert.Equal(t, "a", turns.UndoReport(task.End.Result).Final)
				}
				fails(used)
				time.Sleep(5 * time.Minute)
				task, err := m.Get(t.Context(), "p", id)
				require.NoError(t, err)
				assert.True(t, task.Final)
				_, err = o.Look(t.Context(), w.ID)
				require.ErrorIs(t, err, durable.ErrInPart)
			})
		})
	}
}
