package sqlite

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/store"
)

// OpenPatient is [Open] of a store that waits for others only so long. It does not wait for the disk, unless
// long tests are wanted: what was not synced is lost with the machine, not with the process.
func OpenPatient(ctx context.Context, path string, patience time.Duration) (store.Store, error) {
	return open(ctx, path, forTests(patience))
}

func forTests(patience time.Duration) settings {
	set := usual()
	set.patience = patience
	if !longtests.Wanted() {
		set.synchronous = "OFF"
	}
	return set
}

// OpenHeard is [OpenPatient] of a store whose statements are passed on.
func OpenHeard(ctx context.Context, path string, says func(query string)) (store.Store, error) {
	set := forTests(time.Minute)
	set.says = says
	return open(ctx, path, set)
}

// Pragma asks the connection that writes, while it has nothing to do.
func Pragma(s store.Store, name string) (int64, error) {
	return s.(*database).writer.number("PRAGMA " + name)
}

// Advance has the store have read a clock that was ahead.
func Advance(s store.Store, by time.Duration) {
	l := s.(*database)
	l.last = l.last.Add(by)
}
