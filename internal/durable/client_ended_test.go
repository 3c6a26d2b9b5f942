package durable_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// errNo is a refusal that is no accident.
var errNo = errors.New("no")

// ordered is a tool, as a flow and as a machine, that asks and then performs effects in an order: "mail" has nothing to
// undo, "pay" is irreversible as well, and "capture" is irreversible and has an Undo.
func (w *outside) ordered(machine bool, revision uint32, names ...string) saga.Definition {
	where := &steps.Form[tripForm]{ID: "where", Message: "There?"}
	info := saga.Info{Name: "trip", Revision: revision, Asks: []steps.Question{where}}
	var effects []*saga.Effect[string, string]
	for _, name := range names {
		e := w.effect(name)
		e.Irreversible = name == "pay" || name == "capture"
		switch name {
		case "mail", "pay":
			e.Undo = nil
		case "capture":
			undo := e.Undo
			e.Undo = func(ctx context.Context, p saga.Performed[string, string]) error {
				w.mu.Lock()
				_, done := w.done[p.Key]
				w.mu.Unlock()
				if done {
					return saga.Final(errNo)
				}
				return undo(ctx, p)
			}
		}
		effects, info.Effects = append(effects, e), append(info.Effects, e)
	}
	all := func(t saga.Context, to string) error {
		for _, e := range effects {
			if _, err := saga.Do(t, e, to); err != nil {
				return err
			}
		}
		return nil
	}
	if !machine {
		return saga.Flow[tripArgs, string]{Info: info, Oldest: revision, Run: func(r *saga.Run, in tripArgs) (string, error) {
			if !in.Early {
				if _, err := saga.Ask(r, where); err != nil {
					return "", err
				}
			}
			return "done", all(r, in.To)
		}}
	}
	type turn = saga.Turn[tripArgs, struct{}]
	acts := func(t *turn) (saga.Next, error) {
		if err := all(t, t.Args.To); err != nil {
			return nil, err
		}
		return t.Textf("done")
	}
	return saga.Machine[tripArgs, struct{}]{
		Info: info,
		Start: func(t *turn) (saga.Next, error) {
			if t.Args.Early {
				return acts(t)
			}
			return t.Ask("act", where)
		},
		Steps: saga.Steps[tripArgs, struct{}]{"act": acts},
	}
}

// What a server has ended that lives, an undo does not carry on with: it undoes what the turn had begun, and begins nothing
// else. Only what is irreversible and may have been done, and has no Undo that could tell, is performed again; and what
// is final has the turn taken to its end.
func TestAnUndoBeginsNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		effects []string
		cut     string // the effect in which the client hangs up, which has arrived or not
		arrived bool
		refused string // an effect that is refused from then on
		want    []string
	}{
		"before anything":           {[]string{"hold", "book", "mail"}, "hold", false, "", []string{"undo hold"}},
		"in the middle":             {[]string{"hold", "book", "mail"}, "book", true, "", []string{"undo book", "undo hold"}},
		"nothing to undo":           {[]string{"hold", "mail", "book"}, "mail", true, "", []string{"undo hold"}},
		"before what is final":      {[]string{"hold", "capture", "mail"}, "hold", true, "", []string{"undo hold"}},
		"before what cannot tell":   {[]string{"hold", "pay", "mail"}, "hold", true, "", []string{"undo hold"}},
		"what can tell: not done":   {[]string{"hold", "capture", "mail"}, "capture", false, "", []string{"undo capture", "undo hold"}},
		"what can tell: done":       {[]string{"hold", "capture", "mail"}, "capture", true, "", []string{"hold", "capture", "mail"}},
		"what cannot tell: refused": {[]string{"hold", "pay", "mail"}, "pay", false, "pay", []string{"undo hold"}},
		"what cannot tell: done":    {[]string{"hold", "pay", "mail"}, "pay", true, "", []string{"pay", "hold", "pay", "mail"}},
		"behind what is final":      {[]string{"hold", "pay", "mail"}, "mail", false, "", []string{"hold", "pay", "mail"}},
	} {
		for _, machine := range []bool{false, true} {
			for _, way := range []string{"a first turn", "left alone", "by an operator", "cancelled", "cancelled with answers", "another revision"} {
				t.Run(fmt.Sprintf("%s, machine %v, %s", name, machine, way), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newOutside()
						s := newFleet(t, w.ordered(machine, 0, tt.effects...))
						a := s.replica()
						want := tt.want
						if way == "another revision" {
							s.tools = []saga.Definition{w.ordered(machine, 1, tt.effects...)}
							if len(want) > 2 { // it cannot be taken to its end
								want = want[:len(want)-3]
							}
						}
						b := s.replica()
						hears := func(name string, arrived bool) context.Context {
							ctx, cancel := context.WithCancel(a.context())
							w.at = func(_ context.Context, effect string, after bool) error {
								if effect == name && after == arrived {
									cancel()
									return context.Canceled
								}
								return nil
							}
							return ctx
						}
						q := turns.Request{Policy: turns.Carried, Principal: "ann", Client: steps.AllFeatures()}
						take := a.Resume
						if way == "a first turn" {
							q.Program, q.Arguments, q.IdempotencyKey, take = a.Registry.Find(engine.KindTool, "trip"), []byte(`{"to":"Rome","early":true}`), "k", a.Call
						} else {
							q.Token, q.Answers = a.begin(t, `{"to":"Rome"}`).Token, []steps.Answer{say("where", true)}
						}
						_, err := take(hears(tt.cut, tt.arrived), q)
						require.ErrorIs(t, err, context.Canceled)
						began := len(w.calls)
						if tt.effects[0] != tt.cut { // it comes back, and does not come so far
							_, err = take(hears(tt.effects[0], false), q)
							require.ErrorIs(t, err, context.Canceled)
							require.Len(t, w.calls, began)
						}
						w.at = nil
						if tt.refused != "" {
							w.answers(tt.refused, saga.Refused(errNo))
						}
						switch way {
						case "cancelled":
							_, err = b.cancel(q.Token)
							require.NoError(t, err)
						case "cancelled with answers":
							_, err = b.cancel(q.Token, q.Answers...)
							require.NoError(t, err)
						case "by an operator":
							b.work(t)
							require.NoError(t, b.core.UndoNow(t.Context(), b.onlyWaiting(t).ID))
							time.Sleep(time.Second)
						default:
							b.work(t)
							time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Minute)
						}
						assert.Empty(t, b.waiting(t))
						w.mu.Lock()
						defer w.mu.Unlock()
						assert.Equal(t, want, w.calls[began:], s.logged())
					})
				})
			}
		}
	}
}

