package durable_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/saga"
)

// moved is a store that says with what it has listed that its file was replaced meanwhile, as that in SQLite does.
type moved struct{ store.Store }

var errReplaced = errors.New("its file was replaced")

func (m moved) List(ctx context.Context, f store.Filter, after store.Cursor, limit int) ([]*store.Record, error) {
	list, err := m.Store.List(ctx, f, after, limit)
	return list, errors.Join(err, errReplaced)
}

// What a store lists before it fails is not listed after its error.
func TestListsEndWithAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		server := r.manager(nil, single("work", func(t *turn) (saga.Next, error) { return t.Textf("done") }))
		_, err := server.Start(t.Context(), call(server, "work", ""))
		require.NoError(t, err)
		o := durable.NewOperator(moved{r.store}, func() *codec.Keyset { return r.keys }, "test")
		n := 0
		for _, err := range o.All(t.Context()) {
			n++
			assert.ErrorIs(t, err, errReplaced)
		}
		assert.Equal(t, 1, n)
	})
}
