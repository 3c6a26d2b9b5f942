package durable_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// billing gives its handle away, asks its client, and only then waits for the event.
func (s *shop) billing() saga.Definition {
	bill := &saga.Effect[hold, string]{Name: "bill", Do: func(ctx context.Context, key saga.Key, in hold) (string, error) {
		s.mu.Lock()
		s.handles = append(s.handles, in.What)
		s.mu.Unlock()
		return s.do(ctx, key, in)
	}, Undo: s.undo}
	return saga.Flow[none, string]{
		Info: saga.Info{Name: "bill", Tasks: optional, Asks: []steps.Question{askFirst, paid}, Effects: []saga.Declared{bill}},
		Run: func(r *saga.Run, _ none) (string, error) {
			handle, err := saga.Handle(r, paid)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, bill, hold{Task: "bill", What: handle}); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askFirst); err != nil {
				return "", err
			}
			_, err = saga.Ask(r, paid)
			return "paid", err
		},
	}
}

// lateCase begins a saga of the tool bill, and returns what ends it before its event is taken.
type lateCase func(t *testing.T, r *rig, m *durable.Core) (ends func())

var declined = steps.Answer{StepID: "first", Result: []byte(`{"action":"decline"}`)}

// driven is a saga that its client drives, which ends so.
func driven(policy turns.Policy, end func(t *testing.T, m *durable.Core, q turns.Request)) lateCase {
	return func(t *testing.T, _ *rig, m *durable.Core) func() {
		q := call(m, "bill", "{}").Request
		q.Policy = policy
		begun, err := m.Turns.Call(t.Context(), q)
		require.NoError(t, err)
		q.Token, q.Arguments = begun.Token, nil
		return func() { end(t, m, q) }
	}
}

func declines(t *testing.T, m *durable.Core, q turns.Request) {
	q.Answers = []steps.Answer{declined}
	end, err := m.Turns.Resume(t.Context(), q)
	require.NoError(t, err)
	assert.True(t, end.Result.IsError)
}

func cancels(t *testing.T, m *durable.Core, q turns.Request) {
	end, err := m.Turns.Cancel(t.Context(), q)
	require.NoError(t, err)
	assert.Contains(t, end.Result.Content.Text(), "Cancelled")
}

// asTask is a saga that is a task, which ends so.
func asTask(end func(t *testing.T, m *durable.Core, id string) error) lateCase {
	return func(t *testing.T, r *rig, m *durable.Core) func() {
		task := r.until(m, r.start(m, call(m, "bill", "{}")).ID, tasks.InputRequired)
		return func() {
			require.NoError(t, end(t, m, task.ID))
			for now := task; !now.Status.Ended(); {
				time.Sleep(time.Second)
				var err error
				now, err = m.Get(t.Context(), "p", task.ID)
				require.NoError(t, err)
			}
		}
	}
}

var lateCases = map[string]lateCase{
	"client declines":  driven(turns.Carried, declines),
	"client cancels":   driven(turns.Carried, cancels),
	"session declines": driven(turns.Held, declines),
	"client cancels when the event is asked": driven(turns.Carried, func(t *testing.T, m *durable.Core, q turns.Request) {
		q.Answers = []steps.Answer{accept("first", `{"word":"x"}`)}
		next, err := m.Turns.Resume(t.Context(), q)
		require.NoError(t, err)
		if q.Token, q.Answers = next.Token, nil; next.Result == nil { // else it came before that
			cancels(t, m, q)
		}
	}),
	"client stays away": driven(turns.Carried, func(*testing.T, *durable.Core, turns.Request) { time.Sleep(2 * time.Hour) }),
	"task declined": asTask(func(t *testing.T, m *durable.Core, id string) error {
		_, err := m.Answer(t.Context(), "p", id, []steps.Answer{declined})
		return err
	}),
	"task cancelled": asTask(func(t *testing.T, m *durable.Core, id string) error {
		_, err := m.Cancel(t.Context(), "p", id)
		return err
	}),
}

// However a saga has ended, what is delivered after that to a handle that it has made is refused, whether it had asked or
// not, and also if a server dies between that it writes the value and that it looks for the saga again.
func TestEventsOfSagasThatHaveEnded(t *testing.T) {
	for name, begin := range lateCases {
		for _, comes := range []string{"late", "early and late", "meanwhile", "meanwhile, and the server dies"} {
			if (name == "client cancels when the event is asked" || name == "client stays away") && comes != "late" {
				continue // it is taken then, or the saga is forgotten meanwhile
			}
			t.Run(name+", "+comes, func(t *testing.T) {
				inBubble(t, func(t *testing.T, r *rig) {
					s := newShop()
					b := r.manager(nil, s.billing())
					way := &storetest.Intercept{Store: r.store, Around: func(_ context.Context, _ storetest.Call, next func() error) error { return next() }}
					a := r.manager(func(c *durable.Config) { c.Store = way }, s.billing())
					stop := r.work(b)
					ends := begin(t, r, b)
					require.Len(t, s.given(), 1)
					handle, dead := s.given()[0], false
					switch comes {
					case "early and late":
						require.NoError(t, deliver(a, handle, `{"amount":5}`))
						ends()
					case "late":
						ends()
					default:
						once := false
						way.Around = func(_ context.Context, c storetest.Call, next func() error) error {
							if dead {
								return errors.New("the server is dead")
							}
							err := next()
							if c.Record != nil && c.Record.Tool == "document" && !once {
								once = true
								ends()
								dead = comes != "meanwhile"
							}
							return err
						}
						err := deliver(a, handle, `{"amount":5}`)
						require.Error(t, err)
						assert.Equal(t, !dead, errors.Is(err, durable.ErrEventGone), "%v", err)
					}
					for range 2 {
						assert.ErrorIs(t, deliver(b, handle, `{"amount":5}`), durable.ErrEventGone)
					}
					assert.ErrorIs(t, deliver(b, handle, `{"amount":6}`), durable.ErrEventGone)
					time.Sleep(time.Hour)
					left, _ := s.left("bill")
					assert.Empty(t, left, "it is undone")
					stop()
					time.Sleep(100 * 24 * time.Hour)
					_, err := r.store.Forget(t.Context(), 1000)
					require.NoError(t, err)
					assert.ErrorIs(t, deliver(b, handle, `{"amount":5}`), durable.ErrEventGone, "and when the saga is forgotten")
				})
			})
		}
	}
}

