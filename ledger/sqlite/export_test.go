package sqlite

import (
	"context"
	"maps"
	"slices"
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
	all := slices.Collect(maps.Keys(s.(*store).writer.st.all))
	err := s.(*store).read(ctx, func(r *reader) error {
		all = slices.AppendSeq(all, maps.Keys(r.all))
		return nil
	})
	return all, err
}
