package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

const (
	// applicationID says in the file's header that it is a ledger: "sagL".
	applicationID = 0x7361674c
	// majorUnit is the factor of the major version in user_version.
	majorUnit = 1000
)

// step brings the tables to a version, from that of the step before. Steps are never
// changed once they are released. See the package's comment for minor and major ones.
type step struct {
	version int
	ddl     string
}

// schema is how the tables came to be. Queue and owner are NULL when empty, so that the
// indexes leave them out. The body comes last: SQLite reads a long row up to the column it needs.
var schema = []step{{majorUnit, `
CREATE TABLE records (
	id    INTEGER PRIMARY KEY,
	key   TEXT NOT NULL UNIQUE,
	rev   INTEGER NOT NULL,
	queue TEXT,
	owner TEXT,
	wake  INTEGER, -- microseconds since 1970
	keep  INTEGER,
	body  BLOB NOT NULL
) STRICT;
CREATE INDEX records_due   ON records (queue, wake) WHERE queue IS NOT NULL AND wake IS NOT NULL;
CREATE INDEX records_list  ON records (queue, key)  WHERE queue IS NOT NULL AND wake IS NOT NULL;
CREATE INDEX records_owner ON records (owner, key)  WHERE owner IS NOT NULL;
CREATE INDEX records_keep  ON records (keep)        WHERE keep IS NOT NULL;
CREATE TABLE items (
	record INTEGER NOT NULL, -- records.id
	n      INTEGER NOT NULL,
	body   BLOB NOT NULL,
	PRIMARY KEY (record, n)
) STRICT, WITHOUT ROWID;
`}, {majorUnit + 1, `
-- A seventh of what a short-lived record cost, for lists that only operators look at: see list.go.
DROP INDEX records_list;
`}}

// initialise are what must be set before the first table is there: pages that become free can be
// given back to the file system, and readers do not wait for the writer.
var initialise = []string{"PRAGMA auto_vacuum = INCREMENTAL", "PRAGMA journal_mode = WAL"}

// retry repeats what fails because others have locked the file, as when many open it at once, for as
// long as they get on.
func (w *writer) retry(ctx context.Context, try func() error) error {
	var others *pulse // once it has to wait for them
	for {
		err := try()
		if err == nil || !isBusy(err) {
			return err
		}
		if others == nil {
			others = newPulse(w.store.path)
			defer w.turn.done()
		}
		if others.idle() > w.store.set.patience {
			return fmt.Errorf("%w (%w)", errLocked, err)
		}
		w.turn.wait()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(jitter(5 * time.Millisecond)):
		}
	}
}

// prepareFile checks that the database is a ledger, or empty, and brings its tables up to
// date. It returns the major version that they have. Nothing is written into a file that is
// not ours.
func prepareFile(c *conn, steps []step) (int, error) {
	newest := steps[len(steps)-1].version
	// One transaction, so that what is read belongs together.
	if err := c.exec("BEGIN"); err != nil {
		return 0, err
	}
	found, err := version(c, newest)
	if end := c.exec("ROLLBACK"); err == nil {
		err = end
	}
	if err != nil {
		return 0, err
	}
	if found == 0 {
		for _, pragma := range initialise {
			if err := c.exec(pragma); err != nil {
				return 0, err
			}
		}
	}
	mode, err := c.ask("PRAGMA journal_mode")
	if err != nil {
		return 0, err
	}
	if mode != "wal" {
		return 0, fmt.Errorf("its journal mode is %q instead of wal: is it on a network file system?", mode)
	}
	if found >= newest {
		return found / majorUnit, nil
	}
	return newest / majorUnit, migrate(c, steps)
}

// version is the version of the tables, 0 if there are none yet. It fails if the database is
// not a ledger, or one that this program does not understand.
func version(c *conn, newest int) (int, error) {
	var application, found, tables int
	for pragma, to := range map[string]*int{
		"PRAGMA application_id": &application, "PRAGMA user_version": &found, "SELECT count(*) FROM sqlite_schema": &tables,
	} {
		text, err := c.ask(pragma)
		if err != nil {
			return 0, err
		}
		if *to, err = strconv.Atoi(text); err != nil {
			return 0, fmt.Errorf("%s: %w", pragma, err)
		}
	}
	switch {
	case application == 0 && found == 0 && tables == 0:
		return 0, nil
	case application != applicationID:
		return 0, errors.New("the file is a database of another program, not a ledger")
	}
	return found, checkMajor(found, newest/majorUnit)
}

// checkMajor refuses tables that a newer program has changed.
func checkMajor(found, major int) error {
	if found/majorUnit > major {
		return fmt.Errorf("a newer version of this program has changed its tables (to version %d.%d, where this one knows %d): use that one",
			found/majorUnit, found%majorUnit, major)
	}
	return nil
}

// migrate takes the steps that are missing, all or none. Of several processes one does so.
func migrate(c *conn, steps []step) (err error) {
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = c.exec("ROLLBACK")
		}
	}()
	found, err := version(c, steps[len(steps)-1].version) // again, as now nobody else changes it
	if err != nil {
		return err
	}
	for _, s := range steps {
		if s.version <= found {
			continue
		}
		set := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, s.version)
		for _, ddl := range []string{s.ddl, set} {
			if err := c.exec(ddl); err != nil {
				return fmt.Errorf("bring its tables to version %d.%d: %w", s.version/majorUnit, s.version%majorUnit, err)
			}
		}
	}
	return c.exec("COMMIT")
}
