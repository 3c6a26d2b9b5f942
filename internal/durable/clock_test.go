package durable_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A server's clock may be set at any moment. Its tasks go on as if nothing had happened: nobody else
// takes them meanwhile, nor are they over, nor do they wait until the clock would be right.
func TestTheClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{24 * time.Hour, -24 * time.Hour, time.Minute, -time.Minute} {
		for _, when := range []string{"while a step runs", "while it sleeps", "before an effect", "while it waits", "before it begins"} {
			inBubble(t, func(t *testing.T, r *rig) {
				what := fmt.Sprint(by, " ", when)
				var set, runs, calls, elsewhere atomic.Int64
				jumps := func(at string) {
					if at == when {
						set.Store(int64(by))
					}
				}
				effect := &saga.Effect[string, string]{
					Name: "act", Tries: 1,
					Do:   func(context.Context, saga.Key, string) (string, error) { calls.Add(1); return "", nil },
					Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
				}
				tool := saga.Machine[none, none]{
					Info: saga.Info{Name: "long", Tasks: saga.Tasks{Mode: saga.TasksOptional, TTL: 6 * time.Hour}, Asks: []steps.Question{nameForm}, Effects: []saga.Declared{effect}},
					Start: func(t *turn) (saga.Next, error) {
						runs.Add(1)
						time.Sleep(time.Second)
						jumps("while a step runs")
						select {
						case <-t.Done():
							return nil, context.Cause(t)
						case <-time.After(time.Minute):
						}
						return t.Sleep(2*time.Minute, "act") // since it began
					},
					Steps: saga.Steps[none, none]{
						"act": func(t *turn) (saga.Next, error) {
							jumps("before an effect")
							if _, err := saga.Do(t, effect, "x"); err != nil {
								return nil, err
							}
							return t.Ask("end", nameForm)
						},
						"end": func(t *turn) (saga.Next, error) { return t.Textf("done") },
					},
				}
				a := r.manager(nil, tool)
				a.Turns.Now = func() time.Time { return time.Now().Add(time.Duration(set.Load())) }
				b := r.manager(nil, tool) // its clock is right
				b.Turns.Hook = func(ctx context.Context, _ *turns.Turn, take func(context.Context) error) error {
					elsewhere.Add(1)
					return take(ctx)
				}
				r.work(a)
				time.Sleep(time.Second)
				jumps("before it begins")
				task := r.start(a, call(a, "long", ""))
				began := time.Now()
				if when != "while it sleeps" && when != "while it waits" { // then nobody has it
					r.work(b)
				}
				time.Sleep(90 * time.Second)
				jumps("while it sleeps")
				task = r.until(a, task.ID, tasks.InputRequired)
				assert.InDelta(t, 120, time.Since(began).Seconds(), 0.5, what)
				jumps("while it waits")
				time.Sleep(2 * time.Minute)
				_, err := a.Answer(t.Context(), "p", task.ID, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Ada"}`)})
				require.NoError(t, err)
				task = r.until(a, task.ID, tasks.Completed)
				assert.InDelta(t, 240, time.Since(began).Seconds(), 0.5, what)
				assert.EqualValues(t, 1, calls.Load(), what)
				assert.EqualValues(t, 1, runs.Load(), what)
				assert.WithinDuration(t, time.Now(), task.Updated, 3*time.Second, what)
			})
		}
	}
}

// A server that stood still, as its machine did, does not act as if no time had passed, also if it
// cannot find out that it has lost its task.
func TestAServerThatStoodStill(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := newStill(r)
		var runs atomic.Int64
		a, way := s.server(func(t *turn) error {
			if runs.Add(1) == 1 {
				time.Sleep(5 * time.Second)
			}
			return s.act(t)
		})
		b, _ := s.server(s.act)
		way.noListen.Store(true) // nobody tells it that it has lost its task
		r.work(a)
		task := r.start(a, call(a, "steps", ""))
		time.Sleep(4 * time.Second)
		way.noLoad.Store(true)
		way.dies()
		s.stands(30 * time.Second)
		r.work(b)
		r.until(b, task.ID, tasks.Completed)
		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, s.calls.Load())
	})
}

// One that did so for less than a lease keeps its tasks.
func TestAServerThatStoodStillForAMoment(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := newStill(r)
		var runs atomic.Int64
		tool := func(t *turn) error {
			runs.Add(1)
			time.Sleep(time.Minute)
			return s.act(t)
		}
		a, way := s.server(tool)
		b, _ := s.server(tool)
		r.work(a)
		task := r.start(a, call(a, "steps", ""))
		time.Sleep(time.Second)
		r.work(b)
		time.Sleep(time.Second)
		renewed := make(chan none)
		way.next(func() { close(renewed) })
		<-renewed
		synctest.Wait()
		s.stands(7 * time.Second)
		r.until(b, task.ID, tasks.Completed)
		assert.EqualValues(t, 1, runs.Load())
		assert.EqualValues(t, 1, s.calls.Load())
	})
}

// still are servers whose machines can stand still, with a store that goes on.
type still struct {
	r      *rig
	by     atomic.Int64
	calls  atomic.Int64
	effect *saga.Effect[string, string]
}

func newStill(r *rig) *still {
	s := &still{r: r}
	s.effect = &saga.Effect[string, string]{
		Name: "act", Tries: 1,
		Do:   func(context.Context, saga.Key, string) (string, error) { s.calls.Add(1); return "", nil },
		Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
	}
	r.store = store.NewMemory(s.now)
	return s
}

func (s *still) now() time.Time         { return time.Now().Add(time.Duration(s.by.Load())) }
func (s *still) stands(d time.Duration) { s.by.Store(int64(d)) }

func (s *still) act(t *turn) error {
	_, err := saga.Do(t, s.effect, "x")
	return err
}

func (s *still) server(run func(t *turn) error) (*durable.Core, *narrow) {
	m, way := s.r.narrowed(step(run, s.effect))
	m.Turns.Now = s.now
	return m, way
}

// One that stood still before it undid anything asks whether it may.
func TestAServerThatStoodStillBeforeAnUndo(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := newStill(r)
		var failing atomic.Bool
		var undone atomic.Int32
		s.effect.Undo = func(context.Context, saga.Performed[string, string]) error { undone.Add(1); return nil }
		fails := func(t *turn) error {
			if err := s.act(t); err != nil {
				return err
			}
			failing.Store(true)
			return saga.Failf("no paper")
		}
		b, _ := s.server(fails)
		var way *narrow
		seen := spied(r)
		seen.fails(func(write func() error) error {
			err := write()
			if failing.Swap(false) {
				seen.fails(nil)
				way.dies()
				way.noLoad.Store(true)
				s.stands(30 * time.Second)
				r.work(b)
				time.Sleep(time.Minute)
			}
			return err
		})
		a, cut := s.server(fails)
		way = cut
		way.noListen.Store(true)
		r.work(a)
		task := r.start(a, call(a, "steps", ""))
		r.until(b, task.ID, tasks.Completed)
		time.Sleep(2 * time.Minute)
		assert.EqualValues(t, 1, undone.Load())
	})
}
