package durable_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
)

// A task that is cancelled while it performs what is final, and whose Undo cannot find that out at once, is not
// taken for one that has done nothing.
func TestACancelledTaskFindsOutWhatIsFinal(t *testing.T) {
	for name, cut := range map[string]func(context.Context) error{"heeds": context.Context.Err, "says why": context.Cause} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				paid, undos := false, 0
				pay := &saga.Effect[string, string]{
					Name: "pay", Irreversible: true, Tries: 1,
					Do: func(ctx context.Context, _ saga.Key, _ string) (string, error) {
						paid = true
						<-ctx.Done()
						return "", cut(ctx)
					},
					Undo: func(context.Context, saga.Performed[string, string]) error {
						if undos++; undos == 1 {
							return errors.New("the bank does not answer")
						}
						paid = false
						return nil
					},
				}
				m := r.manager(nil, saga.Flow[none, string]{
					Info: saga.Info{Name: "pays", Tasks: optional, Effects: []saga.Declared{pay}},
					Run:  func(r *saga.Run, _ none) (string, error) { return saga.Do(r, pay, "x") },
				})
				r.work(m)
				task := r.start(m, call(m, "pays", ""))
				time.Sleep(time.Second)
				synctest.Wait()
				require.True(t, paid)
				_, err := m.Cancel(t.Context(), "p", task.ID)
				require.NoError(t, err)
				r.until(m, task.ID, tasks.Cancelled)
				assert.False(t, paid)
			})
		})
	}
}
