package durable_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// dated is a system that refuses a key with another input than before, as sqleffect does.
type dated struct {
	done map[saga.Key]time.Time
	dies map[string]func() // when an effect was performed, once
}

func (w *dated) effect(name string, final bool) *saga.Effect[time.Time, string] {
	e := &saga.Effect[time.Time, string]{Name: name, Irreversible: final, Do: func(_ context.Context, key saga.Key, at time.Time) (string, error) {
		if was, known := w.done[key]; known && !was.Equal(at) {
			return "", saga.Refused(errors.New("this key was used with another input"))
		}
		w.done[key] = at
		if die := w.dies[name]; die != nil {
			delete(w.dies, name)
			die()
			time.Sleep(time.Hour)
		}
		return name, nil
	}}
	if !final {
		e.Undo = func(_ context.Context, p saga.Performed[time.Time, string]) error { delete(w.done, p.Key); return nil }
	}
	return e
}

// tool books, and pays when its client has answered.
func (w *dated) tool() saga.Definition {
	book, note, pay := w.effect("book", false), w.effect("note", false), w.effect("pay", true)
	return saga.Flow[none, string]{
		Info: saga.Info{Name: "trip", Tasks: optional, Asks: []steps.Question{nameForm}, Effects: []saga.Declared{book, note, pay}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Do(r, book, r.Now()); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, note, r.Now()); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, nameForm); err != nil {
				return "", err
			}
			return saga.Do(r, pay, r.Now())
		},
	}
}

// A turn that is taken again has the same time: it may be in the input of an effect that is performed again.
func TestTimeOfATurnThatIsTakenAgain(t *testing.T) {
	for name, begin := range map[string]func(*durable.Core, string, string) tasks.Start{
		"a task": call, "a call": func(c *durable.Core, name, _ string) tasks.Start { return waited(c, name) },
	} {
		for _, dies := range []string{"book", "pay"} {
			t.Run(name+" "+dies, func(t *testing.T) {
				inBubble(t, func(t *testing.T, r *rig) {
					w := &dated{make(map[saga.Key]time.Time), make(map[string]func())}
					l := newLink(r.store, newRand(), -1, 0)
					a, err := durable.New(durable.Config{Turns: r.runner(w.tool()), Store: l})
					require.NoError(t, err)
					b := r.manager(nil, w.tool())
					r.work(a)
					w.dies[dies] = func() { l.cut(); r.work(b) }
					id := r.start(a, begin(a, "trip", "{}")).ID
					task := r.until(b, id, tasks.InputRequired)
					by := b
					if dies == "pay" {
						by = a
					}
					_, err = by.Answer(t.Context(), "p", id, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Ada"}`)})
					require.NoError(t, err)
					assert.Contains(t, text(t, r.until(b, id, tasks.Completed)), "pay")
					assert.Len(t, w.done, 3, "all were performed, each once")
				})
			})
		}
	}
}

// So has the turn of a client that died, when a worker finds out what it did.
func TestTimeOfATurnThatIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &dated{make(map[saga.Key]time.Time), make(map[string]func())}
		s := newFleet(t, w.tool())
		dying, b := s.replica(), s.replica()
		w.dies["note"] = func() { dying.line.die() }
		_, err := dying.call("{}")
		require.Error(t, err)
		require.Len(t, w.done, 2)
		b.work(t)
		time.Sleep(time.Hour)
		assert.Empty(t, w.done)
	})
}

// So has a turn that follows without the client, also on a machine whose clock shows another time whenever it is read.
func TestTimeOfATurnThatFollowsWithoutTheClient(t *testing.T) {
	for _, comesBack := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := &dated{make(map[saga.Key]time.Time), make(map[string]func())}
			book, note := w.effect("book", false), w.effect("note", false)
			s := newFleet(t, saga.Flow[none, string]{
				Info: saga.Info{Name: "trip", Asks: []steps.Question{nameForm}, Effects: []saga.Declared{book, note}},
				Run: func(r *saga.Run, _ none) (string, error) {
					if _, err := saga.Ask(r, nameForm); err != nil {
						return "", err
					}
					if err := r.Sleep(time.Second); err != nil { // which the request waits for
						return "", err
					}
					if _, err := saga.Do(r, book, r.Now()); err != nil {
						return "", err
					}
					if _, err := saga.Do(r, note, r.Now()); err != nil {
						return "", err
					}
					_, err := saga.Ask(r, nameForm)
					return "", err
				},
			})
			var n atomic.Int64
			ticks := func(c *clientConfig) {
				c.Now = func() time.Time { return time.Now().Add(time.Duration(n.Add(1)) * time.Microsecond) }
			}
			dying, b := s.replica(ticks), s.replica(ticks)
			end := dying.begin(t, "{}")
			w.dies["note"] = func() { dying.line.die() }
			answer := accept(end.Steps[0].ID, `{"name":"Ada"}`)
			_, err := dying.resume(end.Token, answer)
			require.Error(t, err)
			require.Len(t, w.done, 2)
			if comesBack {
				end, err = b.resume(end.Token, answer)
				require.NoError(t, err)
				assert.NotEmpty(t, end.Token)
				assert.Len(t, w.done, 2)
			}
			b.work(t)
			time.Sleep(24 * time.Hour)
			assert.Empty(t, w.done)
		})
	}
}

// So it has as a text.
func TestTextOfTheTimeOfATurnThatIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inputs []string
		var dies func()
		note := &saga.Effect[string, none]{Name: "note", ReadOnly: true, Do: func(_ context.Context, _ saga.Key, in string) (none, error) {
			inputs = append(inputs, in)
			dies()
			return none{}, nil
		}}
		s := newFleet(t, saga.Machine[none, none]{
			Info:  saga.Info{Name: "trip", Asks: []steps.Question{nameForm}, Effects: []saga.Declared{note}},
			Start: func(t *turn) (saga.Next, error) { return t.Ask("asked", nameForm) },
			Steps: saga.Steps[none, none]{"asked": func(t *turn) (saga.Next, error) {
				_, err := saga.Do(t, note, fmt.Sprint(t.Now()))
				if err != nil {
					return nil, err
				}
				return t.Textf("noted")
			}},
		})
		zoned := func(c *clientConfig) {
			c.Now = func() time.Time { return time.Now().In(time.FixedZone("CET", 3600)) }
		}
		dying, b := s.replica(zoned), s.replica(zoned)
		end := dying.begin(t, "{}")
		answer := accept(end.Steps[0].ID, `{"name":"Ada"}`)
		dies = func() { dying.line.die() }
		_, err := dying.resume(end.Token, answer)
		require.Error(t, err)
		dies = func() {}
		time.Sleep(time.Minute)
		_, err = b.resume(end.Token, answer)
		require.NoError(t, err)
		require.Len(t, inputs, 2)
		assert.Equal(t, inputs[0], inputs[1])
	})
}
