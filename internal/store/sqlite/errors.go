package sqlite

import (
	"context"
	"errors"
	"fmt"

	driver "zombiezen.com/go/sqlite"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

var (
	// errNothing is the outcome of an operation that had nothing to change.
	errNothing = errors.New("nothing to change")
	// errLocked: another process has locked the file and writes nothing, as one does that hangs.
	errLocked = errors.New("that one has written nothing for too long: end it, or try again; nothing was changed")
	// errMoved: what is written would go into a file that nobody will find again.
	errMoved = errors.New("its file, or the one named -wal beside it, was removed or replaced while it was open: " +
		"put the old ones back, or start this program again")
	// errStopped: the caller has given up.
	errStopped = errors.New("stopped")
)

// changedNothing reports whether an operation with such an outcome has changed nothing. After any other
// error, its transaction cannot go on.
func changedNothing(err error) bool {
	return err == errNothing || err == store.ErrNotFound || err == store.ErrConflict || err == store.ErrFull
}

// isBusy reports whether another connection is in the way, so that trying again may help.
func isBusy(err error) bool {
	c := driver.ErrCode(err).ToPrimary()
	return c == driver.ResultBusy || c == driver.ResultLocked
}

// explain says what failed, where, and what can be done about it. The errors of package store, and of
// contexts, stay as they are.
func (l *ledger) explain(what string, err error) error {
	if err == nil || changedNothing(err) || err == store.ErrClosed || err == context.Canceled || err == context.DeadlineExceeded {
		return err
	}
	hint := ""
	switch driver.ErrCode(err).ToPrimary() { // ResultError if it is none of SQLite's
	case driver.ResultBusy, driver.ResultLocked, driver.ResultProtocol:
		hint = "another process has locked it: "
	case driver.ResultFull:
		hint = "the disk is full: "
	case driver.ResultCorrupt:
		hint = "the file is damaged; restore it from a copy, or move it away to begin a new ledger: "
	case driver.ResultNotADB:
		hint = "the file is no ledger, or is damaged: "
	case driver.ResultReadOnly, driver.ResultPerm:
		hint = "the file or its directory cannot be written by this user, or is on a read-only disk: "
	case driver.ResultCantOpen:
		hint = "the file, or those beside it, cannot be opened; look at their owner and mode, and the directory's: "
	}
	return fmt.Errorf("sqlite: %s the ledger %s: %s%w", what, l.path, hint, err)
}
