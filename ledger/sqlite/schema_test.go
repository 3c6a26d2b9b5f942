package sqlite_test

import (
	"database/sql"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite", to look into databases without the package

	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/ledgertest"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

// What a minor step of the tables may do.
const minor, minorStep = 1002, `
ALTER TABLE records ADD COLUMN colour TEXT NOT NULL DEFAULT 'none';
ALTER TABLE items ADD COLUMN size INTEGER;
CREATE TABLE more (id INTEGER PRIMARY KEY) STRICT;
CREATE INDEX records_colour ON records (colour);
`

// A program and the next one, which has added to the tables, use the same file.
func TestContractOldAndNewProgram(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t testing.TB) ledgertest.Harness {
		only(t, `/(model|concurrency/many)`, "")
		path, handles := somePath(t), 0
		return ledgertest.Harness{Open: func() (s ledger.Store) {
			var err error
			if handles++; handles%2 == 1 {
				s, err = sqlite.OpenPatient(t.Context(), path, long)
			} else {
				s, err = sqlite.OpenNext(t.Context(), path, minor, minorStep)
			}
			require.NoError(t, err)
			return s
		}}
	})
}

// only skips a check of the contract that does not match: the first pattern, the second if somebody asked
// for long tests, and none if SAGA_NIGHTLY is 1. With -short it skips all.
func only(t testing.TB, checks, long string) {
	if testing.Short() {
		t.Skip("goroutines meet as they do in TestContract")
	}
	if longtests.Wanted() {
		checks = long
	}
	if os.Getenv("SAGA_NIGHTLY") != "1" && !regexp.MustCompile(checks).MatchString(t.Name()) {
		t.Skip("TestContract does the same")
	}
}

// The first program and this one use the same file. Many callers at once differ from those of
// TestContractOldAndNewProgram in nothing but the tables, which the model sees as well.
func TestContractFirstProgram(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t testing.TB) ledgertest.Harness {
		only(t, `/model`, `/(record|items|limits|forget|watch|take|list|count|end|model)`)
		path, handles := somePath(t), 0
		return ledgertest.Harness{Open: func() (s ledger.Store) {
			var err error
			if handles++; handles%2 == 1 {
				s, err = sqlite.OpenFirst(t.Context(), path)
			} else {
				s, err = sqlite.OpenPatient(t.Context(), path, long)
			}
			require.NoError(t, err)
			return s
		}}
	})
}

// Lists are the same if they are made as if there were very many records.
func TestContractWalking(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t testing.TB) ledgertest.Harness {
		only(t, `/(list|count|model)`, `/(list|count|model)`)
		path := somePath(t)
		return ledgertest.Harness{Open: func() ledger.Store {
			s, err := sqlite.OpenWalking(t.Context(), path)
			require.NoError(t, err)
			return s
		}}
	})
}

// A file of the first program loses an index that nothing needs any more, and no record.
func TestFirstTablesAreMigrated(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	first, err := sqlite.OpenFirst(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, first.Swap(t.Context(), &ledger.Record{Key: "before", Queue: "q", Wake: time.Now()}))
	const indexes = "SELECT group_concat(name, ' ' ORDER BY name) FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
	assert.Equal(t, "records_due records_keep records_list records_owner", query(t, path, indexes))
	s := opened(t, path)
	assert.Equal(t, "records_due records_keep records_owner", query(t, path, indexes))
	assert.Equal(t, "1001", query(t, path, "PRAGMA user_version"))
	for _, s := range []ledger.Store{first, s} { // the first program goes on
		list, err := s.List(t.Context(), []string{"q"}, "", 10)
		require.NoError(t, err)
		require.Len(t, list, 1)
		require.NoError(t, s.Swap(t.Context(), list[0]))
	}
	require.NoError(t, first.Close())
}

// A list walks through as many records as it takes.
func TestListWalks(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	require.NoError(t, opened(t, path).Close())
	query(t, path, `INSERT INTO records (key, rev, queue, wake, body) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3500)
		SELECT printf('%04d', i), 1, iif(i IN (500, 3400, 3499), 'q', 'other'), iif(i = 3400, NULL, i), x'' FROM n`)
	s, err := sqlite.OpenWalking(t.Context(), path)
	require.NoError(t, err)
	defer s.Close()
	for after, want := range map[string]string{"": "0500", "0500": "3499", "3499": ""} {
		list, err := s.List(t.Context(), []string{"q"}, after, 1)
		require.NoError(t, err)
		got := ""
		for _, r := range list {
			got += r.Key
		}
		assert.Equal(t, want, got, after)
	}
}

