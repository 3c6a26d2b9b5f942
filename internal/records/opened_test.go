package records

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// What was opened before is believed of the same bytes, under the same name and keys only.
func TestWhatIsRememberedOfTasksIsNotTrusted(t *testing.T) {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()
	b := New(store, func() *codec.Keyset { return keys }, "here", 0)
	put := func(id string) *ledger.Record {
		e, err := b.NewTask(t.Context(), Task{TaskIdentity: TaskIdentity{ID: id, Principal: "p", Note: []byte("note of " + id)}}, false)
		require.NoError(t, err)
		_, err = b.PutTask(t.Context(), e, false)
		require.NoError(t, err)
		r, err := store.Load(t.Context(), e.Key())
		require.NoError(t, err)
		for range 2 { // as it was written, and as it was read
			found, err := b.taskEntry(r)
			require.NoError(t, err)
			assert.Equal(t, "note of "+id, string(found.Note))
			b.opened.young = nil
		}
		_, err = b.taskEntry(r)
		require.NoError(t, err)
		return r
	}
	one, two := put("1"), put("2")
	for name, forged := range map[string]*ledger.Record{
		"altered":         {Key: one.Key, Body: append(slices.Clone(one.Body[:len(one.Body)-1]), one.Body[len(one.Body)-1]^1)},
		"another's":       {Key: one.Key, Body: two.Body},
		"cut off":         {Key: one.Key, Body: one.Body[:len(one.Body)-1]},
		"under a new key": {Key: "new", Body: one.Body},
		"empty":           {Key: one.Key},
	} {
		_, err := b.taskEntry(forged)
		require.ErrorIs(t, err, ErrUnreadable, name)
	}
	keys, err = codec.NewKeyset()
	require.NoError(t, err)
	_, err = b.taskEntry(one)
	require.ErrorIs(t, err, ErrUnreadable, "its key was taken out of use")
}
