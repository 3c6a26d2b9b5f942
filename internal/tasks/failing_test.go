package tasks_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// takings notes when records were taken.
type takings struct {
	ledger.Store
	mu   sync.Mutex
	when []time.Time
}

func (s *takings) Take(ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
	list, err := s.Store.Take(ctx, t)
	s.mu.Lock()
	defer s.mu.Unlock()
	for range list {
		s.when = append(s.when, time.Now())
	}
	return list, err
}

func (s *takings) all() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.when)
}

// A server that can take tasks but not write of them leaves what it has lost to others, and takes it
// again after longer and longer pauses only; when it can write again, it goes on with all.
func TestAServerThatCannotWriteTakesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		seen := &takings{Store: r.store}
		plain := r.store
		r.store = seen
		var cut *narrow
		var calm atomic.Bool
		tool := step(func(*turn) error { cut.noSwap.Store(!calm.Load()); return nil })
		cut = &narrow{Store: seen, takes: t.Context()}
		r.store = cut
		many := func(c *tasks.Config) { c.Attempts = 100 } // to look on for longer
		a := r.manager(many, tool)
		r.store = plain
		r.work(a)

		task := r.start(a, call(a, "steps", ""))
		time.Sleep(4 * time.Minute)
		assert.Empty(t, seen.all(), "it could write the one that it has lost")
		cut.noSwap.Store(false)
		began := time.Now()
		r.until(a, task.ID, tasks.Completed)
		assert.LessOrEqual(t, time.Since(began), 5*time.Second)

		// Nobody else is there. Each time that it tries again two writes fail for five minutes each.
		task = r.start(a, call(a, "steps", ""))
		time.Sleep(time.Hour)
		when := seen.all()
		require.Len(t, when, 4)
		for i, before := range when[:3] {
			pause := when[i+1].Sub(before) - 10*time.Minute
			assert.Greater(t, pause, 20*time.Second<<(i+1), "the %dth", i)
			assert.Less(t, pause, 30*time.Second<<(i+1), "the %dth", i)
		}
		// Between two tries it has all that others have left, as soon as it can write again.
		time.Sleep(time.Until(when[3].Add(10*time.Minute + 40*time.Second)))
		require.Len(t, seen.all(), 4)
		tool = step(func(*turn) error { return nil })
		b := r.manager(many, tool)
		queued := r.start(b, call(b, "steps", ""))
		cut.noSwap.Store(false)
		calm.Store(true)
		began = time.Now()
		r.start(a, call(a, "steps", ""))
		r.until(b, queued.ID, tasks.Completed)
		assert.LessOrEqual(t, time.Since(began), time.Second)
		// And whoever can write takes what it has lost.
		r.work(b)
		r.until(b, task.ID, tasks.Completed)
		assert.LessOrEqual(t, time.Since(began), 11*time.Second)
	})
}
