package sqlite

import (
	"context"
	"errors"
	"fmt"

	driver "zombiezen.com/go/sqlite"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// errLocked: another process has locked the file and writes nothing, as one does that hangs.
var errLocked = errors.New("that one has written nothing for too long: end it, or try again; nothing was changed")

// code is the primary result code of SQLite in an error. It is [driver.ResultError] if the error is
// none of SQLite's.
func code(err error) driver.ResultCode { return driver.ErrCode(err).ToPrimary() }

// isBusy reports whether another connection is in the way, so that trying again may help.
func isBusy(err error) bool {
	c := code(err)
	return c == driver.ResultBusy || c == driver.ResultLocked
}

// explain says what failed, where, and what can be done about it. The errors of package
// ledger, and of contexts, stay as they are.
func (s *store) explain(what string, err error) error {
	switch err {
	case nil, ledger.ErrNotFound, ledger.ErrConflict, ledger.ErrTooLarge, ledger.ErrClosed, context.Canceled, context.DeadlineExceeded:
		return err
	}
	kind := code(err)
	switch driver.ErrCode(err) {
	case driver.ResultIOErrSHMOpen, driver.ResultIOErrSHMSize: // a file beside it finds no room
		kind = driver.ResultFull
	}
	hint := ""
	switch kind {
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
	return fmt.Errorf("ledger/sqlite: %s the ledger %s: %s%w", what, s.path, hint, err)
}
