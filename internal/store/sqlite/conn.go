package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"time"

	driver "zombiezen.com/go/sqlite"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

const (
	// readBusy is how long a read waits for others.
	readBusy = 5 * time.Second
	// checkpointPages is how many pages the -wal file has when SQLite moves them to the database. Pages
	// that are written again and again, as those of indexes are, are moved once.
	checkpointPages = 3000
)

// conn is a connection, which one goroutine uses at a time, and the statements that are prepared
// for it. It is used without database/sql, which costs several times what the statements do.
type conn struct {
	*driver.Conn
	statements
	all []string // what is prepared
}

// dial makes a connection that does not wait for others: [lock] does.
func dial(path, synchronous string) (*conn, error) {
	d, err := driver.OpenConn(path, driver.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	d.SetBusyTimeout(0)
	c := &conn{Conn: d}
	for _, set := range []string{
		"synchronous = " + synchronous,
		"fullfsync = 1", "checkpoint_fullfsync = 1", // macOS: all the way to the disk
		"trusted_schema = 0",
		"foreign_keys = 0",
		fmt.Sprint("wal_autocheckpoint = ", checkpointPages),
	} {
		if err := c.script("PRAGMA " + set); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	return c, nil
}

// connectWriter makes the connection that writes, and the tables if there are none.
func (l *ledger) connectWriter() (c *conn, err error) {
	if c, err = dial(l.path, l.set.synchronous); err != nil {
		return nil, err
	}
	if err = c.prepareFile(); err == nil {
		err = c.prepare(writing(&c.statements))
	}
	if err == nil {
		// SQLite opens a file that it may only read, and says so when it is to write.
		if err = exec(c.begin); err == nil {
			err = exec(c.rollback)
		} else if isBusy(err) {
			err = nil
		}
	}
	if err == nil {
		l.files, err = identify(l.path)
	}
	if err == nil {
		_, err = each(c.identity, func() { l.identity = idOf(c.identity, 0) })
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// connectReader makes a connection that sees what is committed, and neither waits for writers nor
// holds them up.
func (l *ledger) connectReader() (*conn, error) {
	c, err := dial(l.path, l.set.synchronous)
	if err != nil {
		return nil, err
	}
	if err = c.script("PRAGMA query_only = 1"); err == nil {
		err = c.prepare(reading(&c.statements))
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.SetBusyTimeout(readBusy)
	return c, nil
}

// prepare prepares statements, which are there until the connection is closed.
func (c *conn) prepare(list map[**driver.Stmt]string) (err error) {
	for to, query := range list {
		if *to, err = c.Prepare(query); err != nil {
			return err
		}
		c.all = append(c.all, query)
	}
	return nil
}

// script executes statements that are not prepared, one after the other.
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

// ask returns the one value of a statement that is not prepared.
func (c *conn) ask(query string) (text string, err error) {
	s, _, err := c.PrepareTransient(query)
	if err != nil {
		return "", err
	}
	found, err := each(s, func() { text = s.ColumnText(0) })
	if err == nil && found == 0 {
		err = fmt.Errorf("%s says nothing", query)
	}
	return text, errors.Join(err, s.Finalize())
}

// exec executes a statement that returns nothing.
func exec(s *driver.Stmt, args ...any) error {
	_, err := each(s, func() {}, args...)
	return err
}

// each has row look at each row that a statement finds, and returns how many there are.
func each(s *driver.Stmt, row func(), args ...any) (found int, err error) {
	bind(s, args)
	for ; ; found++ {
		more, err := s.Step()
		if err != nil {
			return found, err
		}
		if !more {
			return found, s.Reset()
		}
		row()
	}
}

// bind sets the arguments of a statement. Zero IDs and times are NULL, so that indexes leave them out.
// Times are microseconds since 1970.
func bind(s *driver.Stmt, args []any) {
	for i, a := range args {
		switch i++; a := a.(type) {
		case int:
			s.BindInt64(i, int64(a))
		case int64:
			s.BindInt64(i, a)
		case uint64:
			s.BindInt64(i, int64(a))
		case bool:
			s.BindBool(i, a)
		case string:
			s.BindText(i, a)
		case []byte:
			s.BindBytes(i, a)
		case store.ID:
			if s.BindBytes(i, a[:]); a == (store.ID{}) {
				s.BindNull(i)
			}
		case time.Time:
			if s.BindInt64(i, a.UnixMicro()); a.IsZero() {
				s.BindNull(i)
			}
		default:
			panic(fmt.Sprintf("sqlite: an argument of type %T", a)) // which no statement has
		}
	}
}

// timeOf is the time in a column.
func timeOf(s *driver.Stmt, column int) time.Time {
	if s.ColumnIsNull(column) {
		return time.Time{}
	}
	return time.UnixMicro(s.ColumnInt64(column)).UTC()
}

// idOf is the ID in a column.
func idOf(s *driver.Stmt, column int) (id store.ID) {
	s.ColumnBytes(column, id[:])
	return id
}

// bytesOf are the bytes in a column.
func bytesOf(s *driver.Stmt, column int) []byte {
	b := make([]byte, s.ColumnLen(column))
	s.ColumnBytes(column, b)
	return b
}
