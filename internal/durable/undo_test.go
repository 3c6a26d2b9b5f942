package durable_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// counter is what two effects act on. It says what is held, and can keep an undo from ending.
type counter struct {
	mu     sync.Mutex
	holds  map[string]bool
	calls  []string
	before func(what string) error // called before something is undone; may be nil
}

func (c *counter) effect(name string) *saga.Effect[string, string] {
	return &saga.Effect[string, string]{
		Name: name, Tries: 1,
		Do: func(_ context.Context, _ saga.Key, in string) (string, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.calls = append(c.calls, name)
			c.holds[name] = true
			return in, nil
		},
		Undo: func(context.Context, saga.Performed[string, string]) error {
			c.mu.Lock()
			before := c.before
			c.mu.Unlock()
			if before != nil {
				if err := before(name); err != nil {
					return err
				}
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.calls = append(c.calls, "undo "+name)
			delete(c.holds, name)
			return nil
		},
	}
}

func (c *counter) held() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := map[string]bool{}
	for name := range c.holds {
		held[name] = true
	}
	return held
}

// two is a tool that performs two effects, asks, and ends.
func (c *counter) two(info saga.Info) saga.Definition {
	a, b := c.effect("a"), c.effect("b")
	info.Name, info.Tasks, info.Asks, info.Effects = "two", optional, []steps.Question{nameForm}, []saga.Declared{a, b}
	return saga.Machine[none, none]{
		Info: info,
		Start: func(t *turn) (saga.Next, error) {
			for _, e := range []*saga.Effect[string, string]{a, b} {
				if _, err := saga.Do(t, e, "x"); err != nil {
					return nil, err
				}
			}
			return t.Ask("end", nameForm)
		},
		Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
	}
}

// A task of which something is undone already does not go on, whoever takes it and whatever its
// client wants by then.
func TestAnUndoIsGoneOnWith(t *testing.T) {
	for name, c := range map[string]struct {
		patience time.Duration
		newer    bool // the first server has a program that can only undo it
		end      tasks.Status
		says     string
	}{
		"its time is over":       {patience: time.Hour, end: tasks.Failed, says: "longer than its time to live. What it did was undone."},
		"its revision has ended": {newer: true, end: tasks.Completed, says: "no longer served. Start again.\nUndone: b, a."},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				things := &counter{holds: map[string]bool{}}
				old := r.manager(nil, things.two(saga.Info{}))
				stop := r.work(old)
				s := call(old, "two", "")
				s.Patience = c.patience
				task := r.until(old, r.start(old, s).ID, tasks.InputRequired)
				stop()
				l := newLink(r.store, newRand(), -1, 0)
				info := saga.Info{}
				if c.newer {
					info.Revision = 5
				}
				a, err := durable.New(durable.Config{Turns: r.runner(things.two(info)), Store: l})
				require.NoError(t, err)
				hangs := make(chan none)
				defer close(hangs)
				things.before = func(what string) error {
					if what == "a" { // b is undone by now
						l.cut()
						<-hangs
						return errors.New("dead")
					}
					return nil
				}
				r.work(a)
				if c.newer {
					_, err := old.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Ada"}`)})
					require.NoError(t, err)
				}
				time.Sleep(time.Hour + time.Second)
				require.Equal(t, map[string]bool{"a": true}, things.held())
				things.mu.Lock()
				things.before = nil
				things.mu.Unlock()
				if !c.newer {
					_, err = old.Renew(t.Context(), "p", task.ID, time.Hour, nil)
					require.NoError(t, err)
				}
				began := time.Now()
				r.work(old)
				task = r.until(old, task.ID, c.end)
				assert.Less(t, time.Since(began), 11*time.Second, "the lease of the other one")
				assert.Empty(t, things.held())
				assert.Contains(t, task.Message, c.says)
				assert.Equal(t, []string{"a", "b", "undo b", "undo b", "undo a"}, things.calls)
			})
		})
	}
}

