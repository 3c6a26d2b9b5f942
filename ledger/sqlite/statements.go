package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

const columns = "rev, queue, owner, wake, keep, body"

// readStatements are prepared for each connection that reads.
type readStatements struct {
	statements
	begin, rollback, load, byID, rev, items, count, listed, owned, nextWake *sql.Stmt
}

func (s *readStatements) prepare(ctx context.Context, conn *sql.Conn) error {
	return s.prepareAll(ctx, conn, map[**sql.Stmt]string{
		&s.begin:    "BEGIN",
		&s.rollback: "ROLLBACK",
		&s.load:     "SELECT " + columns + " FROM records WHERE key = ?",
		&s.byID:     "SELECT " + columns + " FROM records WHERE id = ?",
		&s.rev:      "SELECT rev FROM records WHERE key = ?",
		&s.items:    "SELECT n, body FROM items WHERE record = (SELECT id FROM records WHERE key = ?) AND n > ? ORDER BY n LIMIT ?",
		&s.count:    "SELECT count(*) FROM (SELECT 1 FROM records WHERE owner = ? LIMIT ?)",
		&s.listed:   "SELECT key, id FROM records WHERE queue = ? AND wake IS NOT NULL AND key > ? ORDER BY key LIMIT ?",
		&s.owned:    "SELECT key, id FROM records WHERE owner = ? AND key > ? ORDER BY key LIMIT ?",
		&s.nextWake: "SELECT min(wake) FROM records WHERE queue = ? AND wake IS NOT NULL",
	})
}

// writeStatements are prepared for the connection that writes.
type writeStatements struct {
	statements
	begin, commit, rollback, savepoint, back, release   *sql.Stmt
	dataVersion, userVersion, checkpoint                *sql.Stmt
	find, create, update, reschedule, replace, addItem  *sql.Stmt
	due, byID, take                                     *sql.Stmt
	over, forget, forgetItems, freePages, pages, vacuum *sql.Stmt
}

func (s *writeStatements) prepare(ctx context.Context, conn *sql.Conn) error {
	return s.prepareAll(ctx, conn, map[**sql.Stmt]string{
		&s.begin:       "BEGIN IMMEDIATE",
		&s.commit:      "COMMIT",
		&s.rollback:    "ROLLBACK",
		&s.savepoint:   "SAVEPOINT swap",
		&s.back:        "ROLLBACK TO swap",
		&s.release:     "RELEASE swap",
		&s.dataVersion: "PRAGMA data_version",
		&s.userVersion: "PRAGMA user_version",
		&s.checkpoint:  "PRAGMA wal_checkpoint(TRUNCATE)",

		&s.find:   "SELECT id, rev, queue, owner, wake, keep FROM records WHERE key = ?",
		&s.create: "INSERT INTO records (key, rev, queue, owner, wake, keep, body) VALUES (?, 1, ?, ?, ?, ?, ?)",
		// Setting a column costs a change of each index that it is in, even to the same
		// value: so three statements.
		&s.replace:    "UPDATE records SET rev = ?, body = ? WHERE id = ?",
		&s.reschedule: "UPDATE records SET rev = ?, body = ?, wake = ?, keep = ? WHERE id = ?",
		&s.update:     "UPDATE records SET rev = ?, body = ?, wake = ?, keep = ?, queue = ?, owner = ? WHERE id = ?",
		&s.addItem:    "INSERT INTO items (record, n, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",

		&s.due:  "SELECT id, key, wake FROM records WHERE queue = ? AND wake <= ? ORDER BY wake LIMIT ?",
		&s.byID: "SELECT " + columns + " FROM records WHERE id = ?",
		&s.take: "UPDATE records SET rev = rev + 1, wake = ? WHERE id = ?",

		&s.over:        "SELECT id FROM records WHERE keep <= ? ORDER BY keep LIMIT ?",
		&s.forget:      "DELETE FROM records WHERE id = ?",
		&s.forgetItems: "DELETE FROM items WHERE record = ?",
		&s.freePages:   "PRAGMA freelist_count",
		&s.pages:       "PRAGMA page_count",
		&s.vacuum:      "PRAGMA incremental_vacuum(256)",
	})
}

// statements are all that were prepared on a connection. Package database/sql does not close them
// with it, and SQLite keeps the file open until they are.
type statements struct {
	conn *sql.Conn
	all  map[string]*sql.Stmt // by their text
}

func (s *statements) prepareAll(ctx context.Context, conn *sql.Conn, list map[**sql.Stmt]string) error {
	s.conn, s.all = conn, make(map[string]*sql.Stmt)
	for to, query := range list {
		st, err := conn.PrepareContext(ctx, query)
		if err != nil {
			return errors.Join(err, s.close())
		}
		*to = st
		s.all[query] = st
	}
	return nil
}

// close closes the connection.
func (s *statements) close() error {
	var errs []error
	for _, st := range s.all {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, s.conn.Close())...)
}
