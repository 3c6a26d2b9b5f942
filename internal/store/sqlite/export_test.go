package sqlite

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/store"
)

// LockPause is how long who has written leaves the file alone, if others wait.
const LockPause = lockPause

// OpenPatient is [Open] of a store that waits for others only so long. It does not wait for the disk, unless
// long tests are wanted: what was not synced is lost with the machine, not with the process.
func OpenPatient(ctx context.Context, path string, patience time.Duration) (store.Store, error) {
	set := usual()
	set.patience = patience
	if !longtests.Wanted() {
		set.synchronous = "OFF"
	}
	l, err := open(ctx, path, set)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Queries lists all statements of a store.
func Queries(ctx context.Context, s store.Store) ([]string, error) {
	all := s.(*ledger).writer.all
	err := s.(*ledger).read(ctx, func(c *conn) error {
		all = append(all[:len(all):len(all)], c.all...)
		return nil
	})
	return all, err
}