// Who has delivered in time reads that again after the saga's end, though it may not have learnt it before. Who comes with
// something else reads that another was first.
func TestEventsThatWereTaken(t *testing.T) {
	const declines = `{"action":"decline"}`
	for name, c := range map[string]struct {
		result []byte
		others []string
		ended  string
	}{
		"value":     {accepts(`{"amount":5}`), []string{string(accepts(`{"amount":6}`)), declines}, "paid"},
		"rejection": {[]byte(declines), []string{string(accepts(`{"amount":5}`)), `{"action":"decline","reason":"no money"}`}, "declined"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				s := newShop()
				m := r.manager(nil, s.billing())
				ends := driven(turns.Carried, func(t *testing.T, m *durable.Core, q turns.Request) {
					q.Answers = []steps.Answer{accept("first", `{"word":"x"}`)}
					end, err := m.Turns.Resume(t.Context(), q)
					require.NoError(t, err)
					require.NotNil(t, end.Result)
					assert.Contains(t, end.Result.Content.Text(), c.ended)
				})(t, r, m)
				at, err := m.AtHandle(t.Context(), s.given()[0])
				require.NoError(t, err)
				say := func(result []byte) error { _, err := m.Deliver(t.Context(), at, result); return err }
				require.NoError(t, say(c.result))
				ends()
				assert.NoError(t, say(c.result))
				for _, other := range c.others {
					assert.ErrorIs(t, say([]byte(other)), durable.ErrEventOther, other)
				}
			})
		})
	}
}

// What the client's saga took before it became a task was taken.
func TestEventsTakenBeforeTheTask(t *testing.T) {
	s := newShop()
	pay := &saga.Effect[checkout, string]{Name: "pay", Do: s.pays}
	tool := saga.Flow[none, string]{
		Info: saga.Info{Name: "buy", Asks: []steps.Question{paid, nameForm}, Effects: []saga.Declared{pay}, Tasks: saga.Tasks{Mode: saga.TasksOptional, After: "name"}},
		Run: func(r *saga.Run, _ none) (string, error) {
			handle, err := saga.Handle(r, paid)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, pay, checkout{handle}); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, paid); err != nil {
				return "", err
			}
			_, err = saga.Ask(r, nameForm)
			return "done", err
		},
	}
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, tool)
		r.work(m)
		q := call(m, "buy", "{}")
		q.Request.Policy = turns.Carried
		q.Request.Token = r.start(m, q).End.Token
		handle := s.given()[0]
		assert.NoError(t, deliver(m, handle, `{"amount":5}`))
		q.Request.Token = r.start(m, q).End.Token
		q.Request.Answers = []steps.Answer{accept("name", `{"name":"Ada"}`)}
		task := r.start(m, q)
		r.until(m, task.ID, tasks.Completed)
		assert.NoError(t, deliver(m, handle, `{"amount":5}`), "the same again")
		time.Sleep(time.Second)
		assert.ErrorIs(t, deliver(m, handle, `{"amount":6}`), durable.ErrEventOther)
	})
}

func (s *shop) pays(_ context.Context, _ saga.Key, in checkout) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handles = append(s.handles, in.Handle)
	return "", nil
}

var second = &steps.Event[payment]{ID: "second", Message: "Waiting on.", Within: 60 * 24 * time.Hour}

// What was taken is not taken again when only the saga remembers it.
func TestEventsRedeliveredAfterMoreThanAWeek(t *testing.T) {
	s := newShop()
	pay := &saga.Effect[checkout, string]{Name: "pay", Do: s.pays}
	tool := saga.Flow[none, string]{
		Info: saga.Info{Name: "buy", Asks: []steps.Question{paid, second}, Effects: []saga.Declared{pay}, MaxAge: 90 * 24 * time.Hour, Tasks: saga.Tasks{Mode: saga.TasksOptional, TTL: 90 * 24 * time.Hour}},
		Run: func(r *saga.Run, _ none) (string, error) {
			handle, err := saga.Handle(r, paid)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, pay, checkout{handle}); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, paid); err != nil {
				return "", err
			}
			_, err = saga.Ask(r, second.With(steps.Key("k")))
			return "done", err
		},
	}
	inBubble(t, func(t *testing.T, r *rig) {
		m := r.manager(nil, tool)
		r.work(m)
		task := r.start(m, call(m, "buy", "{}"))
		time.Sleep(time.Minute)
		handle := s.given()[0]
		assert.NoError(t, deliver(m, handle, `{"amount":5}`))
		time.Sleep(10 * 24 * time.Hour)
		now, err := m.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
		assert.Equal(t, tasks.Working, now.Status)
		at, err := m.AtHandle(t.Context(), handle)
		assert.NoError(t, err)
		early, err := m.Deliver(t.Context(), at, accepts(`{"amount":5}`))
		assert.NoError(t, err)
		assert.False(t, early, "nothing is kept for a saga that is to come")
	})
}
