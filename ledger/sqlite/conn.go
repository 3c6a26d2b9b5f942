package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"time"

	driver "zombiezen.com/go/sqlite"
)

// conn is a connection, which one goroutine uses at a time, and the statements that are prepared
// for it. It is used without database/sql, which costs several times what the statements do.
type conn struct {
	*driver.Conn
	all []string // what is prepared
}

// readBusy is how long who reads waits for others.
const readBusy = 5 * time.Second

// checkpointPages is how many pages the -wal file has when SQLite moves them to the database. Pages
// that are written again and again, as those of indexes are, are moved once.
const checkpointPages = 3000

// dial makes a connection that does not wait for others: whoever opens a store, or writes, does so
// in his own way, and can be told to give up.
func dial(path, synchronous string) (*conn, error) {
	c, err := driver.OpenConn(path, driver.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	c.SetBusyTimeout(0)
	out := &conn{Conn: c}
	for _, set := range []string{
		"synchronous = " + synchronous,
		"fullfsync = 1", "checkpoint_fullfsync = 1", // macOS: all the way to the disk
		"trusted_schema = 0",
		"foreign_keys = 0",
		fmt.Sprint("wal_autocheckpoint = ", checkpointPages),
	} {
		if err := out.exec("PRAGMA " + set); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return out, nil
}

// prepareAll prepares statements, which are there until the connection is closed.
func (c *conn) prepareAll(list map[**driver.Stmt]string) error {
	for to, query := range list {
		s, err := c.Prepare(query)
		if err != nil {
			return err
		}
		*to = s
		c.all = append(c.all, query)
	}
	return nil
}

// exec executes statements that are not prepared, one after the other.
func (c *conn) exec(queries string) error {
	for queries = strings.TrimSpace(queries); queries != ""; {
		s, rest, err := c.PrepareTransient(queries)
		if err != nil {
			return err
		}
		_, err = s.Step()
		if end := s.Finalize(); err == nil {
			err = end
		}
		if err != nil {
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
	found, err := one(s, func() { text = s.ColumnText(0) })
	if err == nil && !found {
		err = fmt.Errorf("%s says nothing", query)
	}
	return text, errors.Join(err, s.Finalize())
}

// run executes a statement that returns nothing.
func run(s *driver.Stmt) error {
	if _, err := s.Step(); err != nil {
		return err
	}
	return s.Reset()
}

// one has read look at the row that a statement finds, if it finds one.
func one(s *driver.Stmt, read func()) (found bool, err error) {
	if found, err = s.Step(); err != nil {
		return false, err
	}
	if found {
		read()
	}
	return found, s.Reset()
}

// each has read look at each row that a statement finds.
func each(s *driver.Stmt, read func()) error {
	for {
		found, err := s.Step()
		if err != nil {
			return err
		}
		if !found {
			return s.Reset()
		}
		read()
	}
}

// bindName sets a queue or an owner: NULL if it is empty, so that indexes leave it out.
func bindName(s *driver.Stmt, i int, name string) {
	if name == "" {
		s.BindNull(i)
		return
	}
	s.BindText(i, name)
}

// bindTime sets a time: microseconds since 1970, or NULL for the zero time.
func bindTime(s *driver.Stmt, i int, t time.Time) {
	if t.IsZero() {
		s.BindNull(i)
		return
	}
	s.BindInt64(i, t.UnixMicro())
}

// timeOf is the time in a column.
func timeOf(s *driver.Stmt, column int) time.Time {
	if s.ColumnIsNull(column) {
		return time.Time{}
	}
	return fromMicros(s.ColumnInt64(column))
}

func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }

// bytesOf are the bytes in a column.
func bytesOf(s *driver.Stmt, column int) []byte {
	b := make([]byte, s.ColumnLen(column))
	s.ColumnBytes(column, b)
	return b
}
