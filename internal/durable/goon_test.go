package durable_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// twoForms asks two questions one after the other, and then has last end it. after is called when
// the first was answered.
func twoForms(after, last func(t *turn) error, effects ...saga.Declared) saga.Definition {
	first, second := &steps.Form[none]{ID: "first", Message: "?"}, &steps.Form[none]{ID: "second", Message: "?"}
	return saga.Machine[none, none]{
		Info:  saga.Info{Name: "ask", Asks: []steps.Question{first, second}, Effects: effects},
		Start: func(t *turn) (saga.Next, error) { return t.Ask("next", first) },
		Steps: saga.Steps[none, none]{
			"next": func(t *turn) (saga.Next, error) {
				if err := after(t); err != nil {
					return nil, err
				}
				return t.Ask("last", second)
			},
			"last": func(t *turn) (saga.Next, error) {
				if err := last(t); err != nil {
					return nil, err
				}
				return t.Textf("done")
			},
		},
	}
}

func fine(*turn) error { return nil }

// answerFirst answers the first question of a task, as it was found.
func answerFirst(t *testing.T, m *durable.Core, id string) error {
	found, err := m.Get(t.Context(), "p", id)
	require.NoError(t, err)
	require.Len(t, found.Questions, 1)
	_, err = m.AnswerFound(t.Context(), "p", found, []steps.Answer{accept(found.Questions[0].ID, "{}")})
	return err
}

func TestAnAnswerWhoseTurnTakesLong(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, twoForms(func(*turn) error { time.Sleep(time.Minute); return nil }, fine))
		r.work(m)
		task := r.start(m, waited(m, "ask"))
		began := time.Now()
		require.NoError(t, answerFirst(t, m, task.ID))
		assert.Less(t, time.Since(began), 100*time.Millisecond, "it does not wait for the turn")
		task, err := m.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
		assert.Equal(t, tasks.Working, task.Status)
		r.until(m, task.ID, tasks.InputRequired)
		assert.Equal(t, time.Minute, time.Since(began).Truncate(time.Second))
	})
}

// The server dies while the turn is taken: the answer was accepted, and another takes the turn.
func TestAnAnswerThatIsLostWithItsTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		l := newLink(r.store, newRand(), -1, 0)
		tool := twoForms(func(*turn) error { l.cut(); return nil }, fine)
		a, err := durable.New(durable.Config{Turns: r.runner(tool), Store: l})
		require.NoError(t, err)
		b := r.manager(nil, twoForms(fine, fine))
		r.work(a)
		r.work(b)
		task := r.start(a, waited(a, "ask"))
		require.NoError(t, answerFirst(t, a, task.ID))
		task = r.until(b, task.ID, tasks.InputRequired)
		require.Equal(t, "second", task.Questions[0].ID)
		require.NoError(t, answerFirst(t, b, task.ID))
		r.until(b, task.ID, tasks.Completed)
	})
}

// Whatever is written meanwhile, the turn counts once.
func TestAnAnswerWhileTheTaskChanges(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, m *durable.Core, id string){
		"renewed": func(t *testing.T, m *durable.Core, id string) {
			_, err := m.Renew(t.Context(), "p", id, time.Hour, func(json.RawMessage) json.RawMessage { return json.RawMessage(`"new"`) })
			assert.NoError(t, err)
		},
		"answered": func(t *testing.T, m *durable.Core, id string) {
			_, err := m.Answer(t.Context(), "p", id, []steps.Answer{accept("first", "{}")})
			assert.NoError(t, err)
		},
		"cancelled": func(t *testing.T, m *durable.Core, id string) {
			_, err := m.Cancel(t.Context(), "p", id)
			assert.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				var runs atomic.Int32
				var m, other *durable.Core
				id := ""
				tool := twoForms(func(s *turn) error {
					if runs.Add(1) == 1 {
						change(t, other, id)
					}
					return nil
				}, fine)
				m, other = r.manager(nil, tool), r.manager(nil, tool)
				r.work(m)
				r.work(other)
				id = r.start(m, waited(m, "ask")).ID
				require.NoError(t, answerFirst(t, m, id))
				if name == "cancelled" {
					r.until(m, id, tasks.Cancelled)
					return
				}
				task := r.until(m, id, tasks.InputRequired)
				require.Equal(t, "second", task.Questions[0].ID)
				assert.EqualValues(t, 1, runs.Load())
				require.NoError(t, answerFirst(t, m, id))
				r.until(m, id, tasks.Completed)
			})
		})
	}
}

