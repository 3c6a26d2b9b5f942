package sqlite

import (
	"errors"
	"fmt"
)

const (
	applicationID = 0x7361674c // says in the file's header that it is a ledger: "sagL"
	format        = 2000       // the file's user_version; those below are of ledgers that kept no logs
	nextFormat    = 3000       // the first that this program cannot use: until then, later programs only add to the tables
)

// schema are the tables. What may be large is in tables of its own, so that to take, renew or list a record does not touch
// it. due is when a record can be taken. Its index has with it what says who can drive the record, so that what a server
// cannot drive is passed over within the index. (SQLite does not answer from an index alone what asks for a generated column.)
const schema = `
CREATE TABLE records (
	n        INTEGER PRIMARY KEY,
	id       BLOB NOT NULL UNIQUE,
	audience TEXT NOT NULL,
	owner    BLOB,
	account  BLOB,
	request  BLOB,
	tool     TEXT NOT NULL,
	revision INTEGER NOT NULL,
	format   INTEGER NOT NULL,
	mode     TEXT NOT NULL,
	status   TEXT NOT NULL,
	fence    INTEGER NOT NULL,
	head     INTEGER NOT NULL,
	seen     INTEGER NOT NULL, -- head when it was last written: what follows is unread
	floor    INTEGER NOT NULL,
	tries    INTEGER NOT NULL,
	lease    INTEGER NOT NULL, -- when it is over, or 0; times are microseconds since 1970
	wake     INTEGER,
	keep     INTEGER,
	created  INTEGER NOT NULL,
	updated  INTEGER NOT NULL,
	due      INTEGER CHECK (due IS max(wake, lease)),
	summary  BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX records_request ON records (request) WHERE request IS NOT NULL;
CREATE INDEX records_due     ON records (audience, tool, due, revision, format) WHERE due IS NOT NULL;
CREATE INDEX records_owner   ON records (audience, owner, mode, created, id) WHERE owner IS NOT NULL;
CREATE INDEX records_status  ON records (audience, status, created, id, mode);
CREATE INDEX records_account ON records (audience, account, mode, created, id, status) WHERE status NOT IN ('ended', 'outstanding');
CREATE INDEX records_keep    ON records (keep) WHERE keep IS NOT NULL;
CREATE TABLE states (
	record INTEGER PRIMARY KEY, -- records.n
	body   BLOB NOT NULL
) STRICT;
CREATE TABLE items (
	record  INTEGER NOT NULL, -- records.n
	n       INTEGER NOT NULL,
	kind    TEXT NOT NULL,
	lasting INTEGER NOT NULL,
	at      INTEGER NOT NULL,
	body    BLOB NOT NULL,
	PRIMARY KEY (record, n)
) STRICT, WITHOUT ROWID;
CREATE TABLE ledger (
	n  INTEGER PRIMARY KEY,
	id BLOB NOT NULL
) STRICT;
INSERT INTO ledger VALUES (1, randomblob(16));
`

// prepareFile checks that the database is a ledger, or empty, and makes the tables in an empty one. Nothing
// is written into a file that is not ours.
func (c *conn) prepareFile() error {
	found, err := c.format()
	if err != nil {
		return err
	}
	if found == 0 {
		// What must be set before the first table is there: pages that become free can be given back to the
		// file system.
		if err := c.script("PRAGMA auto_vacuum = INCREMENTAL"); err != nil {
			return err
		}
	}
	mode := "" // readers do not wait for the writer; a copy that VACUUM INTO has made is in another mode
	if _, err := c.each("PRAGMA journal_mode = WAL", func(r *row) { mode = r.ColumnText(0) }); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("its journal mode is %q instead of wal: is it on a network file system?", mode)
	}
	if found != 0 {
		return nil
	}
	if err := c.script("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	if found, err = c.format(); err == nil && found == 0 { // again, as now no other process makes them
		err = c.script(fmt.Sprintf("%s; PRAGMA application_id = %d; PRAGMA user_version = %d", schema, applicationID, format))
	}
	if err == nil {
		return c.script("COMMIT")
	}
	return errors.Join(err, c.script("ROLLBACK"))
}

// format is that of the tables, or 0 if there are none yet. It fails if the database is not a ledger, or
// one of another format.
func (c *conn) format() (found int, err error) {
	var application, tables int
	// One statement, so that what is read belongs together.
	_, err = c.each(`SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_application_id, pragma_user_version`, func(r *row) {
		application, found, tables = r.ColumnInt(0), r.ColumnInt(1), r.ColumnInt(2)
	})
	switch {
	case err != nil || application == 0 && found == 0 && tables == 0:
		return 0, err
	case application != applicationID:
		return 0, errors.New("the file is a database of another program, not a ledger")
	case found < format:
		return 0, fmt.Errorf("it is of an earlier format (%d, where this program has %d), which cannot be read any more: "+
			"let the program that made it finish what is in it, then move the file away, and a new ledger is begun", found, format)
	case found >= nextFormat:
		return 0, fmt.Errorf("it is of a newer format (%d, where this program has %d): use the newer program", found, format)
	}
	return found, nil
}
