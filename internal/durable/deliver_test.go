package durable_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type payment struct {
	Amount int `json:"amount" minimum:"1"`
}

type checkout struct {
	Handle string `json:"handle"`
}

// shop has a tool that waits for a payment. It knows the handles that it was given, in their order.
type shop struct {
	*desk
	mu      sync.Mutex
	handles []string
	early   func(handle string) // called when it is given one
}

var paid = &steps.Event[payment]{ID: "paid", Message: "Waiting for the payment.", Within: time.Hour}

func newShop() *shop { return &shop{desk: newDesk()} }

func (s *shop) given() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handles
}

func (s *shop) tool(question *steps.Event[payment], also ...steps.Question) saga.Definition {
	order := &saga.Effect[hold, string]{Name: "order", Do: s.do, Undo: s.undo}
	pay := &saga.Effect[checkout, string]{Name: "pay", Do: func(ctx context.Context, key saga.Key, in checkout) (string, error) {
		s.mu.Lock()
		s.handles = append(s.handles, in.Handle)
		s.mu.Unlock()
		if s.early != nil {
			s.early(in.Handle)
		}
		return "", nil
	}}
	return saga.Flow[none, string]{
		Info: saga.Info{Name: "buy", Tasks: optional, Asks: append([]steps.Question{paid}, also...), Effects: []saga.Declared{order, pay}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Do(r, order, hold{Task: "buy", What: "a"}); err != nil {
				return "", err
			}
			if question == paid {
				handle, err := saga.Handle(r, paid)
				if err != nil {
					return "", err
				}
				if _, err := saga.Do(r, pay, checkout{handle}); err != nil {
					return "", err
				}
			}
			ask := []steps.Request{question}
			for _, q := range also {
				ask = append(ask, q)
			}
			if err := r.AskAll(ask...); err != nil {
				return "", err
			}
			p, err := question.Answer(r)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("paid %d", p.Amount), nil
		},
	}
}

func accepts(value string) []byte { return []byte(`{"action":"accept","content":` + value + `}`) }

func deliver(m *durable.Core, handle, value string) error {
	name, err := m.AtHandle(context.Background(), handle)
	if err == nil {
		_, err = m.Deliver(context.Background(), name, accepts(value))
	}
	return err
}

// A saga waits for an event without anything that runs, as a task or a call, and goes on at whatever server it comes to. The first
// value counts, and is in its history.
func TestEvents(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Second} {
		t.Run(fmt.Sprint("delay ", delay), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				s := newShop()
				a, b := r.manager(nil, s.tool(paid)), r.manager(nil, s.tool(paid))
				r.work(a)
				r.work(b)
				begun := call(a, "buy", "{}")
				begun.Delay = delay
				task := r.start(a, begun)
				time.Sleep(10 * time.Minute)
				now, err := b.Get(t.Context(), "p", task.ID)
				require.NoError(t, err)
				assert.Equal(t, tasks.Working, now.Status, "nobody is asked")
				assert.Empty(t, now.Questions)
				assert.Equal(t, paid.Message, now.Message)
				require.Len(t, s.given(), 1)
				handle := s.given()[0]
				assert.Len(t, handle, 54)
				var wrong *durable.ValueError
				require.ErrorAs(t, deliver(b, handle, `{"amount":0}`), &wrong)
				require.ErrorAs(t, deliver(b, handle, `"much"`), &wrong)
				assert.ErrorContains(t, wrong, "paid")
				require.NoError(t, deliver(b, handle, `{"amount":5}`))
				require.NoError(t, deliver(a, handle, `{ "amount": 5 }`), "the same again")
				require.ErrorIs(t, deliver(a, handle, `{"amount":6}`), durable.ErrEventOther)
				assert.Contains(t, text(t, r.until(a, task.ID, tasks.Completed)), "paid 5")
				require.NoError(t, deliver(a, handle, `{"amount":5}`), "and after the end")
				require.ErrorIs(t, deliver(a, handle, `{"amount":6}`), durable.ErrEventOther)
				assert.Len(t, s.given(), 1)
			})
		})
	}
}