// What has effects is not begun before the answer is written down.
func TestAnAnswerToWhatActs(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		effect := &saga.Effect[string, string]{
			Name: "act", Do: func(context.Context, saga.Key, string) (string, error) { return "", nil },
		}
		var m *durable.Core
		id := ""
		m = r.manager(nil, twoForms(func(*turn) error {
			task, err := m.Get(t.Context(), "p", id)
			assert.NoError(t, err)
			assert.Equal(t, tasks.Working, task.Status)
			assert.Len(t, task.Given, 1)
			return nil
		}, fine, effect))
		r.work(m)
		id = r.start(m, waited(m, "ask")).ID
		require.NoError(t, answerFirst(t, m, id))
		r.until(m, id, tasks.InputRequired)
	})
}

// What comes of the answer cannot be written down: the answer is, and the rest is tried again.
func TestAnAnswerWhoseTurnCannotBeWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		seen := spied(r)
		m := r.manager(nil, twoForms(fine, fine))
		r.work(m)
		task := r.start(m, waited(m, "ask"))
		writes := 0
		seen.fails(func(write func() error) error {
			if writes++; writes == 1 {
				return write() // the answer
			}
			seen.fails(nil)
			return errors.New("once")
		})
		require.NoError(t, answerFirst(t, m, task.ID))
		task = r.until(m, task.ID, tasks.InputRequired)
		assert.Equal(t, "second", task.Questions[0].ID)
		found, err := m.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
		_, err = m.AnswerFound(t.Context(), "p", found, []steps.Answer{{StepID: "second", Result: json.RawMessage(`{"action":"sing"}`)}})
		require.ErrorAs(t, err, new(*engine.AnswerError))
		require.NoError(t, answerFirst(t, m, task.ID))
		r.until(m, task.ID, tasks.Completed)
	})
}

// A question is there for its client as soon as it is written, which its server may learn a while
// later. An answer that comes before that is worked on once, as any other.
func TestAnAnswerBeforeTheQuestionIsLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var runs atomic.Int32
		seen := spied(r)
		m := r.manager(nil, twoForms(func(*turn) error { runs.Add(1); return nil }, fine))
		r.work(m)
		synctest.Wait()
		written, leaves := make(chan none), make(chan none)
		leave := sync.OnceFunc(func() { close(leaves) })
		defer leave()
		seen.fails(func(write func() error) error {
			seen.fails(nil)
			err := write()
			close(written)
			<-leaves
			return err
		})
		start := waited(m, "ask")
		start.ID = "chosen"
		var starting sync.WaitGroup
		starting.Go(func() {
			_, err := m.Start(t.Context(), start)
			assert.NoError(t, err)
		})
		<-written
		require.NoError(t, answerFirst(t, m, "chosen"))
		time.Sleep(time.Second)
		task, err := m.Get(t.Context(), "p", "chosen")
		require.NoError(t, err)
		require.Len(t, task.Questions, 1)
		assert.Equal(t, "second", task.Questions[0].ID)
		leave()
		starting.Wait()
		require.NoError(t, answerFirst(t, m, "chosen"))
		r.until(m, "chosen", tasks.Completed)
		assert.EqualValues(t, 1, runs.Load())
	})
}

// The same goes for what a server has driven before: who answers does not wait for it to learn that.
func TestAnAnswerBeforeTheNextQuestionIsLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		seen := spied(r)
		m := r.manager(nil, twoForms(fine, fine))
		r.work(m)
		id := r.start(m, waited(m, "ask")).ID
		seen.fails(func(write func() error) error {
			seen.fails(func(write func() error) error { // after the answer, the question
				seen.fails(nil)
				err := write()
				time.Sleep(8 * time.Second)
				return err
			})
			return write()
		})
		require.NoError(t, answerFirst(t, m, id))
		time.Sleep(time.Second)
		require.NoError(t, answerFirst(t, m, id))
		began := time.Now()
		r.until(m, id, tasks.Completed)
		assert.Less(t, time.Since(began), time.Second)
		time.Sleep(time.Minute)
	})
}
