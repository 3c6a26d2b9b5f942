package sqlite

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// TurnPause is how long who has written leaves the file alone, if others wait.
const TurnPause = turnPause

// longer is how long stores of tests wait: the machine may be busy with other things.
const longer = time.Minute

// forTests are the settings of stores that are to be patient. They do not wait for the disk, unless
// somebody asked: what was not synced is lost with the machine, not with the process.
func forTests() settings {
	set := usual()
	set.patience = longer
	if !longtests.Wanted() {
		set.synchronous = "OFF"
	}
	return set
}

// OpenPatient is [Open] of a store that waits for others only so long.
func OpenPatient(ctx context.Context, path string, patience time.Duration) (ledger.Store, error) {
	set := forTests()
	set.patience = patience
	return handle(open(ctx, path, set))
}

// OpenRestless is [Open] of a store that takes a file for quiet so soon after it was written.
func OpenRestless(ctx context.Context, path string, quietAfter time.Duration) (ledger.Store, error) {
	set := forTests()
	set.quietAfter = quietAfter
	return handle(open(ctx, path, set))
}

// OpenNext is [Open] of a future program, whose tables have one step more.
func OpenNext(ctx context.Context, path string, version int, ddl string) (ledger.Store, error) {
	set := forTests()
	set.schema = append(schema[:len(schema):len(schema)], step{version, ddl})
	return handle(open(ctx, path, set))
}

// OpenFirst is [Open] of the first program, to whose tables later ones have added.
func OpenFirst(ctx context.Context, path string) (ledger.Store, error) {
	set := forTests()
	set.schema = schema[:1]
	return handle(open(ctx, path, set))
}

// OpenWalking is [Open] of a store that lists as if there were many records.
func OpenWalking(ctx context.Context, path string) (ledger.Store, error) {
	set := forTests()
	set.fewWaiting = 1
	return handle(open(ctx, path, set))
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
