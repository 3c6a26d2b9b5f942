package sqlite

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// TurnPause is how long who has written leaves the file alone, if others wait.
const TurnPause = turnPause

// longer is how long stores of tests wait: the machine may be busy with other things.
const longer = time.Minute

// OpenPatient is [Open] of a store that waits for others only so long.
func OpenPatient(ctx context.Context, path string, patience time.Duration) (ledger.Store, error) {
	return handle(open(ctx, path, settings{patience, schema, fewWaiting}))
}

// OpenNext is [Open] of a future program, whose tables have one step more.
func OpenNext(ctx context.Context, path string, version int, ddl string) (ledger.Store, error) {
	return handle(open(ctx, path, settings{longer, append(schema[:len(schema):len(schema)], step{version, ddl}), fewWaiting}))
}

// OpenFirst is [Open] of the first program, to whose tables later ones have added.
func OpenFirst(ctx context.Context, path string) (ledger.Store, error) {
	return handle(open(ctx, path, settings{longer, schema[:1], fewWaiting}))
}

// OpenWalking is [Open] of a store that lists as if there were many records.
func OpenWalking(ctx context.Context, path string) (ledger.Store, error) {
	return handle(open(ctx, path, settings{longer, schema, 1}))
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
