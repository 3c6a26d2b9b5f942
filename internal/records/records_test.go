package records

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// faulty is a store that answers swaps as it is told.
type faulty struct {
	ledger.Store
	swap func(ctx context.Context, r *ledger.Record) error
	n    int
}

func (f *faulty) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	f.n++
	if f.swap != nil {
		return f.swap(ctx, r)
	}
	return f.Store.Swap(ctx, r, items...)
}

func newBook(t *testing.T) (*Book, *faulty, *codec.Keyset) {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	f := &faulty{Store: store}
	return New(f, func() *codec.Keyset { return keys }, "here", 0), f, keys
}

// What a swap of unknown outcome has done is found out, however late it arrives.
func TestUnknownOutcomesAreSettled(t *testing.T) {
	ctx := t.Context()
	for name, test := range map[string]struct {
		// swap is how the store behaves, n counting the swaps; held is what has not arrived.
		swap func(s ledger.Store, n int, r *ledger.Record, held *ledger.Record) error
		err  error
		rev  uint64
	}{
		"done": {swap: func(s ledger.Store, n int, r, _ *ledger.Record) error {
			sent := *r
			require.NoError(t, s.Swap(ctx, &sent))
			return ledger.ErrUnknown
		}, rev: 1},
		"not done": {swap: func(s ledger.Store, n int, r, _ *ledger.Record) error {
			if n == 1 {
				return ledger.ErrUnknown
			}
			return s.Swap(ctx, r)
		}, rev: 1},
		"done after it was sent again": {swap: func(s ledger.Store, n int, r, held *ledger.Record) error {
			if n == 1 {
				*held = *r
				return ledger.ErrUnknown
			}
			require.NoError(t, s.Swap(ctx, held)) // the first arrives before the second
			return s.Swap(ctx, r)
		}, rev: 1},
		"done and taken": {swap: func(s ledger.Store, n int, r, _ *ledger.Record) error {
			sent := *r
			require.NoError(t, s.Swap(ctx, &sent))
			require.NoError(t, s.Swap(ctx, &sent)) // as by a worker: its body is the same
			return ledger.ErrUnknown
		}, rev: 2},
		"somebody else": {swap: func(s ledger.Store, n int, r, _ *ledger.Record) error {
			sent := *r
			sent.Body = []byte("another")
			_ = s.Swap(ctx, &sent)
			return ledger.ErrUnknown
		}, err: ErrConflict},
		"never": {swap: func(ledger.Store, int, *ledger.Record, *ledger.Record) error { return ledger.ErrUnknown }, err: ErrUnavailable},
		"down":  {swap: func(ledger.Store, int, *ledger.Record, *ledger.Record) error { return errors.New("no route") }, err: ErrUnavailable},
		"large": {swap: func(ledger.Store, int, *ledger.Record, *ledger.Record) error { return ledger.ErrTooLarge }, err: ledger.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			b, f, _ := newBook(t)
			held := new(ledger.Record)
			f.swap = func(_ context.Context, r *ledger.Record) error { return test.swap(f.Store, f.n, r, held) }
			e := b.Fresh("ann", [16]byte{1})
			e.Effects = []string{"a"}
			err := b.Put(ctx, e)
			require.ErrorIs(t, err, test.err)
			assert.Equal(t, test.rev, e.rev)
			if err == nil {
				f.swap = nil
				found, err := b.Saga(ctx, "ann", [16]byte{1})
				require.NoError(t, err)
				assert.Equal(t, []string{"a"}, found.Effects)
				require.NoError(t, b.Put(ctx, e), "the revision is the right one")
			}
		})
	}
}

// A context that has ended is nobody's fault.
func TestEndedContexts(t *testing.T) {
	b, _, _ := newBook(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Saga(ctx, "ann", [16]byte{1})
	require.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, ErrUnavailable)
}

