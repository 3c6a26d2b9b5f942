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

// long is for how long stores of tests wait for others that write: on a slow machine that is busy with
// other things longer than those of programs.
const long = time.Minute

// opened opens a store, which is closed when the test ends.
func opened(t testing.TB, path string) ledger.Store {
	t.Helper()
	s, err := sqlite.OpenPatient(t.Context(), path, long)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func somePath(t testing.TB) string { return filepath.Join(t.TempDir(), "ledger.db") }

func TestSwapAndLoad(t *testing.T) {
	s := opened(t, somePath(t))
	ctx := t.Context()
	wake := time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	r := &ledger.Record{Key: "k", Queue: "q", Owner: "o", Body: []byte("one"), Wake: wake, Keep: wake.Add(time.Hour)}
	require.NoError(t, s.Swap(ctx, r, ledger.Item{N: 1, Body: []byte("i1")}, ledger.Item{N: 5, Body: []byte("i5")}))
	assert.EqualValues(t, 1, r.Rev)
	got, err := s.Load(ctx, "k")
	require.NoError(t, err)
	assert.Equal(t, r, got)
	assert.ErrorIs(t, s.Swap(ctx, &ledger.Record{Key: "k"}), ledger.ErrConflict)
	r.Body = []byte("two")
	assert.ErrorIs(t, s.Swap(ctx, r, ledger.Item{N: 6}, ledger.Item{N: 5}), ledger.ErrConflict)
	got, _ = s.Load(ctx, "k")
	assert.Equal(t, "one", string(got.Body))
	items, err := s.Items(ctx, "k", 0, 10)
	require.NoError(t, err)
	assert.Equal(t, []ledger.Item{{N: 1, Body: []byte("i1")}, {N: 5, Body: []byte("i5")}}, items)
}
