package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The store may show what was written before whoever has written it knows: who watches is shown
// nothing older after that, or it would ask the client again.
func TestWhoWatchesACallSeesNothingTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		seen := spied(r)
		first, second := &steps.Form[none]{ID: "first", Message: "?"}, &steps.Form[none]{ID: "second", Message: "?"}
		m := r.manager(nil, saga.Machine[none, none]{
			Info:  saga.Info{Name: "ask", Asks: []steps.Question{first, second}},
			Start: func(t *turn) (saga.Next, error) { return t.Ask("next", first) },
			Steps: saga.Steps[none, none]{
				"next": func(t *turn) (saga.Next, error) { return t.Ask("last", second) },
				"last": func(t *turn) (saga.Next, error) { return t.Textf("done") },
			},
		})
		r.work(m)
		task := r.start(m, waited(m, "ask"))
		seen.fails(func(write func() error) error { err := write(); time.Sleep(time.Second); return err })
		var rev uint64
		asked := make(map[string]int)
		for seen, err := range m.Watch(t.Context(), "p", task.ID, 0) {
			require.NoError(t, err)
			assert.Greater(t, seen.Rev, rev)
			rev = seen.Rev
			for _, q := range seen.Questions {
				if asked[q.ID]++; asked[q.ID] == 1 {
					go func() { _, _ = m.Answer(context.Background(), "p", task.ID, []steps.Answer{accept(q.ID, "{}")}) }()
				}
			}
		}
		assert.Equal(t, map[string]int{"first": 1, "second": 1}, asked)
	})
}

// heard is what a client hears.
type heard struct {
	mu   sync.Mutex
	list []string
}

func (h *heard) say(s string) { h.mu.Lock(); defer h.mu.Unlock(); h.list = append(h.list, s) }

func (h *heard) all() []string { h.mu.Lock(); defer h.mu.Unlock(); return slices.Clone(h.list) }

func (h *heard) Progress(p engine.Progress) { h.say(fmt.Sprint("progress ", p.Done)) }

func (h *heard) Log(l engine.Log) {
	data, _ := json.Marshal(l.Data)
	h.say("log " + string(data))
}

// listen hears what a task tells until it has ended, as dialects do. asked is called when it asks.
func listen(t *testing.T, m *durable.Core, id string, to *heard, asked ...func()) {
	var told uint64
	for n, err := range m.Follow(context.Background(), "p", id, 0, nil) {
		require.NoError(t, err)
		if n.Task != nil && len(n.Task.Questions) > 0 {
			for _, answer := range asked {
				answer()
			}
		}
		if n.Event == nil {
			continue
		}
		require.Greater(t, n.Event.N, told)
		told = n.Event.N
		if n.Event.Progress != nil {
			to.Progress(*n.Event.Progress)
		} else {
			to.Log(*n.Event.Log)
		}
	}
}

func TestWhatACallTells(t *testing.T) {
	var want []string
	tell := func(t *turn) {
		for i := range 100 {
			t.Log(slog.LevelInfo, i)
			if i%4 == 0 {
				t.Progress(float64(i+1), 200, "")
			}
		}
	}
	for i := range 100 {
		want = append(want, fmt.Sprint("log ", i))
		if i%4 == 0 {
			want = append(want, fmt.Sprint("progress ", i+1))
		}
	}
	tool := plain("tells", func(t *turn) (saga.Next, error) {
		tell(t)
		time.Sleep(time.Second)
		t.Progress(150, 200, "")
		time.Sleep(time.Second)
		return t.Textf("told")
	})
	quick := plain("quick", func(t *turn) (saga.Next, error) { tell(t); return t.Textf("told") })
	run := func(t *testing.T, name string, client *heard) (seen *spy, task *tasks.Task, here, there []string) {
		inBubble(t, func(t *testing.T, r *rig) {
			seen = spied(r)
			m, other := r.manager(nil, tool, quick), r.manager(nil, tool, quick)
			r.work(m)
			s := waited(m, name)
			if client != nil {
				s.Request.Notifier = client
			}
			task = r.start(m, s)
			if task.ID == "" {
				return
			}
			var a, b heard
			var all sync.WaitGroup
			all.Go(func() { listen(t, m, task.ID, &a) })
			time.Sleep(500 * time.Millisecond)
			if name == "tells" && client == nil {
				assert.Len(t, a.all(), len(want), "at once")
			}
			all.Go(func() { listen(t, other, task.ID, &b) })
			all.Wait()
			here, there = a.list, b.list
		})
		return seen, task, here, there
	}
	t.Run("is read once and in order", func(t *testing.T) {
		_, task, here, there := run(t, "tells", nil)
		require.NotEmpty(t, task.ID)
		assert.Equal(t, append(want[:len(want):len(want)], "progress 150"), here)
		assert.Equal(t, here, there)
	})
	t.Run("is there though it ends at once", func(t *testing.T) {
		_, task, here, there := run(t, "quick", nil)
		require.NotEmpty(t, task.ID)
		assert.Equal(t, want, here)
		assert.Equal(t, here, there)
	})
	t.Run("goes to who waits before there is a record", func(t *testing.T) {
		var client heard
		_, task, _, _ := run(t, "quick", &client)
		assert.Empty(t, task.ID)
		assert.Equal(t, want, client.list)
		var slow heard
		_, task, here, _ := run(t, "tells", &slow)
		require.NotEmpty(t, task.ID)
		assert.Equal(t, want, slow.list)
		assert.Equal(t, []string{"progress 150"}, here)
	})
}

