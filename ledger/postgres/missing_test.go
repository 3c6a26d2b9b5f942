package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// To look for a record that there is not costs no connection.
func TestMissingRecordsKeepConnections(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	name, url := newDatabase(t, server)
	s := open(t, url)
	conn, err := pgx.Connect(t.Context(), server.URL("postgres", "postgres"))
	require.NoError(t, err)
	defer conn.Close(t.Context())
	connections := func() []int32 {
		rows, err := conn.Query(t.Context(), `SELECT pid FROM pg_stat_activity WHERE datname = $1`, name)
		require.NoError(t, err)
		pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
		require.NoError(t, err)
		return pids
	}
	look := func() {
		_, err := s.Load(t.Context(), "missing")
		require.ErrorIs(t, err, ledger.ErrNotFound)
	}
	look()
	before := connections()
	require.NotEmpty(t, before)
	for range 5 {
		look()
	}
	assert.Subset(t, connections(), before)
}
