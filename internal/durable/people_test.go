package durable_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type sum struct {
	Limit int `json:"limit" minimum:"1"`
}

var approve = &steps.Form[sum]{ID: "approve", Message: "Up to what sum?", By: steps.By{"finance", "board"}, Within: time.Hour}

// approved is a tool of a shop's that others approve. It is given the names of their pages in the place of handles.
func (s *shop) approved(words func() string) saga.Definition {
	order := &saga.Effect[hold, string]{Name: "order", Do: s.do, Undo: s.undo}
	tell := &saga.Effect[checkout, string]{Name: "tell", Do: func(_ context.Context, _ saga.Key, in checkout) (string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.handles = append(s.handles, path.Base(in.Handle))
		return "", nil
	}}
	return saga.Flow[none, string]{
		Info: saga.Info{Name: "buy", Tasks: optional, Asks: []steps.Question{approve}, Effects: []saga.Declared{order, tell}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Do(r, order, hold{Task: "buy", What: "a"}); err != nil {
				return "", err
			}
			page, err := saga.Page(r, approve)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, tell, checkout{page}); err != nil {
				return "", err
			}
			q := approve
			if words != nil {
				q = approve.With(steps.Message(words()))
			}
			got, err := saga.Ask(r, q)
			if err != nil {
				return "", err
			}
			who, at := q.AnsweredBy(r)
			return fmt.Sprintf("up to %d, says %s, %t", got.Limit, who, !at.IsZero()), nil
		},
	}
}

// answers has a person answer, if the question is open.
func answersAs(m *durable.Core, name, who string, limit int) error {
	a, err := m.FindAsked(context.Background(), name)
	if err != nil {
		return err
	}
	return m.AnswerAsked(context.Background(), a, durable.PersonAnswer{Action: "accept", By: who, From: "192.0.2.1", Content: fmt.Appendf(nil, `{"limit":%d}`, limit)})
}

// waitingFor are the names of what waits.
func waitingFor(t *testing.T, m *durable.Core, as ...string) (names []string) {
	t.Helper()
	list, next, err := m.WaitingFor(t.Context(), as, "", 10)
	require.NoError(t, err)
	assert.Empty(t, next)
	for _, a := range list {
		names = append(names, a.Name)
	}
	return names
}

// A question is in the lists of those who may answer while it is open, once for each of them, and its history says who has.
func TestOthersAnswerQuestions(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := newShop()
		a, b := r.manager(nil, s.approved(nil)), r.manager(nil, s.approved(nil))
		r.work(a)
		task := r.start(a, call(a, "buy", "{}"))
		time.Sleep(10 * time.Minute)
		now, err := b.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
		assert.Equal(t, tasks.Working, now.Status)
		assert.Empty(t, now.Questions)
		assert.NotContains(t, now.Message, "sum", "which is not for the client")
		name := s.given()[0]
		for _, as := range [][]string{{"finance"}, {"board"}, {"board", "finance", "x", "board"}} {
			assert.Equal(t, []string{name}, waitingFor(t, b, as...), as)
		}
		assert.Empty(t, waitingFor(t, b, "x", ""))
		var wrong *durable.ValueError
		require.ErrorAs(t, answersAs(b, name, "jo", 0), &wrong)
		require.NoError(t, answersAs(b, name, "jo", 7))
		require.ErrorIs(t, answersAs(b, name, "sam", 8), durable.ErrEventOther)
		assert.Empty(t, waitingFor(t, b, "finance", "board"))
		done := r.until(b, task.ID, tasks.Completed)
		assert.Contains(t, text(t, done), "up to 7, says jo, true")
		require.ErrorIs(t, answersAs(b, name, "jo", 7), durable.ErrEventOther)
		said := false
		records, err := r.store.List(t.Context(), store.Filter{Audience: "test", Statuses: []store.Status{store.Ended}}, store.Cursor{}, 10)
		require.NoError(t, err)
		records = slices.DeleteFunc(records, func(r *store.Record) bool { return r.Mode != store.ModeTask })
		require.Len(t, records, 1)
		for e, err := range b.History(t.Context(), records[0].ID) {
			require.NoError(t, err)
			said = said || e.Kind == "answer" && e.Text == "by person jo from 192.0.2.1"
		}
		assert.True(t, said)
		_, err = b.FindAsked(t.Context(), "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
		assert.ErrorIs(t, err, tasks.ErrNotFound)
	})
}

