package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
)

// What another transaction came before is made again after a pause, so that two do not meet again and again.
func TestMeetingsAreMadeAgainAfterAPause(t *testing.T) {
	server := postgrestest.Shared(t)
	server.Exec("CREATE DATABASE meetings")
	s, err := open(t.Context(), server.URL("postgres", "meetings"), usual())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	const meetings = 30
	tries, began := 0, time.Now()
	sent, err := s.(*database).try(t.Context(), func(context.Context, *pgxpool.Conn) error {
		if tries++; tries > meetings {
			return nil
		}
		return &pgconn.PgError{SeverityUnlocalized: "ERROR", Code: []string{notSerial, deadlock}[tries%2]}
	})
	require.NoError(t, err)
	assert.True(t, sent)
	assert.Equal(t, meetings+1, tries)
	assert.GreaterOrEqual(t, time.Since(began), meetings*time.Millisecond, "each pause has a millisecond at least")
}
