package durable_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
)

// Who asks again for a task that there is gets it, however many there are.
func TestTheSameCallAtTheLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(func(c *durable.Config) { c.Limit = 1 }, greeter())
		r.work(m)
		s := call(m, "greet", "")
		s.Request.IdempotencyKey = "key"
		first := r.start(m, s)
		assert.Equal(t, first.ID, r.start(m, s).ID)
		s.Request.IdempotencyKey = "another"
		_, err := m.Start(t.Context(), s)
		require.ErrorIs(t, err, tasks.ErrTooMany)
	})
}

// A stop does not wait for a store that is down: neither to record what runs nor to put back what
// has found no place.
func TestAStopWhileTheStoreIsDown(t *testing.T) {
	for name, c := range map[string]struct{ runs, queued int }{"what runs": {runs: 1}, "what is put back": {runs: 1, queued: 3}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				down := newNarrow(r.store)
				release := make(chan none)
				tool := single("long", func(t *turn) (saga.Next, error) { <-release; return t.Textf("done") })
				m, err := durable.New(durable.Config{Turns: r.runner(tool), Store: down, Workers: 2, PerPrincipal: 1})
				require.NoError(t, err)
				stop := r.work(m)
				for range c.runs {
					r.start(m, call(m, "long", ""))
				}
				time.Sleep(time.Second)
				down.noWrite.Store(true)
				other := r.manager(nil, tool)
				for range c.queued { // one has a place to wait in
					_, err := other.Start(t.Context(), call(other, "long", ""))
					require.NoError(t, err)
				}
				time.Sleep(100 * time.Millisecond)
				close(release)
				time.Sleep(time.Second)
				began := time.Now()
				stop()
				assert.Less(t, time.Since(began), 15*time.Second)
			})
		})
	}
}

// A list shows how tasks have ended without their results, and goes on past what cannot be read.
func TestListWithoutResults(t *testing.T) {
	type args struct {
		Bad bool `json:"bad"`
	}
	tool := saga.Machine[args, none]{
		Info: saga.Info{Name: "ends", Tasks: optional},
		Start: func(t *saga.Turn[args, none]) (saga.Next, error) {
			t.Progress(1, 2, "half")
			if t.Args.Bad {
				return nil, saga.Failf("no paper")
			}
			return t.Finish(content.Resultf("a long result"))
		},
	}
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, tool)
		r.work(m)
		bad := r.start(m, call(m, "ends", `{"bad":true}`)).ID
		time.Sleep(time.Second)
		good := r.start(m, call(m, "ends", `{"bad":false}`)).ID
		for _, id := range []string{bad, good} {
			r.until(m, id, tasks.Completed)
		}
		list, _, err := m.List(t.Context(), "p", "", 10)
		require.NoError(t, err)
		require.Len(t, list, 2)
		for _, task := range list {
			assert.Nil(t, task.End)
			assert.Equal(t, task.ID == bad, task.Bad)
			assert.Equal(t, map[string]string{bad: "no paper", good: "Completed."}[task.ID], task.Message, "not the last progress")
			now, err := m.Status(t.Context(), "p", task.ID)
			require.NoError(t, err)
			now.Progress, now.Told = nil, 0 // which lists leave out
			assert.Equal(t, task, now)
			whole, err := m.Get(t.Context(), "p", task.ID)
			require.NoError(t, err)
			require.NotNil(t, whole.End)
			assert.Equal(t, task.Bad, whole.End.Result.IsError)
		}
		records, err := r.store.List(t.Context(), store.Filter{Audience: "test", Statuses: []store.Status{store.Ended}}, store.Cursor{}, 1)
		require.NoError(t, err)
		require.Len(t, records, 1) // the first, which is bad
		damaged, err := r.store.Load(t.Context(), records[0].ID)
		require.NoError(t, err)
		damaged.State[len(damaged.State)-1] ^= 1
		damaged.Summary[len(damaged.Summary)-1] ^= 1
		damaged.Fence++
		require.NoError(t, r.store.Write(t.Context(), damaged, store.Change{Items: []store.Item{{N: damaged.Head + 1, Kind: "turn"}}}))
		_, err = m.Get(t.Context(), "p", bad)
		require.ErrorIs(t, err, durable.ErrUnreadable)
		list, next, err := m.List(t.Context(), "p", "", 10)
		require.NoError(t, err)
		assert.Empty(t, next)
		require.Len(t, list, 1)
		assert.Equal(t, good, list[0].ID)
	})
}

// What was asked for is how long a task is kept at least, if its program says less.
func TestStartKeep(t *testing.T) {
	for _, c := range []struct{ program, start, want time.Duration }{
		{time.Hour, 5 * time.Hour, 5 * time.Hour}, {5 * time.Hour, time.Hour, 5 * time.Hour}, {2 * time.Hour, 0, 2 * time.Hour},
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			m := r.manager(nil, saga.Machine[none, none]{
				Info:  saga.Info{Name: "brief", Tasks: saga.Tasks{Mode: saga.TasksOptional, TTL: time.Minute, Keep: c.program}},
				Start: func(t *turn) (saga.Next, error) { return t.Textf("done") },
			})
			r.work(m)
			s := call(m, "brief", "")
			s.Keep = c.start
			id := r.until(m, r.start(m, s).ID, tasks.Completed).ID
			time.Sleep(c.want - time.Second)
			_, err := m.Get(t.Context(), "p", id)
			require.NoError(t, err)
			time.Sleep(2 * time.Second)
			_, err = m.Get(t.Context(), "p", id)
			require.ErrorIs(t, err, tasks.ErrNotFound)
		})
	}
}

