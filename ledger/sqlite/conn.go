package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	driver "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// conn is a connection, which one goroutine uses at a time. Its statements are prepared once. It is used
// without database/sql, which costs several times what the statements do.
type conn struct {
	*driver.Conn
	says func(query string)
}

// dial makes a connection that does not wait for others: [database.wait] does.
func dial(path string, set settings) (*conn, error) {
	d, err := driver.OpenConn(path, driver.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	d.SetBusyTimeout(0)
	c := &conn{d, set.says}
	// Fullfsync is for macOS: all the way to the disk. Pages that are written again and again, as those of
	// indexes are, are moved from the -wal file to the database after 3000 pages, and so only once.
	err = c.script("PRAGMA synchronous = " + set.synchronous + `; PRAGMA fullfsync = 1; PRAGMA checkpoint_fullfsync = 1;
		PRAGMA trusted_schema = 0; PRAGMA foreign_keys = 0; PRAGMA wal_autocheckpoint = 3000`)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return c, nil
}

func (c *conn) script(queries string) error {
	for queries = strings.TrimSpace(queries); queries != ""; {
		s, rest, err := c.PrepareTransient(queries)
		if err != nil {
			return err
		}
		_, err = s.Step()
		if err := errors.Join(err, s.Finalize()); err != nil {
			return err
		}
		queries = strings.TrimSpace(queries[len(queries)-rest:])
	}
	return nil
}

// exec executes a statement that returns nothing of interest.
func (c *conn) exec(query string, args ...any) error {
	_, err := c.each(query, func(*row) {}, args...)
	return err
}

// number returns the one number that a statement returns.
func (c *conn) number(query string, args ...any) (n int64, err error) {
	_, err = c.each(query, func(r *row) { n = r.ColumnInt64(0) }, args...)
	return n, err
}

// each has read look at each row that a statement finds, and returns how many there are. Zero IDs and
// times are NULL, so that indexes leave them out. Times are microseconds since 1970.
func (c *conn) each(query string, read func(*row), args ...any) (found int, err error) {
	if c.says != nil {
		c.says(query)
	}
	for i, a := range args {
		switch v := a.(type) {
		case store.ID:
			if args[i] = v[:]; v == (store.ID{}) {
				args[i] = nil
			}
		case time.Time:
			if args[i] = v.UnixMicro(); v.IsZero() {
				args[i] = nil
			}
		}
	}
	r := new(row)
	err = sqlitex.Execute(c.Conn, query, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *driver.Stmt) error {
		r.Stmt, found = s, found+1
		read(r)
		return nil
	}})
	return found, err
}

// row is a row that a statement has found.
type row struct{ *driver.Stmt }

func (r *row) uint(column int) uint64 { return uint64(r.ColumnInt64(column)) }

func (r *row) id(column int) (id store.ID) {
	r.ColumnBytes(column, id[:])
	return id
}

func (r *row) time(column int) time.Time {
	if r.ColumnIsNull(column) {
		return time.Time{}
	}
	return time.UnixMicro(r.ColumnInt64(column)).UTC()
}

func (r *row) bytes(column int) []byte {
	b := make([]byte, r.ColumnLen(column))
	r.ColumnBytes(column, b)
	return b
}

// isBusy reports whether another connection is in the way, so that trying again may help.
func isBusy(err error) bool {
	c := driver.ErrCode(err).ToPrimary()
	return c == driver.ResultBusy || c == driver.ResultLocked
}

// explain says what failed, where, and what can be done about it. The errors of package store, and of
// contexts, stay as they are.
func (l *database) explain(what string, err error) error {
	if err == nil || changedNothing(err) || err == store.ErrClosed || err == context.Canceled || err == context.DeadlineExceeded {
		return err
	}
	hint := ""
	switch driver.ErrCode(err).ToPrimary() { // ResultError if it is none of SQLite's
	case driver.ResultBusy, driver.ResultLocked, driver.ResultProtocol:
		hint = "another process has locked it for too long: end that one, or try again; nothing was changed: "
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
