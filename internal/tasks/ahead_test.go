package tasks_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// tallied is a store that counts what is written.
type tallied struct {
	ledger.Store
	swaps atomic.Int32
}

func (s *tallied) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	err := s.Store.Swap(ctx, r, items...)
	if err == nil {
		s.swaps.Add(1)
	}
	return err
}

// A task whose first step is quick begins with one write, after which that step never runs again.
func TestATaskIsMadeWithItsFirstCheckpoint(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var first, second atomic.Int32
		tool := saga.Machine[none, none]{
			Info:  saga.Info{Name: "two", Tasks: optional},
			Start: func(t *turn) (saga.Next, error) { first.Add(1); return t.Goto("end") },
			Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) {
				if second.Add(1) == 1 {
					<-t.Done()
					return nil, context.Cause(t)
				}
				return t.Textf("done")
			}},
		}
		store := &tallied{Store: r.store}
		r.store = store
		a, way := r.narrowed(tool)
		r.work(a)
		synctest.Wait()
		store.swaps.Store(0)
		task := r.start(a, call(a, "two", ""))
		assert.Equal(t, tasks.Working, task.Status)
		synctest.Wait()
		assert.EqualValues(t, 1, store.swaps.Load())
		assert.EqualValues(t, 1, second.Load())
		way.noSwap.Store(true)
		way.noWatch.Store(true)
		way.noTake()
		b := r.manager(nil, tool)
		r.work(b)
		r.until(b, task.ID, tasks.Completed)
		assert.EqualValues(t, 1, first.Load())
		assert.EqualValues(t, 2, second.Load())
	})
}

// Whoever begins a task finds it begun soon, and nothing more, whatever its first step does.
func TestATaskIsFoundAtItsBeginning(t *testing.T) {
	effect := &saga.Effect[none, none]{Name: "act", Do: func(context.Context, saga.Key, none) (none, error) { return none{}, nil }}
	end := saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) { return t.Textf("done") }}
	for name, c := range map[string]struct {
		start  func(t *turn) (saga.Next, error)
		status tasks.Status
		writes uint64 // until that
	}{
		"asks":   {func(t *turn) (saga.Next, error) { return t.Ask("end", nameForm) }, tasks.InputRequired, 2},
		"ends":   {func(t *turn) (saga.Next, error) { return t.Textf("done") }, tasks.Completed, 2},
		"fails":  {func(*turn) (saga.Next, error) { return nil, saga.Failf("no") }, tasks.Completed, 2},
		"panics": {func(*turn) (saga.Next, error) { panic("no") }, tasks.Failed, 2},
		"acts": {func(t *turn) (saga.Next, error) {
			if _, err := saga.Do(t, effect, none{}); err != nil {
				return nil, err
			}
			return t.Textf("done")
		}, tasks.Completed, 3},
		"tells": {func(t *turn) (saga.Next, error) { t.Progress(1, 2, "half"); return t.Goto("end") }, tasks.Completed, 3},
		"tells and lasts": {func(t *turn) (saga.Next, error) {
			t.Progress(1, 2, "half")
			time.Sleep(time.Second)
			return t.Goto("end")
		}, tasks.Completed, 4},
		"lasts": {func(t *turn) (saga.Next, error) { time.Sleep(time.Second); return t.Goto("end") }, tasks.Completed, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				m := r.manager(nil, saga.Machine[none, none]{
					Info:  saga.Info{Name: "steps", Tasks: optional, Asks: []steps.Question{nameForm}, Effects: []saga.Declared{effect}},
					Start: c.start, Steps: end,
				})
				r.work(m)
				synctest.Wait()
				began := time.Now()
				task := r.start(m, call(m, "steps", ""))
				assert.LessOrEqual(t, time.Since(began), time.Millisecond)
				assert.Equal(t, tasks.Working, task.Status)
				assert.EqualValues(t, 1, task.Rev)
				assert.Empty(t, task.Message)
				assert.Nil(t, task.Progress)
				assert.Zero(t, task.Events)
				assert.Equal(t, c.writes, r.until(m, task.ID, c.status).Rev)
			})
		})
	}
}

// Who goes, or cannot be served, before his task has a record has none, and no place is taken by it.
func TestATaskThatIsNotMade(t *testing.T) {
	for name, leaves := range map[string]bool{"who begins it goes": true, "the ledger fails": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				store := &tallied{Store: r.store}
				cut := &narrow{Store: store, takes: t.Context()}
				r.store = cut
				ctx, leave := context.WithCancelCause(t.Context())
				gone := errors.New("the client has gone")
				var ends atomic.Int32
				tool := saga.Machine[none, none]{
					Info: saga.Info{Name: "steps", Tasks: optional},
					Start: func(t *turn) (saga.Next, error) {
						if leaves {
							leave(gone)
							time.Sleep(time.Microsecond)
						}
						return t.Goto("end")
					},
					Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) { ends.Add(1); return t.Textf("done") }},
				}
				m := r.manager(func(c *tasks.Config) { c.Workers, c.PerPrincipal = 1, 1 }, tool)
				r.work(m)
				synctest.Wait()
				store.swaps.Store(0)
				cut.noSwap.Store(!leaves)
				_, err := m.Start(ctx, call(m, "steps", ""))
				if leaves {
					require.ErrorIs(t, err, gone)
				} else {
					require.ErrorIs(t, err, turns.ErrLedger)
				}
				time.Sleep(2 * time.Millisecond)
				assert.Zero(t, store.swaps.Load())
				assert.Zero(t, ends.Load())
				list, _, err := m.List(t.Context(), "p", "", 10)
				require.NoError(t, err)
				assert.Empty(t, list)
				cut.noSwap.Store(false)
				leaves = false
				task := r.start(m, call(m, "steps", ""))
				assert.Equal(t, tasks.Working, task.Status)
				r.until(m, task.ID, tasks.Completed)
			})
		})
	}
}

// Who goes while the record of his task is being made does not hear of it: it does not go on.
func TestATaskThatIsMadeForNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		store := spied(r)
		m := r.manager(nil, step(func(s *turn) error { <-s.Done(); return context.Cause(s) }))
		r.work(m)
		synctest.Wait()
		ctx, leave := context.WithCancelCause(t.Context())
		gone := errors.New("the client has gone")
		store.fails(func(swap func() error) error {
			store.fails(nil)
			leave(gone)
			time.Sleep(time.Millisecond)
			return swap()
		})
		_, err := m.Start(ctx, call(m, "steps", ""))
		require.ErrorIs(t, err, gone)
		time.Sleep(time.Second)
		list, _, err := m.List(t.Context(), "p", "", 10)
		require.NoError(t, err)
		require.Len(t, list, 1)
		assert.Equal(t, tasks.Cancelled, list[0].Status)
	})
}

// What the first step makes too large for the ledger is a task that fails, not none.
func TestATaskThatBecomesTooLargeAtOnce(t *testing.T) {
	type state struct{ Text string }
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, saga.Machine[none, state]{
			Info: saga.Info{Name: "large", Tasks: optional},
			Start: func(t *saga.Turn[none, state]) (saga.Next, error) {
				t.State.Text = strings.Repeat("x", ledger.MaxBody)
				return t.Goto("end")
			},
			Steps: saga.Steps[none, state]{"end": func(t *saga.Turn[none, state]) (saga.Next, error) { return t.Textf("done") }},
		})
		r.work(m)
		task := r.start(m, call(m, "large", ""))
		assert.Equal(t, tasks.Working, task.Status)
		task = r.until(m, task.ID, tasks.Failed)
		assert.ErrorContains(t, task.Err, "more to remember than")
	})
}
