package server_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/server"
)

// hears reads how a task is until that is as wanted.
func (s *sseReader) hears(task, want string) (last sseEvent) {
	s.t.Helper()
	for range 10 {
		last = s.wait("notifications/tasks/status")
		got := readLegacyTask(s.t, last.Params)
		require.Equal(s.t, task, got.TaskID)
		require.NotContains(s.t, last.data, "related-task")
		if got.Status == want {
			return last
		}
	}
	require.Fail(s.t, "it is otherwise", "%s", last.data)
	return last
}

// A client that waits for no result hears of its tasks on its GET, on whatever replica that is, and
// wherever the task was begun or has changed.
func TestTasksAreToldOnTheGET(t *testing.T) {
	t.Parallel()
	r := tasksReplicas(t, 3)
	c := r[0].user("ann", "2025-11-25")
	for name, at := range map[string]int{"where it is begun": 0, "elsewhere": 1} {
		t.Run(name, func(t *testing.T) {
			get := c.at(r[at]).get("")
			_, err := get.next() // it is carried
			require.NoError(t, err)
			task := c.create("both", "{}").TaskID
			get.hears(task, "input_required")
			c.ask(aboutTask(9, "cancel", task))
			last := get.hears(task, "cancelled")
			// Others do not hear of it: the next thing that is told here is of another task.
			other := c.at(r[2]).create("nap", `{"millis":1}`).TaskID
			r[2].user("ann", "2025-11-25").create("nap", `{"millis":1}`)
			r[2].user("bob", "2025-11-25").create("nap", `{"millis":1}`)
			assert.NotEmpty(t, get.hears(other, "completed").id)
			get.close()
			// What changes while nobody listens is told to who does so next.
			third := c.create("both", "{}").TaskID
			c.until(third, "input_required")
			get = c.at(r[2]).get(last.id)
			for {
				m := get.wait("notifications/tasks/status")
				got := readLegacyTask(t, m.Params)
				if got.TaskID == third {
					assert.Equal(t, "input_required", got.Status)
					break
				}
				assert.Contains(t, []string{"completed", "cancelled"}, got.Status, "of one that has ended just now")
			}
			get.close()
			c.ask(aboutTask(9, "cancel", third))
			c.until(third, "cancelled")
		})
	}
}

// Of a task whose result it waits for a client hears on that stream alone.
func TestATaskIsToldOnOneStream(t *testing.T) {
	t.Parallel()
	r := newTaskRig(t)
	c := r.user("ann", "2025-11-25")
	get := c.get("")
	_, err := get.next()
	require.NoError(t, err)
	task := c.create("twice", "{}").TaskID
	get.hears(task, "input_required")
	result := c.stream(aboutTask(7, "result", task))
	c.reply(result.wait("elicitation/create").ID, yesSure)
	c.reply(result.wait("elicitation/create").ID, yesSure)
	result.wait("")
	next := c.create("nap", `{"millis":1}`).TaskID
	get.hears(next, "completed")
}

// slowTask is a ledger that keeps everyone waiting who reads the record of one task.
type slowTask struct {
	ledger.Store
	next atomic.Bool // the next task that begins is the one
	key  atomic.Pointer[store.ID]
	free chan struct{}
}

func (s *slowTask) Write(ctx context.Context, r *store.Record, c store.Change) error {
	if r.Head == 0 && r.Mode == store.ModeTask && s.next.CompareAndSwap(true, false) {
		s.key.Store(&r.ID)
	}
	return s.Store.Write(ctx, r, c)
}

func (s *slowTask) Load(ctx context.Context, id store.ID) (*store.Record, error) {
	if slow := s.key.Load(); slow != nil && *slow == id {
		<-s.free
	}
	return s.Store.Load(ctx, id)
}

// A GET that lags behind does not tell the end of a task whose result the client has by then.
func TestWhatIsKnownIsNotTold(t *testing.T) {
	t.Parallel()
	store := &slowTask{free: make(chan struct{})}
	r := newTaskRig(t, func(o *server.Options) { store.Store = o.Ledger; o.Ledger = store })
	c := r.user("ann", "2025-11-25")
	get := c.get("")
	_, err := get.next()
	require.NoError(t, err)
	known := c.create("twice", "{}").TaskID
	get.hears(known, "input_required")
	store.next.Store(true)
	slow := c.create("nap", `{"millis":1}`).TaskID // the GET waits for this now
	result := c.stream(aboutTask(7, "result", known))
	c.reply(result.wait("elicitation/create").ID, yesSure)
	c.reply(result.wait("elicitation/create").ID, yesSure)
	result.wait("")
	close(store.free)
	get.hears(slow, "completed")
	get.hears(c.create("nap", `{"millis":1}`).TaskID, "completed")
}

// Revisions without tasks are told of none.
func TestTasksAreNotToldToOthers(t *testing.T) {
	t.Parallel()
	r := newTaskRig(t)
	c := r.user("ann", "2025-06-18")
	get := c.get("")
	c.begin(1, "nap", `{"millis":1}`, "t")
	time.Sleep(500 * time.Millisecond)
	r.srv.Close()
	for {
		m, err := get.next()
		if err != nil {
			break
		}
		assert.NotEqual(t, "notifications/tasks/status", m.Method)
	}
}