// What is said of a task whose time is over is what has happened.
func TestWhatIsSaidOfAnExpiredTask(t *testing.T) {
	for name, c := range map[string]struct {
		effects int
		fails   string
		final   bool
		later   bool // the others cannot be undone yet
		says    string
	}{
		"nothing":             {says: "longer than its time to live."},
		"all is undone":       {effects: 2, says: "longer than its time to live. What it did was undone."},
		"nothing is undone":   {effects: 1, fails: "a", says: "What it did could not be undone yet: the server tries again."},
		"one is not undone":   {effects: 2, fails: "a", says: "What it did was undone, but not all of it could be yet: the server tries again."},
		"a final one":         {effects: 1, fails: "a", final: true, says: `Nothing was undone, as "a" is final.`},
		"up to the final one": {effects: 2, fails: "a", final: true, says: `What it did was undone up to "a", which is final.`},
		"not yet up to it":    {effects: 2, fails: "a", final: true, later: true, says: `Not all that it did after "a", which is final, could be undone yet: the server tries again.`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				things := &counter{holds: map[string]bool{}}
				things.before = func(what string) error {
					switch {
					case what != c.fails && !c.later:
						return nil
					case what != c.fails:
						return errors.New("not now")
					case c.final:
						return saga.Final(errors.New("it is over"))
					}
					return errors.New("not now")
				}
				list := []saga.Declared{}
				do := []*saga.Effect[string, string]{}
				for n := range c.effects {
					e := things.effect(string(rune('a' + n)))
					list, do = append(list, e), append(do, e)
				}
				m := r.manager(nil, saga.Machine[none, none]{
					Info: saga.Info{Name: "waits", Tasks: optional, Asks: []steps.Question{nameForm}, Effects: list},
					Start: func(t *turn) (saga.Next, error) {
						for _, e := range do {
							if _, err := saga.Do(t, e, "x"); err != nil {
								return nil, err
							}
						}
						return t.Ask("end", nameForm)
					},
					Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
				})
				r.work(m)
				task := r.until(m, r.start(m, call(m, "waits", "")).ID, tasks.Failed)
				assert.True(t, len(task.Err.Error()) > 0)
				require.ErrorContains(t, task.Err, c.says)
				if c.effects == 0 {
					assert.NotContains(t, task.Err.Error(), "undone")
				}
			})
		})
	}
}

// pays is a tool that pays, which is final, and delivers in an hour. It counts how often it sets out to.
func pays(runs *atomic.Int32) saga.Definition {
	final := &saga.Effect[string, string]{
		Name: "pay", Irreversible: true,
		Do: func(context.Context, saga.Key, string) (string, error) { return "paid", nil },
		Undo: func(context.Context, saga.Performed[string, string]) error {
			return saga.Final(errors.New("it is paid"))
		},
	}
	return saga.Machine[none, none]{
		Info: saga.Info{Name: "pays", Tasks: optional, Effects: []saga.Declared{final}},
		Start: func(t *turn) (saga.Next, error) {
			if _, err := saga.Do(t, final, "x"); err != nil {
				return nil, err
			}
			return t.Goto("long")
		},
		Steps: saga.Steps[none, none]{"long": func(t *turn) (saga.Next, error) {
			runs.Add(1)
			select {
			case <-t.Done():
				return nil, context.Cause(t)
			case <-time.After(time.Hour):
			}
			return t.Textf("delivered")
		}},
	}
}

// A task that cannot be cancelled any more is not disturbed by whoever wants that again.
func TestTooLateToCancel(t *testing.T) {
	var runs atomic.Int32
	tool := pays(&runs)
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := r.manager(nil, tool), r.manager(nil, tool)
		r.work(a)
		task := r.start(a, call(a, "pays", ""))
		for n := range 10 {
			time.Sleep(time.Minute)
			m := []*durable.Core{a, b}[n%2]
			_, err := m.Cancel(t.Context(), "p", task.ID)
			require.NoError(t, err)
			time.Sleep(time.Minute)
			assert.EqualValues(t, 2, runs.Load(), "it began again after the first of them")
		}
		now, err := b.Get(t.Context(), "p", task.ID)
		require.NoError(t, err)
		assert.Equal(t, tasks.Working, now.Status)
		assert.Equal(t, "Not cancelled: it is too late.", now.Message)
		assert.Contains(t, text(t, r.until(b, task.ID, tasks.Completed)), "delivered")
	})
}

// A turn that a stop cuts off goes on elsewhere, with what it has done.
func TestAStopUndoesNothing(t *testing.T) {
	var runs atomic.Int32
	things := &counter{holds: map[string]bool{}}
	effect := things.effect("a")
	tool := single("long", func(t *turn) (saga.Next, error) {
		if _, err := saga.Do(t, effect, "x"); err != nil {
			return nil, err
		}
		if runs.Add(1) == 1 {
			<-t.Done()
			return nil, fmt.Errorf("cut off: %w", context.Cause(t))
		}
		return t.Textf("done")
	}, effect)
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := r.manager(nil, tool), r.manager(nil, tool)
		stop := r.work(a)
		task := r.start(a, call(a, "long", ""))
		time.Sleep(time.Second)
		stop()
		r.work(b)
		assert.Contains(t, text(t, r.until(b, task.ID, tasks.Completed)), "done")
		assert.Equal(t, []string{"a"}, things.calls)
	})
}
