package durable_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
)

// unsure is an effect at a service that has done what it was asked for, says nothing, and refuses
// from then on.
type unsure struct {
	refuses       atomic.Bool
	calls, undone atomic.Int32
}

func (u *unsure) effect() *saga.Effect[string, string] {
	return &saga.Effect[string, string]{
		Name: "unsure", Tries: 1,
		Do: func(ctx context.Context, _ saga.Key, _ string) (string, error) {
			u.calls.Add(1)
			if u.refuses.Load() {
				return "", saga.Refused(errors.New("it is taken"))
			}
			select {
			case <-ctx.Done():
			case <-time.After(8 * time.Second):
			}
			return "", errors.New("no answer")
		},
		Undo: func(context.Context, saga.Performed[string, string]) error { u.undone.Add(1); return nil },
	}
}

// What a stop cuts off may have been done: a refusal to whoever goes on does not say the contrary.
func TestARefusalAfterAStopIsUndone(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		inBubble(t, func(t *testing.T, r *rig) {
			service := new(unsure)
			effect := service.effect()
			tool := step(func(t *turn) error { _, err := saga.Do(t, effect, "x"); return err }, effect)
			a, way := r.narrowed(tool)
			b, c := r.manager(nil, tool), r.manager(nil, tool)
			stop := r.work(a)
			task := r.start(a, call(a, "steps", ""))
			time.Sleep(time.Second)
			want := tasks.Completed
			if cancel { // it dies, and the next one, which looks for what it did, is stopped
				want = tasks.Cancelled
				way.noWrite.Store(true)
				way.noTake.Store(true)
				_, err := b.Cancel(t.Context(), "p", task.ID)
				require.NoError(t, err)
				stop = r.work(b)
				time.Sleep(15 * time.Second)
				require.EqualValues(t, 2, service.calls.Load())
			}
			stop()
			service.refuses.Store(true)
			r.work(c)
			r.until(c, task.ID, want)
			assert.EqualValues(t, 1, service.undone.Load(), "cancelled: %v", cancel)
		})
	}
}

// After a checkpoint that is over: a later refusal is what it says.
func TestARefusalAfterACheckpointIsOne(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		service := new(unsure)
		service.refuses.Store(true)
		effect := service.effect()
		var runs atomic.Int32
		tool := saga.Machine[none, none]{
			Info: saga.Info{Name: "steps", Tasks: optional, Effects: []saga.Declared{effect}},
			Start: func(t *turn) (saga.Next, error) {
				if runs.Add(1) == 1 {
					<-t.Done()
					return nil, context.Cause(t)
				}
				return t.Sleep(time.Second, "act")
			},
			Steps: saga.Steps[none, none]{"act": func(t *turn) (saga.Next, error) {
				_, err := saga.Do(t, effect, "x")
				return nil, err
			}},
		}
		a, b := r.manager(nil, tool), r.manager(nil, tool)
		stop := r.work(a)
		task := r.start(a, call(a, "steps", ""))
		time.Sleep(time.Second)
		stop()
		r.work(b)
		assert.True(t, r.until(b, task.ID, tasks.Completed).End.Result.IsError)
		assert.Zero(t, service.undone.Load())
	})
}

// paysAtLast is an effect that cannot be undone, at a service that has done at once what it was asked
// for, and says so the third time.
func paysAtLast(calls *atomic.Int32) *saga.Effect[string, string] {
	return &saga.Effect[string, string]{
		Name: "pay", Irreversible: true, Tries: 1,
		Do: func(context.Context, saga.Key, string) (string, error) {
			if calls.Add(1) < 3 {
				return "", errors.New("no answer")
			}
			return "paid", nil
		},
	}
}

// What cannot be undone is performed again, with the same key, until it is known: before that nothing
// is undone, nor does the task end. It is the same if it is cancelled meanwhile, also between two tries.
func TestWhatCannotBeUndoneIsFoundOut(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		inBubble(t, func(t *testing.T, r *rig) {
			calls := new(atomic.Int32)
			pay := paysAtLast(calls)
			m := r.manager(nil, step(func(t *turn) error { _, err := saga.Do(t, pay, "x"); return err }, pay))
			r.work(m)
			task := r.start(m, call(m, "steps", ""))
			if cancel {
				time.Sleep(100 * time.Millisecond)
				require.EqualValues(t, 1, calls.Load())
				_, err := m.Cancel(t.Context(), "p", task.ID)
				require.NoError(t, err)
			}
			task = r.until(m, task.ID, tasks.Completed)
			assert.False(t, task.End.Result.IsError, "cancelled: %v", cancel)
			assert.GreaterOrEqual(t, calls.Load(), int32(3))
		})
	}
}

// A task that it is too late to cancel goes on, and what was under way when that was found out, and
// cannot be undone for now, may have been done: a refusal after that does not say the contrary.
func TestARefusalAfterACancelThatIsTooLateIsUndone(t *testing.T) {
	for _, dies := range []bool{false, true} {
		inBubble(t, func(t *testing.T, r *rig) {
			service := new(unsure)
			unsure := service.effect()
			undo, unwilling := unsure.Undo, new(atomic.Int32)
			unsure.Undo = func(ctx context.Context, p saga.Performed[string, string]) error {
				if unwilling.Add(1) == 1 {
					service.refuses.Store(true)
					return errors.New("not now")
				}
				return undo(ctx, p)
			}
			paying, paid := make(chan none), new(atomic.Int32)
			defer close(paying)
			final := &saga.Effect[string, string]{
				Name: "pay", Tries: 1,
				Do: func(ctx context.Context, _ saga.Key, _ string) (string, error) {
					if paid.Add(1) == 1 && dies {
						<-paying
					}
					return "paid", nil
				},
				Undo: func(context.Context, saga.Performed[string, string]) error {
					return saga.Final(errors.New("it is paid"))
				},
			}
			tool := step(func(t *turn) error {
				if _, err := saga.Do(t, final, "x"); err != nil {
					return err
				}
				_, err := saga.Do(t, unsure, "x")
				return err
			}, final, unsure)
			a, way := r.narrowed(tool)
			b := r.manager(nil, tool)
			r.work(a)
			task := r.start(a, call(a, "steps", ""))
			time.Sleep(time.Second)
			if dies {
				way.noWrite.Store(true)
				way.noTake.Store(true)
			}
			_, err := b.Cancel(t.Context(), "p", task.ID)
			require.NoError(t, err)
			r.work(b)
			task = r.until(b, task.ID, tasks.Completed)
			assert.True(t, task.End.Result.IsError)
			assert.EqualValues(t, 1, service.undone.Load(), "dies: %v", dies)
		})
	}
}
