package sqlite

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// OpenPatient is [Open] of a store that waits for others only so long.
func OpenPatient(ctx context.Context, path string, patience time.Duration) (ledger.Store, error) {
	return handle(open(ctx, path, settings{patience, schema}))
}

// OpenNext is [Open] of a future program, whose tables have one step more.
func OpenNext(ctx context.Context, path string, version int, ddl string) (ledger.Store, error) {
	return handle(open(ctx, path, settings{patience, append(schema[:len(schema):len(schema)], step{version, ddl})}))
}
