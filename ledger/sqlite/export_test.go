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

// Queries lists all statements of a store.
func Queries(ctx context.Context, s ledger.Store) ([]string, error) {
	all := s.(*store).writer.st.all
	err := s.(*store).read(ctx, func(r *reader) error {
		all = append(all[:len(all):len(all)], r.all...)
		return nil
	})
	return all, err
}
