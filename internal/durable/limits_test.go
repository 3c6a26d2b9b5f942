package durable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
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

// What cannot become a task, or a call that can be continued, as its client has too many, is as if the request
// had not come: no answers are kept, and the same token is good for others when there is room.
func TestAHandoverAtTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		after string
		delay time.Duration
	}{"a saga becomes a task": {after: "name"}, "a call asks": {delay: time.Minute}} {
		inBubble(t, func(t *testing.T, r *rig) {
			tool := greeter().(saga.Machine[none, none])
			tool.Tasks.After = c.after
			m := r.manager(func(c *durable.Config) { c.Limit, c.MaxSagas = 1, 1 }, tool, single("long", func(t *turn) (saga.Next, error) { return t.Sleep(time.Hour, engine.StartStep) }))
			r.work(m)
			one := call(m, "long", "")
			one.Delay = c.delay / 60
			other := r.start(m, one)
			s := call(m, "greet", "")
			s.Delay = c.delay
			if c.after != "" {
				s.Request.Token = r.start(m, s).End.Token
			}
			for _, says := range []string{"Ada", "Bea", "Ada"} {
				s.Request.Answers = []steps.Answer{accept("name", `{"name":"`+says+`"}`)}
				_, err := m.Start(t.Context(), s)
				require.ErrorIs(t, err, tasks.ErrTooMany, name)
			}
			_, err := m.Cancel(t.Context(), "p", other.ID)
			require.NoError(t, err)
			r.until(m, other.ID, tasks.Cancelled)
			time.Sleep(time.Second)
			s.Request.Answers = []steps.Answer{accept("name", `{"name":"Cid"}`)}
			task := r.start(m, s)
			assert.Contains(t, text(t, r.until(m, task.ID, tasks.Completed)), "Cid", name)
		})
	}
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
			whole, err := m.Get(t.Context(), "p", task.ID)
			require.NoError(t, err)
			require.NotNil(t, whole.End)
			assert.Equal(t, task.Bad, whole.End.Result.IsError)
			whole.Progress, whole.End, whole.Found = nil, nil, nil // which lists leave out
			assert.Equal(t, task, whole)
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

// A task is not said to be kept for longer than its tool lets a saga live.
func TestTTLOfAToolWithAMaxAge(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		tool := saga.Machine[none, none]{
			Info:  saga.Info{Name: "short", Tasks: optional, MaxAge: time.Minute},
			Start: func(t *turn) (saga.Next, error) { return t.Textf("done") },
		}
		m := r.manager(nil, tool)
		s := call(m, "short", "")
		s.TTL = time.Hour
		assert.Equal(t, time.Minute, r.start(m, s).TTL)
		s = call(m, "short", "")
		s.TTL = time.Second
		assert.Equal(t, time.Second, r.start(m, s).TTL)
	})
}