func TestEventsInTheHistory(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := newShop()
		m := r.manager(nil, s.tool(paid))
		r.work(m)
		task := r.start(m, call(m, "buy", "{}"))
		time.Sleep(time.Minute)
		require.NoError(t, deliver(m, s.given()[0], `{"amount":5}`))
		r.until(m, task.ID, tasks.Completed)
		records, err := r.store.List(t.Context(), store.Filter{Audience: "test", Statuses: []store.Status{store.Ended}}, store.Cursor{}, 10)
		require.NoError(t, err)
		records = slices.DeleteFunc(records, func(r *store.Record) bool { return r.Mode != store.ModeTask })
		require.Len(t, records, 1)
		said := ""
		for e, err := range m.History(t.Context(), records[0].ID) {
			require.NoError(t, err)
			said += e.Kind + " " + e.Text + "\n"
		}
		assert.Contains(t, said, "answer by event\n")
	})
}

// What is delivered before the saga asks is its answer, unless it does not fit: that is as if it had not come.
func TestEventsThatComeEarly(t *testing.T) {
	for name, fits := range map[string]bool{`{"amount":7}`: true, `{"amount":-7}`: false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				s := newShop()
				m := r.manager(nil, s.tool(paid))
				s.early = func(handle string) { assert.NoError(t, deliver(m, handle, name)) }
				r.work(m)
				task := r.start(m, call(m, "buy", "{}"))
				if !fits {
					time.Sleep(time.Minute)
					require.NoError(t, deliver(m, s.given()[0], `{"amount":7}`))
				}
				assert.Contains(t, text(t, r.until(m, task.ID, tasks.Completed)), "paid 7")
				assert.Less(t, time.Since(task.Created), 2*time.Minute)
			})
		})
	}
}

// An event that does not come in time, is rejected or whose saga is cancelled undoes what was done, and is not taken later.
func TestEventsThatDoNotHappen(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(t *testing.T, m *durable.Core, handle, id string)
		says string
		late error
	}{
		"too late": {func(*testing.T, *durable.Core, string, string) {}, "has not happened in time", durable.ErrEventGone},
		"cancelled": {func(t *testing.T, m *durable.Core, _, id string) {
			_, err := m.Cancel(t.Context(), "p", id)
			require.NoError(t, err)
		}, "Cancelled", durable.ErrEventGone},
		"rejected": {func(t *testing.T, m *durable.Core, handle, _ string) {
			name, err := m.AtHandle(t.Context(), handle)
			require.NoError(t, err)
			_, err = m.Deliver(t.Context(), name, []byte(`{"action":"decline","reason":"no funds"}`))
			require.NoError(t, err)
		}, "was declined", durable.ErrEventOther},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				s := newShop()
				m := r.manager(nil, s.tool(paid))
				r.work(m)
				task := r.start(m, call(m, "buy", "{}"))
				time.Sleep(time.Minute)
				test.end(t, m, s.given()[0], task.ID)
				var now *tasks.Task
				for now == nil || !now.Status.Ended() {
					time.Sleep(time.Minute)
					var err error
					now, err = m.Get(t.Context(), "p", task.ID)
					require.NoError(t, err)
				}
				assert.Contains(t, text(t, now), test.says)
				assert.Less(t, time.Since(task.Created), paid.Within+5*time.Minute)
				left, _ := s.left("buy")
				assert.Empty(t, left)
				assert.ErrorIs(t, deliver(m, s.given()[0], `{"amount":7}`), test.late)
			})
		})
	}
}

// A key is an author's name for an event; all that wait for it get the same value.
func TestEventsWithKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := newShop()
		m := r.manager(nil, s.tool(paid.With(steps.Key("order-17"))))
		r.work(m)
		one, two := r.start(m, call(m, "buy", "{}")), r.start(m, call(m, "buy", "{}"))
		time.Sleep(time.Minute)
		_, err := m.Deliver(t.Context(), m.AtKey("buy", "paid", "order-18"), accepts(`{"amount":6}`))
		require.NoError(t, err)
		_, err = m.Deliver(t.Context(), m.AtKey("buy", "paid", "order-17"), accepts(`{"amount":5}`))
		require.NoError(t, err)
		for _, id := range []string{one.ID, two.ID, r.start(m, call(m, "buy", "{}")).ID} {
			assert.Contains(t, text(t, r.until(m, id, tasks.Completed)), "paid 5")
		}
	})
}

