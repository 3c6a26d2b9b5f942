package durable_test

import (
	"context"
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
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// chain is a tool that performs effects one after the other in one turn, after a question or
// ("early") in the first turn, and asks. The first that fails ends it.
func (w *outside) chain(names ...string) saga.Definition {
	var effects []*saga.Effect[string, string]
	where := &steps.Form[tripForm]{ID: "where", Message: "There?"}
	pay := &steps.Form[tripForm]{ID: "pay", Message: "Pay?"}
	info := saga.Info{Name: "trip", Asks: []steps.Question{where, pay}}
	for _, name := range names {
		effects = append(effects, w.effect(name))
		info.Effects = append(info.Effects, effects[len(effects)-1])
	}
	return saga.Flow[tripArgs, string]{Info: info, Run: func(r *saga.Run, in tripArgs) (string, error) {
		if !in.Early {
			if _, err := saga.Ask(r, where); err != nil {
				return "", err
			}
		}
		for _, e := range effects {
			if err := r.Err(); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, e, in.To); err != nil {
				var failed *saga.EffectError
				if errors.As(err, &failed) && !failed.Unknown {
					return "", saga.Failf("%s: %v", e.Name, failed.Err)
				}
				return "", err
			}
		}
		_, err := saga.Ask(r, pay)
		return "done", err
	}}
}

// dies has a process die when it has performed an effect.
func (w *outside) dies(r *replica, effect string) {
	w.at = func(ctx context.Context, name string, after bool) error {
		if after && name == effect && ctx.Value(lineKey{}) == r.line {
			r.line.die()
		}
		return nil
	}
}

// lose has a process take a turn and die when it has performed the first effect, so that nobody
// hears of it.
func (w *outside) lose(t *testing.T, r *replica, token string, answers ...steps.Answer) {
	t.Helper()
	w.at = func(_ context.Context, _ string, after bool) error {
		if after {
			r.line.die()
		}
		return nil
	}
	_, err := r.resume(token, answers...)
	require.Error(t, err)
	w.at = nil
}

// answers has an effect fail in all processes, before it is performed.
func (w *outside) answers(effect string, err error) {
	w.at = func(_ context.Context, name string, after bool) error {
		if !after && name == effect {
			return err
		}
		return nil
	}
}

var errTimeout = errors.New("no answer")

// What a turn did that was lost is not left behind because one of its effects has an unknown
// outcome when it is performed again: only who gets through the turn knows of what came after.
func TestUnknownOutcomeInATurnThatWasLost(t *testing.T) {
	const keyed = "k"
	begin := map[string]struct {
		args, key string
		again     func(r *replica, token string) (turns.End, error)
	}{
		"resumed": {`{"to":"Rome"}`, "", func(r *replica, token string) (turns.End, error) { return r.resume(token, say("where", true)) }},
		"called again": {`{"to":"Rome","early":true}`, keyed, func(r *replica, _ string) (turns.End, error) {
			return r.call(`{"to":"Rome","early":true}`, func(q *turns.Request) { q.IdempotencyKey = keyed })
		}},
		"cancelled":    {`{"to":"Rome"}`, "", func(r *replica, token string) (turns.End, error) { return r.cancel(token) }},
		"abandoned":    {`{"to":"Rome"}`, "", nil},
		"a first turn": {`{"to":"Rome","early":true}`, "", nil},
	}
	for name, tt := range begin {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newOutside()
				s := newFleet(t, w.chain("one", "two"))
				a, b := s.replica(), s.replica()
				first := a.begin(t, `{"to":"Rome"}`)
				w.dies(a, "two")
				var err error
				if tt.args == `{"to":"Rome"}` {
					_, err = a.resume(first.Token, say("where", true))
				} else {
					_, err = a.call(tt.args, func(q *turns.Request) { q.IdempotencyKey = tt.key })
				}
				require.Error(t, err)
				require.Len(t, w.things(), 2)
				w.answers("one", errTimeout)
				if tt.again == nil {
					b.work(t)
					time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Minute)
					assert.Len(t, w.things(), 2)
					assert.NotContains(t, w.calls, "undo one")
					assert.Equal(t, durable.Failing, b.onlyWaiting(t).State)
					w.mu.Lock()
					w.at = nil
					w.mu.Unlock()
					time.Sleep(time.Hour)
					assert.Empty(t, w.things(), s.logged())
					return
				}
				for range 2 {
					_, err = tt.again(b, first.Token)
					require.ErrorAs(t, err, new(*engine.UnsettledError))
					assert.NotContains(t, w.calls, "undo one")
				}
				w.at = nil
				end, err := tt.again(b, first.Token)
				require.NoError(t, err)
				if name == "cancelled" {
					assert.Equal(t, []string{"two", "one"}, turns.UndoReport(end.Result).Undone)
					assert.Empty(t, w.things())
				} else {
					assert.NotEmpty(t, end.Token)
					assert.Len(t, w.things(), 2)
				}
			})
		})
	}
}

