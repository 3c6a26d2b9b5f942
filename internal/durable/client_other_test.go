package durable_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What a lost turn did is found as the client of that turn had it, not the first.
func TestALostTurnOfAnotherClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		held := make(map[saga.Key]bool)
		var dies func()
		hold := &saga.Effect[none, none]{Name: "hold", Do: func(_ context.Context, key saga.Key, _ none) (none, error) {
			mu.Lock()
			held[key] = true
			die := dies
			dies = nil
			mu.Unlock()
			if die != nil {
				die()
				time.Sleep(time.Hour)
			}
			return none{}, nil
		}, Undo: func(_ context.Context, p saga.Performed[none, none]) error {
			mu.Lock()
			defer mu.Unlock()
			delete(held, p.Key)
			return nil
		}}
		s := newFleet(t, saga.Machine[none, none]{
			Info: saga.Info{Name: "trip", Asks: []steps.Question{nameForm}, Effects: []saga.Declared{hold}},
			Start: func(t *turn) (saga.Next, error) {
				if _, err := saga.Do(t, hold, none{}); err != nil {
					return nil, err
				}
				return t.Ask("asked", nameForm)
			},
			Steps: saga.Steps[none, none]{"asked": func(t *turn) (saga.Next, error) {
				if t.Can(steps.Features{Sampling: true}) {
					if _, err := saga.Do(t, hold, none{}); err != nil {
						return nil, err
					}
				}
				return t.Ask("asked", nameForm)
			}},
		})
		dying := s.replica()
		end := dying.begin(t, "{}", func(q *turns.Request) { q.Client = steps.Features{Forms: true} })
		mu.Lock()
		dies = dying.line.die
		mu.Unlock()
		_, err := dying.resume(end.Token, accept(end.Steps[0].ID, `{"name":"Ada"}`))
		require.Error(t, err)
		mu.Lock()
		require.Len(t, held, 2)
		mu.Unlock()
		s.replica().work(t)
		time.Sleep(48 * time.Hour)
		mu.Lock()
		defer mu.Unlock()
		assert.Empty(t, held)
	})
}