// What is over is in no list, and takes no answer: cancelled by its client, in whatever way, or not answered in time.
func TestOthersAreNotAskedAnyMore(t *testing.T) {
	for name, test := range map[string]struct {
		client bool // drives it
		end    func(t *testing.T, m *durable.Core, id string, end turns.End)
	}{
		"task cancelled": {false, func(t *testing.T, m *durable.Core, id string, _ turns.End) {
			_, err := m.Cancel(t.Context(), "p", id)
			require.NoError(t, err)
			time.Sleep(time.Minute)
		}},
		"client cancels": {true, func(t *testing.T, m *durable.Core, _ string, end turns.End) {
			q := call(m, "buy", "").Request
			q.Token = end.Token
			_, err := m.Turns.Cancel(t.Context(), q)
			require.NoError(t, err)
		}},
		"operator undoes it": {true, func(t *testing.T, m *durable.Core, _ string, _ turns.End) {
			waits := 0
			for waiting, err := range m.Waiting(t.Context()) {
				require.NoError(t, err)
				require.NoError(t, m.UndoNow(t.Context(), waiting.ID))
				waits++
			}
			assert.Equal(t, 1, waits)
			time.Sleep(time.Minute)
		}},
		"task, too late":   {false, func(*testing.T, *durable.Core, string, turns.End) { time.Sleep(approve.Within) }},
		"client, too late": {true, func(*testing.T, *durable.Core, string, turns.End) { time.Sleep(approve.Within) }},
		"abandoned":        {true, func(*testing.T, *durable.Core, string, turns.End) { time.Sleep(approve.Within + time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				s := newShop()
				m := r.manager(nil, s.approved(nil))
				r.work(m)
				id, end := "", turns.End{}
				if test.client {
					var err error
					end, err = m.Turns.Call(t.Context(), call(m, "buy", "{}").Request)
					require.NoError(t, err)
					assert.Empty(t, end.Steps)
				} else {
					id = r.start(m, call(m, "buy", "{}")).ID
				}
				time.Sleep(time.Minute)
				name := s.given()[0]
				require.Equal(t, []string{name}, waitingFor(t, m, "finance"))
				test.end(t, m, id, end)
				assert.Empty(t, waitingFor(t, m, "finance"))
				require.ErrorIs(t, answersAs(m, name, "jo", 7), durable.ErrEventGone)
				time.Sleep(2 * time.Hour)
				left, _ := s.left("buy")
				assert.Empty(t, left, "it is undone")
			})
		})
	}
}

// An answer is to the words that were shown: if the tool asks otherwise by then, it counts for nothing.
func TestOthersAnswerWhatTheyRead(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := newShop()
		said := new(atomic.Value)
		said.Store("Pay 1?")
		m := r.manager(nil, s.approved(func() string { return said.Load().(string) }))
		r.work(m)
		end, err := m.Turns.Call(t.Context(), call(m, "buy", "{}").Request)
		require.NoError(t, err)
		name := s.given()[0]
		before, err := m.FindAsked(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, answersAs(m, name, "jo", 1))
		said.Store("Pay 1000?")
		q := call(m, "buy", "").Request
		q.Token = end.Token
		end, err = m.Turns.Resume(t.Context(), q)
		require.NoError(t, err)
		require.Nil(t, end.Result, "it asks again")
		now, err := m.FindAsked(t.Context(), name)
		require.NoError(t, err)
		assert.True(t, now.Open)
		assert.Contains(t, string(now.Step.Params), "Pay 1000?")
		assert.ErrorIs(t, m.AnswerAsked(t.Context(), before, durable.PersonAnswer{Action: "accept", By: "jo", Content: []byte(`{"limit":1}`)}), durable.ErrEventGone)
		assert.Equal(t, []string{name}, waitingFor(t, m, "board"))
		require.NoError(t, answersAs(m, name, "sam", 2))
		q.Token = end.Token
		end, err = m.Turns.Resume(t.Context(), q)
		require.NoError(t, err)
		assert.Contains(t, end.Result.Content.Text(), "up to 2, says sam")
	})
}

