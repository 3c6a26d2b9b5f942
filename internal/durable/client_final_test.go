package durable_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/saga"
)

// A first call without a key does something, and then the store cannot be used. The same call would be
// another saga, so it may be asked for again only if what was done is undone.
func TestTheStoreFailsAfterWhatIsFinal(t *testing.T) {
	for _, irreversible := range []bool{true, false} {
		t.Run(fmt.Sprint("irreversible ", irreversible), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newOutside()
				var fails atomic.Bool
				pay := w.effect("pay")
				pay.Irreversible = irreversible
				pay.Do = func(context.Context, saga.Key, string) (string, error) { fails.Store(true); return "paid", nil }
				if irreversible {
					pay.Undo = nil
				}
				s := newFleet(t, saga.Flow[tripArgs, string]{
					Info: saga.Info{Name: "trip", Effects: []saga.Declared{pay}},
					Run:  func(r *saga.Run, in tripArgs) (string, error) { return saga.Do(r, pay, in.To) },
				})
				a := s.replica()
				a.line.on(func(int, string) error {
					if fails.Load() {
						return errors.New("connection refused")
					}
					return nil
				})
				_, err := a.call(`{"to":"Rome"}`)
				require.ErrorIs(t, err, turns.ErrLedger)
				var once *turns.Error
				require.ErrorAs(t, err, &once)
				assert.True(t, once.Once)
				var unsettled *engine.UnsettledError
				assert.Equal(t, irreversible, errors.As(err, &unsettled))
			})
		})
	}
}
