package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

func TestWhatAnotherHandleHasWrittenIsNotTakenForKnown(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "ledger.db")
	here, err := sqlite.Open(ctx, path)
	require.NoError(t, err)
	defer here.Close()
	there, err := sqlite.Open(ctx, path)
	require.NoError(t, err)
	defer there.Close()
	r := &ledger.Record{Key: "a", Queue: "before", Owner: "somebody", Keep: time.Now().Add(-time.Second)}
	require.NoError(t, here.Swap(ctx, r))

	n, err := there.Forget(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, there.Swap(ctx, &ledger.Record{Key: "b", Owner: "another", Body: []byte("not to be changed")}), "where the other was")
	require.NoError(t, there.Swap(ctx, &ledger.Record{Key: "a", Queue: "since", Owner: "somebodyelse"}))

	require.NoError(t, here.Swap(ctx, r), "it is at this revision, as it was before")
	found, err := there.Load(ctx, "a")
	require.NoError(t, err)
	assert.Equal(t, "before", found.Queue)
	assert.Equal(t, "somebody", found.Owner)
	assert.EqualValues(t, 2, found.Rev)
	found, err = there.Load(ctx, "b")
	require.NoError(t, err)
	assert.Equal(t, "not to be changed", string(found.Body))
	assert.EqualValues(t, 1, found.Rev)
}
