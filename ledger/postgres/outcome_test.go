package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
)

// What a server says is only taken for certain if it says so of a transaction that it has
// rolled back: who ends the connection may say so after the commit.
func TestCertain(t *testing.T) {
	for _, c := range []struct {
		severity, code  string
		certain, broken bool
	}{
		{"ERROR", "23505", true, false},
		{"ERROR", "25006", true, true}, // another connection may lead to the primary
		{"ERROR", "40P01", true, false},
		{"ERROR", "53100", true, false}, // the disk is full
		{"ERROR", "57014", true, false}, // statement_timeout
		{"ERROR", "40003", false, true}, // "statement completion unknown"
		{"FATAL", "57P01", false, true}, // the connection was terminated
		{"ERROR", "57P01", false, true},
		{"FATAL", "57P02", false, true}, // another process crashed
		{"FATAL", "57P05", false, true},
		{"FATAL", "08P01", false, true}, // what PgBouncer says when the server is gone
		{"ERROR", "08P01", false, true},
		{"ERROR", "08006", false, true},
		{"PANIC", "XX000", false, true},
		{"FATAL", "XX000", false, true},
	} {
		err := &pgconn.PgError{SeverityUnlocalized: c.severity, Severity: "FEHLER", Code: c.code}
		assert.Equal(t, c.certain, rolledBack(err) != "", "%s %s", c.severity, c.code)
		assert.Equal(t, c.broken, broken(fmt.Errorf("wrapped: %w", err)), "%s %s", c.severity, c.code)
	}
	assert.True(t, broken(io.ErrUnexpectedEOF))
	assert.False(t, broken(&pgconn.ConnectError{Config: &pgconn.Config{}}))
	assert.False(t, broken(context.Canceled))
	assert.False(t, broken(fmt.Errorf("wrapped: %w", context.DeadlineExceeded)))
	assert.True(t, broken(errors.New("conn closed")))
}
