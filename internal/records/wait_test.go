package records

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// unwatchable is a store that cannot be watched.
type unwatchable struct{ ledger.Store }

func (unwatchable) Watch(context.Context, string, uint64) iter.Seq2[*ledger.Record, error] {
	return func(yield func(*ledger.Record, error) bool) { yield(nil, errors.New("no route to the store")) }
}

// Who waits until a claim is over waits for that also while the store is away, and the store does not
// count as failing because nothing has happened by then.
func TestWaitUntilATime(t *testing.T) {
	for name, away := range map[string]bool{"it works": false, "it is away": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keys, err := codec.NewKeyset()
				require.NoError(t, err)
				store := ledger.NewMemory(ledger.MemoryOptions{})
				defer store.Close()
				if away {
					store = unwatchable{store}
				}
				b := New(store, func() *codec.Keyset { return keys }, "here", 0)
				ctx, cancel := context.WithTimeout(Patient(t.Context()), 3*time.Second)
				defer cancel()
				began := time.Now()
				_, err = b.Wait(ctx, b.Fresh("p", tokens.ID{1}))
				require.ErrorIs(t, err, context.DeadlineExceeded)
				assert.Equal(t, 3*time.Second, time.Since(began))
				assert.Equal(t, away, b.reads.failures > 0)
			})
		})
	}
}
