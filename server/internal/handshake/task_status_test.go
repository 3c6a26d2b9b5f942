package handshake

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
)

// interrupted is a store in which something happens once, after a record was looked for.
type interrupted struct {
	ledger.Store
	then func()
}

func (s *interrupted) Load(ctx context.Context, id store.ID) (*store.Record, error) {
	r, err := s.Store.Load(ctx, id)
	if f := s.then; f != nil {
		s.then = nil
		f()
	}
	return r, err
}

// beginner is a call of a session that begins tasks at a replica with this store.
func beginner(t *testing.T, keys *codec.Keyset, store ledger.Store, a *agreed) *call {
	t.Helper()
	d := replica(t, keys)
	c, err := tokens.New(keys, tokens.Options{})
	require.NoError(t, err)
	registry, err := engine.NewRegistry()
	require.NoError(t, err)
	d.Turns = turns.New(turns.Config{Registry: registry, Codec: c, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	d.Core, err = durable.New(durable.Config{Turns: d.Turns, Store: store})
	require.NoError(t, err)
	x := &dialect.Exchange{}
	s, rerr := d.enter(a, x)
	require.Nil(t, rerr)
	return d.newCall(x, s.peer, &way{session: s}, nil)
}

// Of tasks that a session begins at several replicas at once none is forgotten.
func TestTasksBegunAtOnceAreAllTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := newKeyset(t)
		store := ledger.NewMemory(ledger.MemoryOptions{})
		t.Cleanup(func() { assert.NoError(t, store.Close()) })
		a := begin(t, replica(t, keys), "", "2025-11-25", `{}`)
		slow := &interrupted{Store: store}
		one, other := beginner(t, keys, slow, a), beginner(t, keys, store, a)
		for _, ids := range [][2]string{{"a", "b"}, {"c", "d"}} { // there is no list yet, and there is one
			slow.then = func() { other.begun(t.Context(), ids[1]) }
			one.begun(t.Context(), ids[0])
			one.begun(t.Context(), ids[0]) // it is known
		}
		list, err := durable.ReadDocument[[]string](t.Context(), one.Core, one.begunName(a))
		require.NoError(t, err)
		assert.Equal(t, []string{"b", "a", "d", "c"}, list.Value)
	})
}