// Records are their principal's.
func TestRecordsArePrincipals(t *testing.T) {
	b, _, _ := newBook(t)
	e := b.Fresh("ann", [16]byte{1})
	require.NoError(t, b.Put(t.Context(), e))
	for principal, exists := range map[string]bool{"ann": true, "bob": false, "": false} {
		found, err := b.Saga(t.Context(), principal, [16]byte{1})
		require.NoError(t, err)
		assert.Equal(t, exists, found.Exists())
	}
	stale, err := b.Saga(t.Context(), "ann", [16]byte{1})
	require.NoError(t, err)
	require.NoError(t, b.Put(t.Context(), e))
	require.ErrorIs(t, b.Put(t.Context(), stale), ErrConflict)
}

// Sizes of bodies tell little.
func TestBodiesArePadded(t *testing.T) {
	b, _, _ := newBook(t)
	sizes := map[int]bool{}
	for n := range 100 {
		body, err := b.seal("key", blob{[]byte(strings.Repeat("x", 2000+n))})
		require.NoError(t, err)
		sizes[len(body)] = true
		var found blob
		require.NoError(t, b.open("key", body, &found))
		assert.Len(t, found.Data, 2000+n)
		assert.ErrorIs(t, b.open("other", body, &found), ErrUnavailable)
	}
	assert.LessOrEqual(t, len(sizes), 4)
}

// What is too large is refused before it is sent.
func TestRecordsThatAreTooLarge(t *testing.T) {
	b, f, _ := newBook(t)
	e := b.Fresh("ann", [16]byte{1})
	e.Response = make([]byte, ledger.MaxBody)
	require.ErrorIs(t, b.Put(t.Context(), e), ledger.ErrTooLarge)
	assert.Zero(t, f.n)
}

// Tools that any server has announced are known to all, also to one with a newer key.
func TestAnnounce(t *testing.T) {
	b, _, keys := newBook(t)
	require.NoError(t, b.Announce(t.Context(), []Target{{"a", 1}}))
	require.NoError(t, b.Announce(t.Context(), []Target{{"a", 1}, {"b", 2}}))
	next, id, err := keys.Add(codec.XAES256GCM)
	require.NoError(t, err)
	next, err = next.Promote(id)
	require.NoError(t, err)
	later := New(b.store, func() *codec.Keyset { return next }, "here", 0)
	require.NoError(t, later.Announce(t.Context(), []Target{{"c", 3}}))
	list, err := later.Targets(t.Context())
	require.NoError(t, err)
	assert.ElementsMatch(t, []Target{{"a", 1}, {"b", 2}, {"c", 3}}, list)
	other := New(b.store, func() *codec.Keyset { return next }, "there", 0)
	list, err = other.Targets(t.Context())
	require.NoError(t, err)
	assert.Empty(t, list)
}

// Replicas in the middle of a rotation find one another's calls.
func TestCallsDuringARotation(t *testing.T) {
	b, _, keys := newBook(t)
	c := Call{ID: []byte("1"), Digest: []byte("d"), Keep: time.Now().Add(time.Hour)}
	_, made, err := b.Call(t.Context(), "ann", "k", c)
	require.NoError(t, err)
	assert.True(t, made)
	old := keys.Primary().ID
	next, id, err := keys.Add(codec.XAES256GCM)
	require.NoError(t, err)
	promoted, err := next.Promote(id)
	require.NoError(t, err)
	disabled, err := promoted.Disable(old)
	require.NoError(t, err)
	for _, stage := range []*codec.Keyset{next, promoted} {
		replica := New(b.store, func() *codec.Keyset { return stage }, "here", 0)
		found, made, err := replica.Call(t.Context(), "ann", "k", Call{ID: []byte("2")})
		require.NoError(t, err)
		assert.False(t, made)
		assert.Equal(t, "1", string(found.ID))
	}
	// One that has the old key disabled makes names with the new one, which others look up.
	last := New(b.store, func() *codec.Keyset { return disabled }, "here", 0)
	_, made, err = last.Call(t.Context(), "ann", "l", Call{ID: []byte("3")})
	require.NoError(t, err)
	assert.True(t, made)
	behind := New(b.store, func() *codec.Keyset { return promoted }, "here", 0)
	found, made, err := behind.Call(t.Context(), "ann", "l", Call{ID: []byte("4")})
	require.NoError(t, err)
	assert.False(t, made)
	assert.Equal(t, "3", string(found.ID))
}
