package durable_test

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type napArgs struct {
	First  time.Duration `json:"first"`
	Second time.Duration `json:"second"`
}

// sleeper yields, sleeps, asks, sleeps again and yields; with effects so that a ledger
// remembers its turns.
func napper(w *outside) saga.Definition {
	note := &saga.Effect[string, string]{Name: "note", Do: func(_ context.Context, key saga.Key, in string) (string, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done[key] = in
		return in, nil
	}, Undo: func(_ context.Context, p saga.Performed[string, string]) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.done, p.Key)
		return nil
	}}
	return saga.Flow[napArgs, string]{
		Info: saga.Info{Name: "sleeper", Asks: []steps.Question{sureAsk}, Effects: []saga.Declared{note}, Yields: true},
		Run: func(r *saga.Run, in napArgs) (string, error) {
			if err := r.Yield(content.Textf("one")); err != nil {
				return "", err
			}
			if _, err := saga.Do(r, note, "slept"); err != nil {
				return "", err
			}
			if err := r.Sleep(in.First); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, sureAsk); err != nil {
				return "", err
			}
			if err := r.Sleep(in.Second); err != nil {
				return "", err
			}
			if err := r.Yield(content.Textf("two")); err != nil {
				return "", err
			}
			return "three", nil
		},
	}
}

func eachRunner(t *testing.T, run func(t *testing.T, r *replica, q turns.Request, w *outside)) {
	for _, policy := range []turns.Policy{turns.Carried, turns.Resent} {
		for name, with := range map[string]func(*clientConfig){"": func(c *clientConfig) { c.forgets = true }, " remembered": func(*clientConfig) {}} {
			t.Run(policy.Purpose+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newOutside()
					r := newFleet(t, napper(w)).replica(with)
					q := turns.Request{Policy: policy, Principal: "ann", Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindTool, "sleeper")}
					run(t, r, q, w)
				})
			})
		}
	}
}

func sleeping(q turns.Request, first, second time.Duration) turns.Request {
	q.Arguments, _ = json.Marshal(napArgs{first, second})
	return q
}

// What fits into the turn is waited for, and nothing that was yielded is lost.
func TestShortSleeps(t *testing.T) {
	eachRunner(t, func(t *testing.T, r *replica, q turns.Request, w *outside) {
		q = sleeping(q, 44*time.Second, 45*time.Second)
		began := time.Now()
		end, err := r.Call(t.Context(), q)
		require.NoError(t, err)
		require.Len(t, end.Steps, 1)
		assert.Empty(t, end.Yielded)
		assert.Zero(t, end.Wake)
		assert.Equal(t, 44*time.Second, time.Since(began))
		q.Token, q.Answers = end.Token, sure(true)
		end, err = r.Resume(t.Context(), q)
		require.NoError(t, err)
		assert.Equal(t, "one\ntwo\nthree", end.Result.Content.Text())
		assert.Equal(t, 89*time.Second, time.Since(began))
		assert.Len(t, w.done, 1)
	})
}

// A longer one is a pause. Whoever comes too early gets the same one, or waits; the token is
// good for as long as ever from then on.
func TestLongSleeps(t *testing.T) {
	eachRunner(t, func(t *testing.T, r *replica, q turns.Request, w *outside) {
		q = sleeping(q, 46*time.Second, 48*time.Hour)
		began := time.Now()
		end, err := r.Call(t.Context(), q)
		require.NoError(t, err)
		assert.Zero(t, time.Since(began))
		assert.Empty(t, end.Steps)
		wake := began.Add(46 * time.Second)
		require.WithinDuration(t, wake, end.Wake, 0)
		q.Token = end.Token
		early, err := r.Resume(t.Context(), q)
		require.NoError(t, err)
		assert.Equal(t, q.Token, early.Token)
		require.WithinDuration(t, wake, early.Wake, 0)
		time.Sleep(10 * time.Second)

		gone, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = r.Resume(gone, q)
		require.ErrorIs(t, err, context.Canceled)

		end, err = r.Resume(t.Context(), q)
		require.NoError(t, err)
		assert.Equal(t, 46*time.Second, time.Since(began))
		require.Len(t, end.Steps, 1)
		q.Token, q.Answers = end.Token, sure(true)
		end, err = r.Resume(t.Context(), q)
		require.NoError(t, err)
		assert.Empty(t, end.Steps)
		if r.core != nil {
			again, err := r.Resume(t.Context(), q)
			require.NoError(t, err)
			assert.Equal(t, end.Token, again.Token)
			assert.WithinDuration(t, end.Wake, again.Wake, 0, "it is recorded")
		}
		time.Sleep(time.Until(end.Wake) + r.Codec.Options().TTL - time.Second)
		q.Token, q.Answers = end.Token, nil
		end, err = r.Resume(t.Context(), q)
		require.NoError(t, err)
		assert.Equal(t, "one\ntwo\nthree", end.Result.Content.Text())
		assert.Len(t, w.done, 1)
	})
}

