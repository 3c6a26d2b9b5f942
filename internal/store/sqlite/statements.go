package sqlite

import driver "zombiezen.com/go/sqlite"

// statements are what connections do. Each connection has prepared those that it needs.
type statements struct {
	// To read; both kinds of connections have those to load and to take.
	snapshot, load, unread, find, log, heads, owned, status, due *driver.Stmt

	// To write.
	begin, commit, rollback, version, checkpoint                 *driver.Stmt
	row, requested, account, create, state, stateless, add, trim *driver.Stmt
	update                                                       [8]*driver.Stmt
	signal, take, renew, identity                                *driver.Stmt
	over, forgetItems, forget                                    *driver.Stmt
	freePages, pages, vacuum                                     *driver.Stmt
}

const (
	// shown are the columns of a record as lists show it; see [record].
	shown = `r.id, r.audience, r.owner, r.account, r.request, r.tool, r.revision, r.format, r.mode, r.status, r.fence, r.head, r.floor, r.tries, r.lease,
		r.wake, r.keep, r.created, r.updated, r.summary`
	whole = "SELECT " + shown + ", r.n, r.seen, s.body FROM records r LEFT JOIN states s ON s.record = r.n "
	// after begins a page of a list behind a time and an ID.
	after = "AND (r.created, r.id) > (?, ?) ORDER BY r.created, r.id LIMIT ?"
)

// shared are the statements of all connections.
func shared(s *statements) map[**driver.Stmt]string {
	return map[**driver.Stmt]string{
		&s.rollback: "ROLLBACK",
		&s.unread:   "SELECT n, kind, lasting, at, body FROM items WHERE record = ? AND n > ? ORDER BY n LIMIT ?",
		&s.due: `SELECT n, due FROM records WHERE audience = ? AND tool = ? AND wake IS NOT NULL AND revision <= ? AND format <= ?
			ORDER BY due LIMIT ?`,
	}
}

// reading are those of connections that only read.
func reading(s *statements) map[**driver.Stmt]string {
	list := shared(s)
	list[&s.snapshot] = "BEGIN"
	list[&s.load] = whole + "WHERE r.id = ?"
	list[&s.find] = whole + "WHERE r.request = ?"
	list[&s.log] = "SELECT n, head, floor, status FROM records WHERE id = ?"
	list[&s.heads] = "SELECT head FROM records WHERE id = ?"
	list[&s.owned] = "SELECT " + shown + " FROM records r WHERE r.audience = ? AND r.owner = ? AND r.mode = ? " + after
	list[&s.status] = "SELECT " + shown + " FROM records r WHERE r.audience = ? AND r.status = ? " + after
	return list
}

// writing are those of the connection that writes.
func writing(s *statements) map[**driver.Stmt]string {
	list := shared(s)
	list[&s.begin] = "BEGIN IMMEDIATE"
	list[&s.commit] = "COMMIT"
	list[&s.version] = "PRAGMA data_version"
	list[&s.checkpoint] = "PRAGMA wal_checkpoint(TRUNCATE)"
	list[&s.identity] = "SELECT id FROM ledger WHERE n = 1"
	list[&s.load] = whole + "WHERE r.n = ?"

	list[&s.row] = "SELECT n, fence, head, floor, lease, wake, keep, created, status, request FROM records WHERE id = ?"
	list[&s.requested] = "SELECT 1 FROM records WHERE request = ?"
	list[&s.account] = `SELECT count(*) FROM (SELECT 1 FROM records
		WHERE audience = ? AND account IS ? AND mode = ? AND status NOT IN ('ended', 'outstanding') LIMIT ?)`
	list[&s.create] = `INSERT INTO records (id, audience, owner, account, request, tool, revision, format, mode, status, fence, head, seen, floor, tries,
		lease, wake, keep, created, updated, summary) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?12, ?12, 0, 0, ?13, ?14, ?15, ?16, ?16, ?17)`
	// To set a column costs a change of each index that it is in, even to the same value. So those that
	// often stay as they are have statements without them.
	for i := range s.update {
		set := "tool = ?2, revision = ?3, format = ?4, fence = ?5, head = ?6, seen = ?6, floor = ?7, tries = 0, lease = ?8, wake = ?9, updated = ?10, summary = ?11"
		for bit, column := range []string{", status = ?12", ", request = ?13", ", keep = ?14"} {
			if i&(1<<bit) != 0 {
				set += column
			}
		}
		list[&s.update[i]] = "UPDATE records SET " + set + " WHERE n = ?1"
	}
	list[&s.state] = "INSERT INTO states (record, body) VALUES (?, ?) ON CONFLICT (record) DO UPDATE SET body = excluded.body"
	list[&s.stateless] = "DELETE FROM states WHERE record = ?"
	list[&s.add] = "INSERT INTO items (record, n, kind, lasting, at, body) VALUES (?, ?, ?, ?, ?, ?)"
	list[&s.trim] = "DELETE FROM items WHERE record = ? AND n > ? AND n <= ? AND NOT lasting"
	list[&s.signal] = "UPDATE records SET head = ?2, wake = ?3 WHERE n = ?1"

	list[&s.take] = "UPDATE records SET fence = fence + 1, tries = tries + 1, lease = ? WHERE n = ?"
	list[&s.renew] = "UPDATE records SET lease = ? WHERE id = ? AND fence = ? AND lease <> 0"

	list[&s.over] = "SELECT n FROM records WHERE keep <= ? ORDER BY keep LIMIT ?"
	list[&s.forgetItems] = "DELETE FROM items WHERE record = ?"
	list[&s.forget] = "DELETE FROM records WHERE n = ?"
	list[&s.freePages] = "PRAGMA freelist_count"
	list[&s.pages] = "PRAGMA page_count"
	list[&s.vacuum] = "PRAGMA incremental_vacuum(256)"
	return list
}
