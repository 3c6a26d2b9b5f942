package sqlite_test

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

// long is for how long stores of tests wait for others that write: on a slow machine that is busy with
// other things longer than those of programs.
const long = time.Minute

// opened opens a store, which is closed when the test ends.
func opened(t testing.TB, path string) store.Store {
	t.Helper()
	return patientFor(t, path, long)
}

// patientFor opens a store that waits so long for others that write; it is closed when the test ends.
func patientFor(t testing.TB, path string, patience time.Duration) store.Store {
	t.Helper()
	s, err := sqlite.OpenPatient(t.Context(), path, patience)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func somePath(t testing.TB) string { return filepath.Join(t.TempDir(), "ledger.db") }

// named is the ID of a record with a name of at most 16 bytes.
func named(name string) (id store.ID) {
	copy(id[:], name)
	return id
}

// sample is a record to be created.
func sample(id store.ID, state int) *store.Record {
	return &store.Record{ID: id, Audience: "a", Tool: "t", Mode: store.ModeTask, Status: store.Waiting, State: make([]byte, state)}
}

func randomID() (id store.ID) {
	rand.Read(id[:])
	return id
}

var one = store.Change{Items: []store.Item{{Kind: "k"}}}

// put creates a record with a name.
func put(ctx context.Context, s store.Store, name string, state int) error {
	return s.Write(ctx, sample(named(name), state), one)
}

func load(ctx context.Context, s store.Store, name string) error {
	_, err := s.Load(ctx, named(name))
	return err
}