func TestEventsAreBounded(t *testing.T) {
	tool := single("progress", func(t *turn) (saga.Next, error) {
		for n := range 36000 {
			t.Progress(float64(n+1), 0, "")
			time.Sleep(100 * time.Millisecond)
		}
		return t.Textf("done")
	})
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, tool)
		r.work(m)
		task := r.start(m, call(m, "progress", ""))
		done := r.until(m, task.ID, tasks.Completed)
		events, err := m.Events(t.Context(), "p", task.ID, 0, 100_000)
		require.NoError(t, err)
		assert.InDelta(t, 750, len(events), 260)
		assert.InDelta(t, 36000, done.Progress.Done, 0, "the last one counts all the same")
	})
}

func TestLimits(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(func(c *durable.Config) { c.Limit = 3 }, greeter())
		r.work(m)
		var first string
		for n := range 3 {
			if task := r.start(m, call(m, "greet", "")); n == 0 {
				first = task.ID
			}
		}
		_, err := m.Start(t.Context(), call(m, "greet", ""))
		require.ErrorIs(t, err, tasks.ErrTooMany)
		_, err = m.Cancel(t.Context(), "p", first)
		require.NoError(t, err)
		r.until(m, first, tasks.Cancelled)
		time.Sleep(200 * time.Millisecond)
		r.start(m, call(m, "greet", ""))
		s := call(m, "greet", "")
		s.Request.Principal = "another"
		r.start(m, s)
		list, next, err := m.List(t.Context(), "p", "", 2)
		require.NoError(t, err)
		more, last, err := m.List(t.Context(), "p", next, 5)
		require.NoError(t, err)
		assert.Empty(t, last)
		assert.Len(t, append(list, more...), 4, "one's own, also those that have ended")
	})
}

func TestAPrincipalWithManyTasksLeavesRoom(t *testing.T) {
	var running, most atomic.Int32
	tool := single("slow", func(t *turn) (saga.Next, error) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer running.Add(-1)
		time.Sleep(10 * time.Second)
		return t.Textf("done")
	})
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(func(c *durable.Config) { c.Workers = 4 }, tool)
		r.work(m)
		var last *tasks.Task
		for range 100 {
			last = r.start(m, call(m, "slow", ""))
		}
		time.Sleep(time.Minute)
		assert.EqualValues(t, 2, most.Load(), "half of the workers")
		s := call(m, "slow", "")
		s.Request.Principal = "another"
		task := r.start(m, s)
		time.Sleep(10100 * time.Millisecond)
		now, err := m.Get(t.Context(), "another", task.ID)
		require.NoError(t, err)
		assert.Equal(t, tasks.Completed, now.Status)
		began := time.Now()
		for task := last; !task.Status.Ended(); task, _ = m.Get(t.Context(), "p", task.ID) {
			time.Sleep(time.Second)
		}
		assert.Less(t, time.Since(began), 10*time.Minute, "and gets its own done")
	})
}

func TestATaskThatBreaksWorkersIsGivenUp(t *testing.T) {
	var runs atomic.Int32
	tool := single("bad", func(t *turn) (saga.Next, error) {
		runs.Add(1)
		time.Sleep(time.Hour) // so long that its worker is given up
		return t.Textf("done")
	})
	inBubble(t, func(t *testing.T, r *rig) {
		var ended *tasks.Task
		var id string
		for n := 0; ended == nil; n++ {
			require.Less(t, n, 10)
			l := newLink(r.store, newRand(), -1, 0)
			m, err := durable.New(durable.Config{Turns: r.runner(tool), Store: l, Attempts: 3})
			require.NoError(t, err)
			r.work(m)
			if n == 0 {
				id = r.start(m, call(m, "bad", "")).ID
			}
			time.Sleep(15 * time.Second)
			task, err := m.Get(t.Context(), "p", id)
			require.NoError(t, err)
			if task.Status.Ended() {
				ended = task
			}
			l.cut()
		}
		assert.Equal(t, tasks.Failed, ended.Status)
		require.ErrorContains(t, ended.Err, "given up")
		assert.EqualValues(t, 3, runs.Load())
	})
}

func TestWaitingCostsNothing(t *testing.T) {
	r := newRig(t)
	defer r.close()
	m := r.manager(func(c *durable.Config) { c.Limit = -1 }, greeter())
	r.work(m)
	one := func() {
		_, err := m.Start(t.Context(), call(m, "greet", ""))
		require.NoError(t, err)
	}
	one()
	time.Sleep(100 * time.Millisecond)
	before := runtime.NumGoroutine()
	for range 10_000 {
		one()
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && runtime.NumGoroutine() > before; {
		time.Sleep(20 * time.Millisecond)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)
}