// Where a server has died in a turn, what came after is begun in order to be undone, as it may have been done; but not
// what is irreversible and has no Undo: the row would say that it was begun.
func TestAnUndoBeginsNothingIrreversible(t *testing.T) {
	for dies, want := range map[string][]string{"hold": {"hold", "undo hold"}, "pay": {"hold", "pay", "mail"}} {
		for _, machine := range []bool{false, true} {
			for _, way := range []string{"left alone", "cancelled", "cancelled with answers"} {
				t.Run(fmt.Sprintf("in %s, machine %v, %s", dies, machine, way), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newOutside()
						s := newFleet(t, w.ordered(machine, 0, "hold", "pay", "mail"))
						a, b := s.replica(), s.replica()
						token, answer := a.begin(t, `{"to":"Rome"}`).Token, say("where", true)
						w.dies(a, dies)
						_, err := a.resume(token, answer)
						require.Error(t, err)
						began := len(w.calls)
						time.Sleep(leaseTime + time.Second)
						switch way {
						case "cancelled":
							_, err = b.cancel(token)
						case "cancelled with answers":
							_, err = b.cancel(token, answer)
						default:
							b.work(t)
							time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew)
							err = nil
						}
						require.NoError(t, err)
						assert.Empty(t, b.waiting(t))
						w.mu.Lock()
						defer w.mu.Unlock()
						assert.Equal(t, want, w.calls[began:], s.logged())
					})
				})
			}
		}
	}
}

// So it is with a task, and with the first turn of a call.
func TestACancelledTaskBeginsNothingIrreversible(t *testing.T) {
	for _, delayed := range []time.Duration{0, delay} {
		for _, dies := range []string{"before", "within"} {
			t.Run(fmt.Sprintf("%s, call %v", dies, delayed > 0), func(t *testing.T) {
				inBubble(t, func(t *testing.T, r *rig) {
					things := &counter{holds: map[string]bool{}}
					hold, pay := things.effect("hold"), things.effect("pay")
					pay.Irreversible, pay.Undo = true, nil
					var way *narrow
					alive := make(chan none)
					die := func(where string) {
						if where == dies && !way.noTake.Load() {
							way.dies()
							<-alive
						}
					}
					act := pay.Do
					pay.Do = func(ctx context.Context, key saga.Key, in string) (string, error) {
						die("within")
						return act(ctx, key, in)
					}
					tool := single("pays", func(t *turn) (saga.Next, error) {
						if _, err := saga.Do(t, hold, "x"); err != nil {
							return nil, err
						}
						die("before")
						if _, err := saga.Do(t, pay, "x"); err != nil {
							return nil, err
						}
						return t.Textf("paid")
					}, hold, pay)
					a, narrow := r.narrowed(tool)
					way = narrow
					r.work(a)
					defer close(alive)
					s := call(a, "pays", "")
					s.Delay = delayed
					task := r.start(a, s)
					time.Sleep(time.Second)
					b := r.manager(nil, tool)
					r.work(b)
					_, err := b.Cancel(t.Context(), "p", task.ID)
					require.NoError(t, err)
					ends, want := tasks.Cancelled, []string{"hold", "undo hold"}
					if dies == "within" {
						ends, want = tasks.Completed, []string{"hold", "pay"}
					}
					r.until(b, task.ID, ends)
					things.mu.Lock()
					defer things.mu.Unlock()
					assert.Equal(t, want, things.calls[:2])
				})
			})
		}
	}
}
