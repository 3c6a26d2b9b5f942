package sqlite

import driver "zombiezen.com/go/sqlite"

const columns = "rev, queue, owner, wake, keep, body"

// readStatements are prepared for each connection that reads.
type readStatements struct {
	*conn
	begin, rollback, load, byID, rev, items, count, owned, nextWake, waiting, queued, walk *driver.Stmt
}

func (s *readStatements) prepare() error {
	return s.prepareAll(map[**driver.Stmt]string{
		&s.begin:    "BEGIN",
		&s.rollback: "ROLLBACK",
		&s.load:     "SELECT " + columns + " FROM records WHERE key = ?",
		&s.byID:     "SELECT " + columns + " FROM records WHERE id = ?",
		&s.rev:      "SELECT rev FROM records WHERE key = ?",
		&s.items:    "SELECT n, body FROM items WHERE record = (SELECT id FROM records WHERE key = ?) AND n > ? ORDER BY n LIMIT ?",
		&s.count:    "SELECT count(*) FROM (SELECT 1 FROM records WHERE owner = ? LIMIT ?)",
		&s.owned:    "SELECT key, id FROM records WHERE owner = ? AND key > ? ORDER BY key LIMIT ?",
		&s.waiting:  "SELECT count(*) FROM (SELECT 1 FROM records WHERE queue = ? AND wake IS NOT NULL LIMIT ?)",
		&s.queued:   "SELECT key, id FROM records WHERE queue = ? AND wake IS NOT NULL AND +key > ?",
		&s.walk:     "SELECT key, id, queue, wake FROM records WHERE key > ? ORDER BY key LIMIT ?",
		&s.nextWake: "SELECT min(wake) FROM records WHERE queue = ? AND wake IS NOT NULL",
	})
}

// writeStatements are prepared for the connection that writes.
type writeStatements struct {
	*conn
	begin, commit, rollback                                *driver.Stmt
	dataVersion, userVersion, checkpoint                   *driver.Stmt
	find, create, update, reschedule, replace              *driver.Stmt
	item, addItem                                          *driver.Stmt
	due, byID, take                                        *driver.Stmt
	over, forget, forgetItems, freePages, pages, vacuuming *driver.Stmt
}

func (s *writeStatements) prepare() error {
	return s.prepareAll(map[**driver.Stmt]string{
		&s.begin:       "BEGIN IMMEDIATE",
		&s.commit:      "COMMIT",
		&s.rollback:    "ROLLBACK",
		&s.dataVersion: "PRAGMA data_version",
		&s.userVersion: "PRAGMA user_version",
		&s.checkpoint:  "PRAGMA wal_checkpoint(TRUNCATE)",

		&s.find:   "SELECT id, rev, queue IS ?2 AND owner IS ?3, wake IS ?4 AND keep IS ?5 FROM records WHERE key = ?1",
		&s.create: "INSERT INTO records (key, rev, queue, owner, wake, keep, body) VALUES (?1, 1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (key) DO NOTHING",
		// Setting a column costs a change of each index that it is in, even to the same
		// value: so three statements.
		&s.replace:    "UPDATE records SET rev = ?2, body = ?3 WHERE id = ?1",
		&s.reschedule: "UPDATE records SET rev = ?2, body = ?3, wake = ?4, keep = ?5 WHERE id = ?1",
		&s.update:     "UPDATE records SET rev = ?2, body = ?3, wake = ?4, keep = ?5, queue = ?6, owner = ?7 WHERE id = ?1",
		&s.item:       "SELECT 1 FROM items WHERE record = ? AND n = ?",
		&s.addItem:    "INSERT INTO items (record, n, body) VALUES (?, ?, ?)",

		&s.due:  "SELECT id, key, wake FROM records WHERE queue = ? AND wake <= ? ORDER BY wake LIMIT ?",
		&s.byID: "SELECT " + columns + " FROM records WHERE id = ?",
		&s.take: "UPDATE records SET rev = rev + 1, wake = ? WHERE id = ?",

		&s.over:        "SELECT id FROM records WHERE keep <= ? ORDER BY keep LIMIT ?",
		&s.forget:      "DELETE FROM records WHERE id = ?",
		&s.forgetItems: "DELETE FROM items WHERE record = ?",
		&s.freePages:   "PRAGMA freelist_count",
		&s.pages:       "PRAGMA page_count",
		&s.vacuuming:   "PRAGMA incremental_vacuum(256)",
	})
}