// Wherever a server dies, the question is in the lists, one answer counts, and the saga gets it.
func TestOthersWhereServersDie(t *testing.T) {
	for dies := 1; ; dies++ {
		over := false
		t.Run(fmt.Sprint("at call ", dies), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				s := newShop()
				cut := newLink(r.store, newRand(), dies, 0)
				a := r.manager(func(c *durable.Config) { c.Store, c.Attempts = cut, 1000 }, s.approved(nil))
				b := r.manager(func(c *durable.Config) { c.Attempts = 1000 }, s.approved(nil))
				stop := r.work(a)
				begun := call(a, "buy", "{}")
				begun.ID = "it"
				if _, err := a.Start(t.Context(), begun); err != nil { // its client tries again elsewhere
					begun = call(b, "buy", "{}")
					begun.ID = "it"
					if _, err = b.Start(t.Context(), begun); err != nil {
						require.ErrorIs(t, err, tasks.ErrExists)
					}
				}
				time.Sleep(5 * time.Second)
				if names := s.given(); len(names) > 0 {
					_ = answersAs(a, names[0], "jo", 5)
				}
				time.Sleep(5 * time.Second)
				over = !cut.dead.Load()
				cut.cut()
				stop()
				r.work(b)
				time.Sleep(5 * time.Minute)
				require.NotEmpty(t, s.given())
				name := s.given()[0]
				for _, other := range s.given() {
					assert.Equal(t, name, other)
				}
				asked, err := b.FindAsked(t.Context(), name) // who answered looks again
				require.NoError(t, err)
				who := "jo"
				if asked.Open {
					who = "sam"
					assert.Equal(t, []string{name}, waitingFor(t, b, "finance"))
					assert.Equal(t, []string{name}, waitingFor(t, b, "board"))
					require.NoError(t, answersAs(b, name, "sam", 5))
				}
				assert.Contains(t, text(t, r.until(b, "it", tasks.Completed)), "up to 5, says "+who)
				assert.Empty(t, waitingFor(t, b, "finance", "board"))
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

// A part of a long list costs as much as one of a short list, wherever it is.
func TestManyQuestionsOfOthers(t *testing.T) {
	many := 3000
	if os.Getenv("SAGA_NIGHTLY") == "1" {
		many = 100_000
	}
	inBubble(t, func(t *testing.T, r *rig) {
		var calls atomic.Int64
		counted := &intercept.Store{Store: r.store, Around: func(_ context.Context, _ intercept.Call, next func() error) error {
			calls.Add(1)
			return next()
		}}
		m := r.manager(func(c *durable.Config) { c.Store, c.MaxSagas = counted, -1 }, newShop().approved(nil))
		p := m.Turns.Registry.Find(engine.KindTool, "buy")
		step, err := approve.Step()
		require.NoError(t, err)
		until := time.Now().Add(time.Hour)
		for n := range many {
			var place engine.Place
			binary.BigEndian.PutUint64(place[:], uint64(n)+1)
			require.NoError(t, m.Asks(t.Context(), p, place, "approve", step.Params, until))
		}
		seen, after := map[string]bool{}, ""
		for parts := 0; ; parts++ {
			calls.Store(0)
			list, next, err := m.WaitingFor(t.Context(), []string{"finance", "board"}, after, 25)
			require.NoError(t, err)
			assert.LessOrEqual(t, calls.Load(), int64(2*26+10+2*200))
			for _, a := range list {
				seen[a.Name] = true
			}
			if after = next; next == "" || parts == 200 {
				break
			}
			require.Len(t, list, 25)
		}
		assert.GreaterOrEqual(t, len(seen), min(many, 200*25))
	})
}

// Who wants a saga ended that goes only forward is refused, and takes no question back: it continues.
func TestOthersAreAskedAfterALateCancel(t *testing.T) {
	for name, late := range map[string]func(t *testing.T, m *durable.Core, q turns.Request){
		"client": func(t *testing.T, m *durable.Core, q turns.Request) {
			late, err := m.Turns.Cancel(t.Context(), q)
			require.NoError(t, err)
			assert.Contains(t, late.Result.Content.Text(), "too late")
		},
		"operator": func(t *testing.T, m *durable.Core, _ turns.Request) {
			for waiting, err := range m.Waiting(t.Context()) {
				require.NoError(t, err)
				require.NoError(t, m.UndoNow(t.Context(), waiting.ID))
				time.Sleep(time.Second)
				_, err := m.Look(t.Context(), waiting.ID)
				require.ErrorIs(t, err, durable.ErrTooLate)
				require.ErrorIs(t, m.UndoNow(t.Context(), waiting.ID), durable.ErrTooLate)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				s := newShop()
				order := &saga.Effect[hold, string]{Name: "order", Do: s.do, Undo: s.undo}
				pay := &saga.Effect[hold, string]{Name: "pay", Do: s.do, Irreversible: true}
				m := r.manager(nil, saga.Flow[none, string]{
					Info: saga.Info{Name: "buy", Asks: []steps.Question{approve}, Effects: []saga.Declared{order, pay}},
					Run: func(r *saga.Run, _ none) (string, error) {
						if _, err := saga.Do(r, order, hold{Task: "buy", What: "a"}); err != nil {
							return "", err
						}
						if _, err := saga.Do(r, pay, hold{Task: "buy", What: "b"}); err != nil {
							return "", err
						}
						got, err := saga.Ask(r, approve)
						return fmt.Sprint("up to ", got.Limit), err
					},
				})
				r.work(m)
				q := call(m, "buy", "{}").Request
				first, err := m.Turns.Call(t.Context(), q)
				require.NoError(t, err)
				waiting := waitingFor(t, m, "finance")
				require.Len(t, waiting, 1)
				q.Token = first.Token
				late(t, m, q)
				left, _ := s.left("buy")
				assert.Len(t, left, 2, "nothing is undone")
				assert.Equal(t, waiting, waitingFor(t, m, "finance"))
				require.NoError(t, answersAs(m, waiting[0], "jo", 7))
				end, err := m.Turns.Resume(t.Context(), q)
				require.NoError(t, err)
				require.NotNil(t, end.Result)
				assert.Contains(t, end.Result.Content.Text(), "up to 7")
			})
		})
	}
}

// A client that comes for a saga that an operator has undone learns that at once, whatever the saga waited for.
func TestWaitsEndWithTheSaga(t *testing.T) {
	for name, ask := range map[string]func(r *saga.Run) error{
		"others": func(r *saga.Run) error { _, err := saga.Ask(r, approve); return err },
		"event":  func(r *saga.Run) error { _, err := saga.Ask(r, paid); return err },
		"sleep":  func(r *saga.Run) error { return r.Sleep(30 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				s := newShop()
				order := &saga.Effect[hold, string]{Name: "order", Do: s.do, Undo: s.undo}
				m := r.manager(nil, saga.Flow[none, string]{
					Info: saga.Info{Name: "buy", Asks: []steps.Question{approve, paid}, Effects: []saga.Declared{order}},
					Run: func(r *saga.Run, _ none) (string, error) {
						if _, err := saga.Do(r, order, hold{Task: "buy", What: "a"}); err != nil {
							return "", err
						}
						return "done", ask(r)
					},
				})
				r.work(m)
				q := call(m, "buy", "{}").Request
				first, err := m.Turns.Call(t.Context(), q)
				require.NoError(t, err)
				for waiting, err := range m.Waiting(t.Context()) {
					require.NoError(t, err)
					require.NoError(t, m.UndoNow(t.Context(), waiting.ID))
				}
				time.Sleep(time.Minute)
				q.Token = first.Token
				end, err := m.Turns.Resume(t.Context(), q)
				require.NoError(t, err)
				require.NotNil(t, end.Result, "it does not wait")
				assert.Contains(t, end.Result.Content.Text(), "operator has ended")
			})
		})
	}
}
