package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// becoming is a tool whose saga is a task from its first answer on: it holds a seat, rests, and pays.
func becoming(s *seats, pay *saga.Effect[string, string]) saga.Definition {
	hold := &saga.Effect[string, string]{Name: "hold", Do: s.hold, Undo: s.release}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{
			Name: "trip", Asks: []steps.Question{askNick}, Effects: []saga.Declared{hold, pay},
			Tasks: saga.Tasks{Mode: saga.TasksOptional, After: "nick"},
		},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			who, err := saga.Ask(r, askNick)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, hold, who.Nick); err != nil {
				return "", err
			}
			if err := r.Sleep(time.Minute); err != nil {
				return "", err
			}
			if _, err = saga.Do(r, pay, who.Nick); err != nil {
				return "", err
			}
			return "paid", r.Sleep(time.Minute)
		},
	}
}

// A client that has lost the response with which its saga became a task cancels it with the token that it has.
func TestASagaThatBecameATaskIsCancelled(t *testing.T) {
	cancel := func(r *rig, token string) modernResult {
		return r.send(modernRequest("tools/cancelSaga", object{"sagaToken": token})).result(r.t)
	}
	for name, test := range map[string]struct {
		irreversible bool
		after        time.Duration
		want         string
		held         int
		isError      bool
		then         string
	}{
		"while it runs":     {after: time.Second, want: "Cancelled.", then: "cancelled"},
		"when it has ended": {after: 3 * time.Minute, want: "Not cancelled: it is too late. The saga has ended:", held: 1, isError: true, then: "completed"},
		"when it is final":  {irreversible: true, after: 90 * time.Second, want: "The saga goes on as a task.", held: 1, isError: true, then: "working"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := new(seats)
				pay := &saga.Effect[string, string]{Name: "pay", Do: s.hold, Undo: s.release, Irreversible: test.irreversible}
				if test.irreversible {
					pay.Undo = nil
				}
				r := newTaskRig(t, func(o *server.Options) { o.Tools = []saga.Definition{becoming(s, pay)} })
				token := r.send(callTool("trip", nil).with(withTasks)).result(t).RequestState
				second := callTool("trip", nil).answering(token, object{"nick": formed(object{"nick": "Ann"})})
				task := r.begin(second)
				time.Sleep(test.after)
				for range 2 {
					got := cancel(r, token)
					assert.Contains(t, got.text(), test.want)
					assert.Equal(t, test.isError, got.IsError)
				}
				held, _ := s.now()
				if test.held > 0 {
					assert.Positive(t, held)
				} else {
					assert.Zero(t, held)
				}
				assert.Equal(t, test.then, r.task(task.TaskID).Status)
			})
		})
	}
}

// The answer with which a saga becomes a task is taken by its first turn there: nothing is asked twice.
func TestAnswersWithWhichATaskBegins(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s, asked := new(seats), []string{}
		var mu sync.Mutex
		pay := &saga.Effect[string, string]{Name: "pay", Do: s.hold, Undo: s.release}
		r := newTaskRig(t, func(o *server.Options) {
			o.Tools = []saga.Definition{becoming(s, pay)}
			o.Hooks = []server.Hooks{{Turn: func(ctx context.Context, i *server.TurnInfo, next func(context.Context) error) error {
				err := next(ctx)
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, fmt.Sprint(i.Turn, i.Asked, len(i.Answers)))
				return err
			}}}
		})
		token := r.send(callTool("trip", nil).with(withTasks)).result(t).RequestState
		r.begin(callTool("trip", nil).answering(token, object{"nick": formed(object{"nick": "Ann"})}))
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"1 [nick] 0", "2 [] 1", "3 [] 0", "4 [] 0"}, asked)
	})
}

// A request that led to a task leads to it again, and a client that takes no tasks reads that there is one.
func TestARequestThatBecameATaskIsRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := new(seats)
		pay := &saga.Effect[string, string]{Name: "pay", Do: s.hold, Undo: s.release}
		r := newTaskRig(t, func(o *server.Options) { o.Tools = []saga.Definition{becoming(s, pay)} })
		first := func(can object) *request {
			q := callTool("trip", nil).with(can)
			q.meta["io.github.mcpsaga/idempotencyKey"] = "a-key-that-cannot-be-guessed"
			return q
		}
		token := r.send(first(allCapabilities)).result(t).RequestState
		require.Equal(t, token, r.send(first(allCapabilities)).result(t).RequestState)
		second := func() *request {
			return callTool("trip", nil).answering(token, object{"nick": formed(object{"nick": "Ann"})})
		}
		task := r.begin(second())
		for _, q := range []*request{second(), first(withTasks)} {
			assert.Equal(t, task.TaskID, r.begin(q).TaskID)
		}
		for _, q := range []*request{second().with(allCapabilities), first(allCapabilities)} {
			m := r.send(q)
			assert.Equal(t, -32602, m.code(), m.raw)
			assert.Contains(t, m.Error.Message, "goes on as a task")
		}
		time.Sleep(3 * time.Minute)
		assert.Equal(t, "completed", r.task(task.TaskID).Status)
		time.Sleep(23 * time.Hour)
		assert.Equal(t, task.TaskID, r.begin(first(withTasks)).TaskID)
		_, calls := s.now()
		assert.Equal(t, 2, calls, "each effect once")
		assert.NotContains(t, r.log.take(), "ERROR")
	})
}

// A caller has no more tasks because its sagas become tasks later. What is refused leaves the saga as it was: the same
// request leads to the task when there is room.
func TestSagasThatBecomeTasksCount(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := new(seats)
		r := newTaskRig(t, func(o *server.Options) {
			o.Tools = []saga.Definition{becoming(s, &saga.Effect[string, string]{Name: "pay", Do: s.hold, Undo: s.release})}
		})
		second := func(n int) *request {
			first := callTool("trip", nil).with(withTasks)
			first.meta["io.github.mcpsaga/idempotencyKey"] = fmt.Sprintf("a-key-that-cannot-be-guessed-%d", n) // so that it has a record
			token := r.send(first).result(t).RequestState
			return callTool("trip", nil).answering(token, object{"nick": formed(object{"nick": "Ann"})})
		}
		var last taskShown
		for n := range 1000 {
			last = r.begin(second(n))
		}
		refused := second(1000)
		for range 2 {
			m := r.send(refused.with(withTasks))
			assert.Equal(t, 429, m.status, m.raw)
			assert.Contains(t, m.raw, "too many tasks")
		}
		r.ack(taskRequest("cancel", last.TaskID))
		r.until(last.TaskID, "cancelled")
		task := r.begin(refused)
		assert.Equal(t, task.TaskID, r.begin(refused).TaskID)
	})
}