// A flow that runs again reports again how far it was: nothing is written for that, and nothing is told.
func TestProgressThatIsReportedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		sure := &steps.Form[none]{ID: "sure", Message: "?"}
		m := r.manager(nil, saga.Flow[none, string]{
			Info: saga.Info{Name: "tells", Asks: []steps.Question{sure}},
			Run: func(run *saga.Run, _ none) (string, error) {
				run.Progress(1, 3, "")
				time.Sleep(time.Second) //sagavet:ignore as slow code
				if _, err := saga.Ask(run, sure); err != nil {
					return "", err
				}
				time.Sleep(time.Second) //sagavet:ignore as slow code
				run.Progress(2, 3, "")
				return "told", nil
			},
		})
		r.work(m)
		task := r.start(m, waited(m, "tells"))
		var heard heard
		listen(t, m, task.ID, &heard, func() {
			_, err := m.Answer(t.Context(), "p", task.ID, []steps.Answer{accept("sure", "{}")})
			require.NoError(t, err)
		})
		assert.Equal(t, []string{"progress 1", "progress 2"}, heard.all())
	})
}

func TestWhatACallTellsThoughWritesAreUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		seen := spied(r)
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprint("log ", i))
		}
		m := r.manager(nil, plain("tells", func(t *turn) (saga.Next, error) {
			for i := range want {
				t.Log(slog.LevelInfo, i)
				time.Sleep(30 * time.Millisecond)
			}
			return t.Textf("told")
		}))
		r.work(m)
		synctest.Wait()
		var writes atomic.Int32
		seen.fails(func(write func() error) error {
			switch writes.Add(1) % 4 {
			case 1:
				return errors.Join(write(), store.ErrUnknown) // and nobody can say that it was made
			case 2, 0: // it is sent again; or for the first time
				return errCut
			}
			return write()
		})
		task := r.start(m, waited(m, "tells"))
		var here heard
		listen(t, m, task.ID, &here)
		assert.Equal(t, want, here.list)
		events, err := m.Logged(t.Context(), "p", task.ID, 0)
		require.NoError(t, err)
		assert.Len(t, events, len(want)+1)
	})
}

// Who watches a task sees what it tells soon after, though its status stays as it is.
func TestWhoWatchesSeesProgress(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		tool := single("tells", func(t *turn) (saga.Next, error) {
			time.Sleep(time.Second)
			t.Progress(1, 2, "half")
			time.Sleep(time.Minute)
			return t.Textf("told")
		})
		m, other := r.manager(nil, tool), r.manager(nil, tool)
		r.work(m)
		task := r.start(m, call(m, "tells", ""))
		began := time.Now()
		for seen, err := range other.Watch(t.Context(), "p", task.ID, task.Events) {
			require.NoError(t, err)
			if seen.Progress != nil {
				assert.Equal(t, "half", seen.Message)
				assert.WithinDuration(t, began.Add(time.Second), seen.Updated, 200*time.Millisecond)
				break
			}
		}
		assert.Less(t, time.Since(began), 2*time.Second)
		r.until(m, task.ID, tasks.Completed)
	})
}

// What a tool tells is written beside the turn, which may end meanwhile: the race detector is to see no race.
func TestATurnEndsWhileWhatItTellsIsWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		tool := single("tells", func(t *turn) (saga.Next, error) {
			t.Progress(1, 2, "half")
			time.Sleep(10 * time.Millisecond)
			return t.Textf("told")
		})
		spied(r).fails(func(write func() error) error {
			defer time.Sleep(20 * time.Millisecond) // so the turn's end falls into a write
			return write()
		})
		m := r.manager(nil, tool)
		r.work(m)
		task := r.start(m, call(m, "tells", ""))
		assert.Contains(t, text(t, r.until(m, task.ID, tasks.Completed)), "told")
	})
}

// What is logged is the same for who follows the log as for who waits here, whose data package encoding/json encodes.
func TestLogsOfTasksAreThoseOfCalls(t *testing.T) {
	data := []any{time.Second, "a\xff", map[string][]int{"none": nil}, [2]byte{1, 2}}
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, plain("tells", func(t *turn) (saga.Next, error) {
			for _, d := range data {
				t.Log(slog.LevelInfo, d)
			}
			time.Sleep(time.Second)
			return t.Textf("told")
		}))
		r.work(m)
		var here, want heard
		listen(t, m, r.start(m, waited(m, "tells")).ID, &here)
		for _, d := range data {
			want.Log(engine.Log{Data: d})
		}
		assert.Equal(t, want.list, here.list)
	})
}