// A saga may wait for its client and for an event at once. The client cannot answer in the place of the event.
func TestEventsBesideQuestions(t *testing.T) {
	for _, first := range []string{"client", "event"} {
		t.Run(first, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				s := newShop()
				m := r.manager(nil, s.tool(paid, askFirst))
				r.work(m)
				task := r.until(m, r.start(m, call(m, "buy", "{}")).ID, tasks.InputRequired)
				require.Len(t, task.Questions, 1)
				_, err := m.Answer(t.Context(), "p", task.ID, []steps.Answer{{StepID: "paid", Result: accepts(`{"amount":1}`)}})
				require.NoError(t, err)
				answer := func() {
					_, err := m.Answer(t.Context(), "p", task.ID, []steps.Answer{accept("first", `{"word":"x"}`)})
					require.NoError(t, err)
				}
				if first == "client" {
					answer()
					time.Sleep(time.Minute)
					r.until(m, task.ID, tasks.Working)
				}
				require.NoError(t, deliver(m, s.given()[0], `{"amount":5}`))
				if first == "event" {
					time.Sleep(time.Minute)
					r.until(m, task.ID, tasks.InputRequired)
					answer()
				}
				assert.Contains(t, text(t, r.until(m, task.ID, tasks.Completed)), "paid 5")
			})
		})
	}
}

// Wherever a server dies, another one goes on: with the same handle, and with what was delivered, once who delivers has been told.
func TestEventsWhereServersDie(t *testing.T) {
	for dies := 1; ; dies++ {
		over := false
		t.Run(fmt.Sprint("at call ", dies), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				s := newShop()
				cut := newLink(r.store, newRand(), dies, 0)
				a := r.manager(func(c *durable.Config) { c.Store, c.Attempts = cut, 1000 }, s.tool(paid))
				b := r.manager(func(c *durable.Config) { c.Attempts = 1000 }, s.tool(paid))
				stop := r.work(a)
				begun := call(a, "buy", "{}")
				begun.ID = "it"
				_, err := a.Start(t.Context(), begun)
				if err != nil { // its client tries again elsewhere
					begun = call(b, "buy", "{}")
					begun.ID = "it"
					if _, err = b.Start(t.Context(), begun); err != nil {
						require.ErrorIs(t, err, tasks.ErrExists)
					}
				}
				time.Sleep(5 * time.Second)
				if handles := s.given(); len(handles) > 0 {
					_ = deliver(a, handles[0], `{"amount":5}`)
				}
				time.Sleep(5 * time.Second)
				over = !cut.dead.Load()
				cut.cut()
				stop()
				r.work(b)
				for len(s.given()) == 0 {
					time.Sleep(time.Second)
				}
				require.NoError(t, deliver(b, s.given()[0], `{"amount":5}`), "who delivers tries until it succeeds")
				assert.Contains(t, text(t, r.until(b, "it", tasks.Completed)), "paid 5")
				for _, handle := range s.given() {
					assert.Equal(t, s.given()[0], handle)
				}
				left, keys := s.left("buy")
				assert.Equal(t, []string{"a"}, left)
				assert.Len(t, keys, 1)
			})
		})
		if over || t.Failed() {
			t.Logf("it dies at %d places", dies)
			require.Greater(t, dies, 8)
			return
		}
	}
}

// What nothing waits for is bounded in number, and what is no handle of this ledger leaves nothing.
func TestEventsThatNothingWaitsFor(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := newShop()
		m := r.manager(func(c *durable.Config) { c.MaxSagas = 10 }, s.tool(paid))
		for _, handle := range []string{"", "x", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "%00", string(make([]byte, 1000))} {
			assert.ErrorIs(t, deliver(m, handle, `{}`), durable.ErrNoEvent, handle)
		}
		full := 0
		for n := range 100 {
			_, err := m.Deliver(t.Context(), m.AtKey("buy", "paid", fmt.Sprint(n)), accepts(`{"amount":1}`))
			if err != nil {
				require.ErrorIs(t, err, turns.ErrLedgerFull)
				full++
			}
		}
		assert.Equal(t, 90, full)
		time.Sleep(25 * time.Hour)
		_, err := r.store.Forget(t.Context(), 1000)
		require.NoError(t, err)
		_, err = m.Deliver(t.Context(), m.AtKey("buy", "paid", "new"), accepts(`{"amount":1}`))
		assert.NoError(t, err)
	})
}