// Dialects that can tell parts get them one by one.
func TestYieldsOneByOne(t *testing.T) {
	eachRunner(t, func(t *testing.T, r *replica, q turns.Request, w *outside) {
		q = sleeping(q, 0, 0)
		q.Parts = true
		var told []string
		end, err := r.Call(t.Context(), q)
		for ; err == nil && end.Token != ""; end, err = r.Resume(t.Context(), q) {
			told = append(told, end.Yielded.Text())
			if (r.core != nil) && q.Token != "" && end.Yielded != nil {
				again, err := r.Resume(t.Context(), q)
				require.NoError(t, err)
				assert.Equal(t, end.Yielded, again.Yielded, "it is recorded")
			}
			q.Asks = cmp.Or(q.Asks, q.Policy)
			q.Token, q.Policy, q.Answers = end.Token, end.Policy, nil
			if len(end.Steps) > 0 {
				q.Answers = sure(true)
			}
		}
		require.NoError(t, err)
		assert.Equal(t, []string{"one", "", "two"}, told)
		assert.Equal(t, "three", end.Result.Content.Text())
	})
}

// Who cannot be told to come back waits, but not for ever.
func TestSleepsOfHeldSagas(t *testing.T) {
	client := asked(func(_ context.Context, list []steps.Step) ([]steps.Answer, error) {
		return sure(true), nil
	})
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		r := newFleet(t, napper(w)).replica()
		q := turns.Request{Policy: turns.Held, Principal: "ann", Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindTool, "sleeper")}
		began := time.Now()
		out, err := r.Drive(r.context(), sleeping(q, 9*time.Minute, time.Second), client)
		require.NoError(t, err)
		assert.Equal(t, "one\ntwo\nthree", out.Result.Content.Text())
		assert.Equal(t, 9*time.Minute+time.Second, time.Since(began))

		clear(w.done)
		_, err = r.Drive(r.context(), sleeping(q, 9*time.Minute+time.Second, 0), client)
		require.ErrorContains(t, err, "which is longer than a request can wait")
		assert.Empty(t, w.done, "it is undone")

		ctx, cancel := context.WithTimeout(r.context(), time.Minute)
		defer cancel()
		_, err = r.Drive(ctx, sleeping(q, 9*time.Minute, 0), client)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Empty(t, w.done)
	})
}

// A tool that sleeps or yields more often than a request goes on by itself is a pause in
// between, and one that yields when its time is nearly over.
func TestManyYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := time.Duration(0)
		many := saga.Machine[struct{}, int]{
			Info:  saga.Info{Name: "many", Yields: true},
			Start: func(t *saga.Turn[struct{}, int]) (saga.Next, error) { return t.Goto("on") },
			Steps: saga.Steps[struct{}, int]{"on": func(t *saga.Turn[struct{}, int]) (saga.Next, error) {
				if t.State++; t.State == 250 {
					return t.Textf("end")
				}
				time.Sleep(step)
				return t.Yield("on", content.Textf("."))
			}},
		}
		r := newFleet(t, many).replica()
		for _, step = range []time.Duration{0, time.Second} {
			q := turns.Request{Policy: turns.Carried, Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindTool, "many")}
			requests := 1
			end, err := r.Call(t.Context(), q)
			for ; err == nil && end.Token != ""; end, err = r.Resume(t.Context(), q) {
				assert.Empty(t, end.Steps)
				q.Token = end.Token
				requests++
			}
			require.NoError(t, err)
			assert.Equal(t, strings.Repeat(".\n", 249)+"end", end.Result.Content.Text())
			assert.Equal(t, map[time.Duration]int{0: 3, time.Second: 6}[step], requests)
		}
	})
}

// A clock that stands still, as those of tests do, is not waited for.
func TestSleepsByAClockThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		r := newFleet(t, napper(newOutside())).replica(func(c *clientConfig) { c.Now = func() time.Time { return now } })
		q := turns.Request{Policy: turns.Carried, Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindTool, "sleeper")}
		end, err := r.Call(t.Context(), sleeping(q, time.Second, 0))
		require.NoError(t, err)
		require.Len(t, end.Steps, 1)
		assert.Equal(t, time.Second, time.Since(now))
	})
}
