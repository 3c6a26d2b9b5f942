package sqlite

import (
	"context"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// errLocked: another process has been writing, or hangs while it writes, for too long.
var errLocked = errors.New("another process has locked it for too long: end it, or try again; nothing was changed")

// code is the primary result code of SQLite in an error, or 0.
func code(err error) int {
	var e *driver.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}

// isBusy reports whether another connection is in the way, so that trying again may help.
func isBusy(err error) bool {
	c := code(err)
	return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED
}

// explain says what failed, where, and what can be done about it. The errors of package
// ledger, and of contexts, stay as they are.
func (s *store) explain(what string, err error) error {
	switch err {
	case nil, ledger.ErrNotFound, ledger.ErrConflict, ledger.ErrTooLarge, ledger.ErrClosed, context.Canceled, context.DeadlineExceeded:
		return err
	}
	hint := ""
	switch code(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		hint = "another process has locked it: "
	case lib.SQLITE_FULL:
		hint = "the disk is full: "
	case lib.SQLITE_CORRUPT:
		hint = "the file is damaged; restore it from a copy, or move it away to begin a new ledger: "
	case lib.SQLITE_NOTADB:
		hint = "the file is no ledger, or is damaged: "
	case lib.SQLITE_READONLY, lib.SQLITE_PERM:
		hint = "the file or its directory cannot be written by this user, or is on a read-only disk: "
	case lib.SQLITE_CANTOPEN:
		hint = "the file, or those beside it, cannot be opened; look at their owner and mode, and the directory's: "
	}
	return fmt.Errorf("ledger/sqlite: %s the ledger %s: %s%w", what, s.path, hint, err)
}