// query looks into a database without the package.
func query(t testing.TB, path, q string) (s string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	if err := db.QueryRow(q).Scan(&s); err != sql.ErrNoRows {
		require.NoError(t, err, q)
	}
	return s
}

// Several processes find old tables at once: one of them changes them.
func TestManyMigrate(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	require.NoError(t, opened(t, path).Swap(t.Context(), &ledger.Record{Key: "before"}))
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			s, err := sqlite.OpenNext(t.Context(), path, minor, minorStep)
			if assert.NoError(t, err) {
				_, err = s.Load(t.Context(), "before")
				assert.NoError(t, err)
				assert.NoError(t, s.Close())
			}
		})
	}
	all.Wait()
	assert.Equal(t, "1002", query(t, path, "PRAGMA user_version"))
	assert.Equal(t, "none", query(t, path, "SELECT colour FROM records"))
}

// A step that fails leaves the tables as they were.
func TestMigrationFails(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	require.NoError(t, opened(t, path).Swap(t.Context(), &ledger.Record{Key: "before"}))
	_, err := sqlite.OpenNext(t.Context(), path, minor, minorStep+"CREATE TABLE records (id INTEGER);")
	require.ErrorContains(t, err, "bring its tables to version 1.2")
	assert.Equal(t, "1001", query(t, path, "PRAGMA user_version"))
	_, err = opened(t, path).Load(t.Context(), "before")
	assert.NoError(t, err)
}

// A program that changed what is there shuts out those that do not know of it, also those that have the file open.
func TestNewerMajorVersionIsRefused(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	old := opened(t, path)
	require.NoError(t, old.Swap(t.Context(), &ledger.Record{Key: "k"}))
	s, err := sqlite.OpenNext(t.Context(), path, 2000, "ALTER TABLE records ADD COLUMN meaning TEXT")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	assert.ErrorContains(t, old.Swap(t.Context(), &ledger.Record{Key: "k", Rev: 1}), "a newer version of this program")
	assert.Equal(t, "1", query(t, path, "SELECT rev FROM records"))
	_, err = sqlite.Open(t.Context(), path)
	assert.ErrorContains(t, err, "a newer version of this program")
}

// Open leaves alone what is not its own.
func TestNotALedger(t *testing.T) {
	t.Parallel()
	other := func(t *testing.T, path string) {
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		_, err = db.Exec("CREATE TABLE accounts (id INTEGER)")
		require.NoError(t, err)
		require.NoError(t, db.Close())
		require.NoError(t, os.Chmod(path, 0o600))
	}
	write := func(content string, mode os.FileMode) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte(content), mode))
			require.NoError(t, os.Chmod(path, mode))
		}
	}
	for name, c := range map[string]struct {
		make func(*testing.T, string)
		says string
	}{
		"another database": {other, "database of another program"},
		"a text":           {write("This is a text about something else, long enough to be something.", 0o600), "no ledger"},
		"readable":         {write("", 0o644), "run chmod 600"},
		"a directory":      {func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			path := somePath(t)
			c.make(t, path)
			before, _ := os.ReadFile(path)
			_, err := sqlite.Open(t.Context(), path)
			require.ErrorContains(t, err, c.says)
			assert.ErrorContains(t, err, path)
			after, _ := os.ReadFile(path)
			assert.Equal(t, before, after)
		})
	}
	_, err := sqlite.Open(t.Context(), "")
	assert.ErrorContains(t, err, "no file is named")
}

// No statement looks at more records than it needs.
func TestStatementsUseIndexes(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	s := opened(t, path)
	queries, err := sqlite.Queries(t.Context(), s)
	require.NoError(t, err)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	searches := 0
	for _, q := range queries {
		rows, err := db.Query("EXPLAIN QUERY PLAN "+q, make([]any, strings.Count(q, "?"))...)
		require.NoError(t, err, q)
		for rows.Next() {
			var id, parent, unused int
			var step string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &step))
			if regexp.MustCompile("records|items").MatchString(step) {
				searches++
				assert.Regexp(t, "^SEARCH .* USING ", step, q)
			}
			assert.NotContains(t, step, "TEMP B-TREE", q)
		}
		require.NoError(t, rows.Err())
	}
	assert.Greater(t, searches, 10)
}