// A saga that its client drives looks when the client comes, and pauses until then, in whatever process.
func TestEventsOfSagasThatClientsDrive(t *testing.T) {
	const late = "has not happened in time"
	for name, test := range map[string]struct {
		deliver func(t *testing.T, m *durable.Core, handle string)
		says    string
	}{
		"in time": {func(t *testing.T, m *durable.Core, handle string) {
			time.Sleep(30 * time.Minute)
			require.NoError(t, deliver(m, handle, `{"amount":5}`))
		}, "paid 5"},
		"too late": {func(t *testing.T, m *durable.Core, handle string) {
			time.Sleep(paid.Within)
			require.ErrorIs(t, deliver(m, handle, `{"amount":5}`), durable.ErrEventGone)
		}, late},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				s := newShop()
				a, b := r.manager(nil, s.tool(paid)), r.manager(nil, s.tool(paid))
				end, err := a.Turns.Call(t.Context(), call(a, "buy", "{}").Request)
				require.NoError(t, err)
				resume := func(m *durable.Core, answers ...steps.Answer) turns.End {
					q := call(m, "buy", "").Request
					q.Token, q.Answers = end.Token, answers
					now, err := m.Turns.Resume(t.Context(), q)
					require.NoError(t, err)
					return now
				}
				again := resume(b, steps.Answer{StepID: "paid", Result: accepts(`{"amount":1}`)})
				assert.Equal(t, end.Token, again.Token)
				for _, paused := range []turns.End{end, again} {
					assert.Empty(t, paused.Steps)
					assert.WithinDuration(t, time.Now(), paused.Wake, time.Minute)
				}
				test.deliver(t, b, s.given()[0])
				for range 2 { // the second time because the response was lost
					ended := resume(b, steps.Answer{StepID: "paid", Result: accepts(`{"amount":1}`)})
					assert.Contains(t, ended.Result.Content.Text(), test.says)
				}
				left, _ := s.left("buy")
				assert.Equal(t, test.says == late, len(left) == 0)
				assert.Len(t, s.given(), 1)
			})
		})
	}
}

// If its client does not come back, what such a saga did is undone when its time is over.
func TestEventsOfSagasThatClientsAbandon(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := newShop()
		m := r.manager(nil, s.tool(paid))
		r.work(m)
		_, err := m.Turns.Call(t.Context(), call(m, "buy", "{}").Request)
		require.NoError(t, err)
		time.Sleep(paid.Within)
		left, _ := s.left("buy")
		assert.NotEmpty(t, left, "it could still come back")
		time.Sleep(time.Hour)
		left, _ = s.left("buy")
		assert.Empty(t, left)
	})
}

// While the ledger takes no document of the event, the saga tries again, and so ends in time all the same.
func TestEventsWhoseDocumentsCannotBeWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		seen := spied(r)
		usual := seen.Around
		seen.Around = func(ctx context.Context, c storetest.Call, next func() error) error {
			if c.Record != nil && c.Record.Tool == "document" {
				return errors.New("no room")
			}
			return usual(ctx, c, next)
		}
		s := newShop()
		m := r.manager(nil, s.tool(paid.With(steps.Key("order-17"))))
		r.work(m)
		task := r.start(m, call(m, "buy", "{}"))
		var now *tasks.Task
		for now == nil || !now.Status.Ended() {
			time.Sleep(time.Minute)
			var err error
			now, err = m.Get(t.Context(), "p", task.ID)
			require.NoError(t, err)
			require.Less(t, time.Since(task.Created), paid.Within+5*time.Minute, "it waits for ever")
		}
		assert.Contains(t, text(t, now), "has not happened in time")
		assert.GreaterOrEqual(t, time.Since(task.Created), paid.Within)
		left, _ := s.left("buy")
		assert.Empty(t, left)
	})
}