// An unknown outcome in a turn that was not lost ends it, as ever: there is nothing after it.
func TestUnknownOutcomeInATurnThatWasNotLost(t *testing.T) {
	w := newOutside()
	s := newFleet(t, w.chain("one", "two"))
	a := s.replica()
	first := a.begin(t, `{"to":"Rome"}`)
	w.answers("two", errTimeout)
	end, err := a.resume(first.Token, say("where", true))
	require.NoError(t, err)
	assert.Equal(t, []string{"two", "one"}, turns.UndoReport(end.Result).Undone)
}

// An effect that is refused when a turn is repeated that was lost may have been performed when it
// was taken first, so its Undo is asked.
func TestRefusedInATurnThatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		s := newFleet(t, w.chain("one", "two"))
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		w.dies(a, "two")
		_, err := a.resume(first.Token, say("where", true))
		require.Error(t, err)
		w.answers("two", saga.Refused(errors.New("not permitted any more")))
		end, err := b.resume(first.Token, say("where", true))
		require.NoError(t, err)
		assert.Equal(t, "two: not permitted any more\nUndone: two, one.", end.Result.Content.Text())
		assert.Empty(t, w.things())
	})
}

// A worker that stops does not undo half of what a lost turn did.
func TestWorkerThatStopsInATurnThatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		s := newFleet(t, w.chain("one", "two"))
		a, b := s.replica(), s.replica()
		w.dies(a, "two")
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.Error(t, err)
		begun := make(chan struct{})
		w.at = func(ctx context.Context, name string, after bool) error {
			if name == "one" && after {
				close(begun)
				<-ctx.Done()
			}
			return nil
		}
		stop := b.work(t)
		<-begun
		stop()
		assert.Len(t, w.things(), 2)
		w.at = nil
		s.replica().work(t)
		time.Sleep(time.Minute)
		assert.Empty(t, w.things())
	})
}

// A worker whose clock stood still, with all that it does, begins no undo when somebody has taken
// its turn.
func TestPausedWorkersUndoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		s := newFleet(t, w.chain("one", "two"))
		var stands atomic.Pointer[time.Time]
		a := s.replica(func(c *clientConfig) {
			c.Now = func() time.Time {
				if stood := stands.Load(); stood != nil {
					return *stood
				}
				return time.Now()
			}
		})
		b := s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		paused := make(chan struct{})
		w.at = func(ctx context.Context, name string, after bool) error {
			if name == "two" && !after && ctx.Value(lineKey{}) == a.line {
				<-paused
				return saga.Refused(errors.New("sold out"))
			}
			return nil
		}
		a.line.on(func(_ int, op string) error {
			if (op == "Write" || op == "Renew") && len(w.things()) > 0 {
				return errRefused // its heart does not beat
			}
			return nil
		})
		var late turns.End
		var failed error
		var done sync.WaitGroup
		done.Go(func() { late, failed = a.resume(first.Token, say("where", true)) })
		synctest.Wait()
		stood := time.Now()
		stands.Store(&stood)
		end, err := b.resume(first.Token, say("where", true))
		require.NoError(t, err)
		require.NotEmpty(t, end.Token)
		a.line.on(nil)
		close(paused)
		done.Wait()
		require.NoError(t, failed, "it tells what the other has recorded")
		assert.Equal(t, told(t, end), told(t, late))
		assert.Len(t, w.things(), 2)
		assert.NotContains(t, w.calls, "undo one")
	})
}

// cutUndo has a process die when it has undone an effect.
func (w *outside) cutUndo(r *replica, tool saga.Definition, effect string) saga.Definition {
	flow := tool.(saga.Flow[tripArgs, string])
	for _, declared := range flow.Effects {
		e := declared.(*saga.Effect[string, string])
		if undo := e.Undo; e.Name == effect {
			e.Undo = func(ctx context.Context, x saga.Performed[string, string]) error {
				err := undo(ctx, x)
				if ctx.Value(lineKey{}) == r.line {
					r.line.die()
				}
				return err
			}
		}
	}
	return flow
}

// dyingInUndo are servers of a tool whose third effect panics. One of them dies when it has undone the
// second.
func dyingInUndo(t *testing.T) (w *outside, s *fleet, dying *replica) {
	w, dying = newOutside(), new(replica)
	s = newFleet(t, w.cutUndo(dying, w.chain("one", "two", "three"), "two"))
	*dying = *s.replica()
	w.at = func(_ context.Context, name string, _ bool) error {
		if name == "three" {
			panic("oops")
		}
		return nil
	}
	return w, s, dying
}
