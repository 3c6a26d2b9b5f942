package records

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// counting counts how often a store counts.
type counting struct {
	ledger.Store
	n int
}

func (c *counting) Count(ctx context.Context, owner string, most int) (int, error) {
	c.n++
	return c.Store.Count(ctx, owner, most)
}

// Who has too many records does not keep the store busy with counting them.
func TestFullAccountsAreNotCountedEachTime(t *testing.T) {
	_, f, keys := newBook(t)
	store := &counting{Store: f}
	b := New(store, func() *codec.Keyset { return keys }, "here", 2)
	for i := range 2 {
		require.NoError(t, b.Put(t.Context(), b.Fresh("ann", [16]byte{byte(i)})))
	}
	other := New(store, func() *codec.Keyset { return keys }, "here", 2) // which has not seen them made
	store.n = 0
	for range 20 {
		for _, book := range []*Book{b, other} {
			require.ErrorIs(t, book.Put(t.Context(), book.Fresh("ann", [16]byte{9})), ErrFull)
		}
	}
	assert.LessOrEqual(t, store.n, 1)
	require.NoError(t, b.Put(t.Context(), b.Fresh("bob", [16]byte{1})))
}

// The list of tools goes along when keys are rotated, and one that cannot be read stops nobody.
func TestTargetsWhenKeysAreRotated(t *testing.T) {
	b, _, keys := newBook(t)
	require.NoError(t, b.Announce(t.Context(), []Target{{"a", 1}}))
	old := keys.Primary().ID
	next, id, err := keys.Add(codec.XAES256GCM)
	require.NoError(t, err)
	next, err = next.Promote(id)
	require.NoError(t, err)
	rotated := New(b.store, func() *codec.Keyset { return next }, "here", 0)
	require.NoError(t, rotated.Announce(t.Context(), []Target{{"a", 1}}))
	behind := New(b.store, func() *codec.Keyset { return keys }, "here", 0)
	next, err = next.Disable(old)
	require.NoError(t, err)
	for _, stage := range []string{"disabled", "destroyed"} {
		require.NoError(t, rotated.Announce(t.Context(), []Target{{"b", 2}}))
		list, err := rotated.Targets(t.Context())
		require.NoError(t, err)
		assert.ElementsMatch(t, []Target{{"a", 1}, {"b", 2}}, list, stage)
		for _, err := range rotated.List(t.Context()) {
			require.NoError(t, err)
		}
		if stage == "disabled" {
			next, err = next.Destroy(old)
			require.NoError(t, err)
		}
	}
	// Who does not know the new key leaves alone what it cannot read, and says so.
	require.ErrorIs(t, behind.Announce(t.Context(), []Target{{"c", 3}}), ErrUnreadable)
	_, err = behind.Targets(t.Context())
	require.NoError(t, err)
}
