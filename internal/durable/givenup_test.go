package durable_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// poison has effects that take down the server that performs them, once they are performed.
type poison struct {
	mu     sync.Mutex
	held   map[saga.Key]string
	undone []string
	known  bool // an Undo has heard that its effect was performed
	takes  func()
	log    bytes.Buffer
}

// Write is for the servers' logs.
func (p *poison) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(line)
}

// look lets f read what there is.
func (p *poison) look(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *poison) effect(name string, final, takes bool) *saga.Effect[none, none] {
	e := &saga.Effect[none, none]{Name: name, Irreversible: final, Do: func(_ context.Context, key saga.Key, _ none) (none, error) {
		p.mu.Lock()
		p.held[key] = name
		down := p.takes
		p.mu.Unlock()
		if takes {
			if down != nil {
				down()
			}
			time.Sleep(longerThanAWorkerLives)
		}
		return none{}, nil
	}}
	if !final {
		e.Undo = func(_ context.Context, done saga.Performed[none, none]) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.undone, p.known = append(p.undone, name), p.known || takes && done.Known
			delete(p.held, done.Key)
			return nil
		}
	}
	return e
}

// tool performs effects that do nothing bad, and then one that does.
func (p *poison) tool(effects ...*saga.Effect[none, none]) saga.Definition {
	info := saga.Info{Name: "bad", Tasks: optional, Asks: []steps.Question{nameForm}}
	for _, e := range effects {
		info.Effects = append(info.Effects, e)
	}
	return saga.Flow[none, string]{Info: info, Run: func(r *saga.Run, _ none) (string, error) {
		if _, err := saga.Ask(r, nameForm); err != nil {
			return "", err
		}
		for _, e := range effects {
			if _, err := saga.Do(r, e, none{}); err != nil {
				return "", err
			}
		}
		_, err := saga.Ask(r, nameForm)
		return "done", err
	}}
}

// brings down servers that live for a quarter of a minute each, one after the other. The first has begun the task and answered.
func (r *rig) bringsDown(t *testing.T, log io.Writer, servers int, tool saga.Definition) (id string) {
	for n := range servers {
		l := newLink(r.store, newRand(), -1, 0)
		runner := r.runner(tool)
		runner.Log = slog.New(slog.NewTextHandler(log, nil))
		m, err := durable.New(durable.Config{Turns: runner, Store: l, Attempts: 3})
		require.NoError(t, err)
		r.work(m)
		if n == 0 {
			task := r.until(m, r.start(m, call(m, "bad", "")).ID, tasks.InputRequired)
			id = task.ID
			_, err = m.Answer(t.Context(), "p", id, []steps.Answer{accept(task.Questions[0].ID, `{"name":"Ada"}`)})
			require.NoError(t, err)
		}
		time.Sleep(15 * time.Second)
		l.cut()
	}
	return id
}

// An effect that takes down each server that performs it is undone with the others, though none has recorded it.
func TestAnEffectThatBreaksWorkersIsUndone(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := &poison{held: make(map[saga.Key]string)}
		tool := p.tool(p.effect("hold", false, false), p.effect("breaks", false, true))
		id := r.bringsDown(t, p, 4, tool)
		task, err := r.manager(nil, tool).Get(t.Context(), "p", id)
		require.NoError(t, err)
		require.ErrorContains(t, task.Err, "given up")
		p.look(func() {
			assert.Equal(t, []string{"breaks", "hold"}, p.undone)
			assert.Empty(t, p.held)
			assert.False(t, p.known)
			assert.NotContains(t, p.log.String(), "is not known")
		})
		time.Sleep(2 * longerThanAWorkerLives)
	})
}

// One that is final keeps the saga from being undone, and operators see it.
func TestAFinalEffectThatBreaksWorkersIsForOperators(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := &poison{held: make(map[saga.Key]string)}
		tool := p.tool(p.effect("hold", false, false), p.effect("breaks", true, true))
		r.bringsDown(t, p, 4, tool)
		var list []durable.Waiting
		for w, err := range r.manager(nil, tool).Waiting(t.Context()) {
			require.NoError(t, err)
			list = append(list, w)
		}
		require.Len(t, list, 1)
		assert.Equal(t, durable.Failing, list[0].State)
		assert.Contains(t, list[0].LastError, "breaks")
		p.look(func() { assert.Empty(t, p.undone) })
		time.Sleep(2 * longerThanAWorkerLives)
	})
}

// If no server lives to say what was begun, the result and the log say that this is not known.
func TestATaskThatBreaksWorkersBeforeTheySayWhatItDid(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := &poison{held: make(map[saga.Key]string)}
		hold := p.effect("hold", false, false)
		tool := saga.Machine[none, none]{
			Info:  saga.Info{Name: "bad", Tasks: optional, Asks: []steps.Question{nameForm}, Effects: []saga.Declared{hold}},
			Start: func(t *turn) (saga.Next, error) { return t.Ask("end", nameForm) },
			Steps: saga.Steps[none, none]{"end": func(t *turn) (saga.Next, error) {
				time.Sleep(longerThanAWorkerLives)
				return t.Textf("done")
			}},
		}
		id := r.bringsDown(t, p, 4, tool)
		task, err := r.manager(nil, tool).Get(t.Context(), "p", id)
		require.NoError(t, err)
		assert.ErrorContains(t, task.Err, "What it did last is not known")
		p.look(func() { assert.Contains(t, p.log.String(), `level=ERROR msg="what a saga did last is not known`) })
		time.Sleep(2 * longerThanAWorkerLives)
	})
}

// So it is with a turn that its client has asked for again and again, and then no more.
func TestATurnThatBreaksServersIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &poison{held: make(map[saga.Key]string)}
		tool := p.tool(p.effect("hold", false, false), p.effect("breaks", false, true)).(saga.Flow[none, string])
		tool.Name = "trip"
		s := newFleet(t, tool)
		end := s.replica().begin(t, "{}")
		for range 7 {
			a := s.replica()
			p.look(func() { p.takes = a.line.die })
			_, err := a.resume(end.Token, accept(end.Steps[0].ID, `{"name":"Ada"}`))
			require.Error(t, err)
			time.Sleep(2 * leaseTime)
		}
		p.look(func() { require.Len(t, p.held, 2) })
		s.replica().work(t)
		time.Sleep(tokens.DefaultTTL + time.Hour)
		p.look(func() {
			assert.Empty(t, p.held)
			assert.Equal(t, []string{"breaks", "hold"}, p.undone)
		})
	})
}

// That a server which has no slot for a task puts it back does not count as if it had gone on with it.
func TestATaskThatBreaksWorkersAmongBusyOnes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		p := &poison{held: make(map[saga.Key]string)}
		tool := p.tool(p.effect("breaks", false, true))
		long := single("long", func(t *turn) (saga.Next, error) {
			<-t.Done()
			return nil, context.Cause(t)
		})
		busy := r.manager(func(c *durable.Config) { c.Workers, c.PerPrincipal, c.Attempts = 2, 1, 3 }, tool, long)
		r.work(busy)
		for range 2 {
			r.start(busy, call(busy, "long", ""))
			time.Sleep(time.Second)
		}
		id := r.bringsDown(t, p, 5, tool)
		task, err := busy.Get(t.Context(), "p", id)
		require.NoError(t, err)
		assert.ErrorContains(t, task.Err, "given up")
		time.Sleep(2 * longerThanAWorkerLives)
	})
}
