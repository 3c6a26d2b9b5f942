package sqlite_test

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

// Open leaves alone what is not its own, or of another format, and says what to do.
func TestRefused(t *testing.T) {
	database := func(script string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", path)
			require.NoError(t, err)
			_, err = db.Exec(script)
			require.NoError(t, err)
			require.NoError(t, db.Close())
			require.NoError(t, os.Chmod(path, 0o600))
		}
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
		"an earlier format": {database("PRAGMA journal_mode = WAL; CREATE TABLE records (key TEXT); PRAGMA application_id = 0x7361674c; PRAGMA user_version = 1001"),
			"earlier format .* move the file away"},
		"a newer format":   {database("CREATE TABLE records (key TEXT); PRAGMA application_id = 0x7361674c; PRAGMA user_version = 3000"), "newer format .* use the newer program"},
		"another database": {database("CREATE TABLE accounts (id INTEGER)"), "database of another program"},
		"a text":           {write("This is a text about something else, long enough to be something.", 0o600), "no ledger"},
		"readable":         {write("", 0o644), "run chmod 600 '.*'"},
		"a directory":      {func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			path := somePath(t)
			c.make(t, path)
			before, _ := os.ReadFile(path)
			s, err := sqlite.Open(t.Context(), path)
			require.Regexp(t, c.says, err)
			assert.Nil(t, s)
			assert.ErrorContains(t, err, path)
			after, _ := os.ReadFile(path)
			assert.Equal(t, before, after)
		})
	}
	missing := filepath.Join(t.TempDir(), "mistyped", "ledger.db")
	_, err := sqlite.Open(t.Context(), missing)
	require.ErrorContains(t, err, "there is no directory "+filepath.Dir(missing))
	assert.NoDirExists(t, filepath.Dir(missing))
	_, err = sqlite.Open(t.Context(), "")
	assert.ErrorContains(t, err, "no file is named")
}

// A later program may add to the tables, while this one works and when it begins.
func TestTablesOfALaterProgram(t *testing.T) {
	path := somePath(t)
	s := opened(t, path)
	look(t, path, "ALTER TABLE records ADD COLUMN later TEXT; PRAGMA user_version = 2999")
	require.NoError(t, put(t.Context(), s, "a", 0))
	require.NoError(t, s.Close())
	require.NoError(t, put(t.Context(), opened(t, path), "b", 0))
}

// Only the owner can read what is in the ledger, even if it is to be had only as sealed.
func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	path := filepath.Join(dir, "ledger?x=1&mode=memory#%41.db") // not an option of the driver's
	s := opened(t, path)
	require.NoError(t, put(t.Context(), s, "k", 0))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := []string{}
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode(), f.Name())
		names = append(names, f.Name())
	}
	base := filepath.Base(path)
	assert.Subset(t, names, []string{base, base + "-shm", base + "-wal"})
	for _, d := range []string{dir, filepath.Dir(dir)} {
		info, err := os.Stat(d)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	}
	require.NoError(t, os.Chmod(dir, 0o777))
	_, err = sqlite.Open(t.Context(), path)
	assert.ErrorContains(t, err, "run chmod o-w "+dir)
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	require.NoError(t, opened(t, path).Close())
	require.NoError(t, s.Close())
	_, err = os.Stat(path + "-wal")
	assert.ErrorIs(t, err, os.ErrNotExist, "when the last handle is closed, all is in the file itself")
}

// A program's store acknowledges what is on the disk, though those of other tests may be hastier.
func TestProgramsWaitForTheDisk(t *testing.T) {
	path := somePath(t)
	s, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	defer s.Close()
	for pragma, want := range map[string]int64{"synchronous": 2, "fullfsync": 1, "checkpoint_fullfsync": 1} {
		got, err := sqlite.Pragma(s, pragma)
		require.NoError(t, err)
		assert.Equal(t, want, got, pragma)
	}
	assert.Equal(t, "wal", look(t, path, "PRAGMA journal_mode"))
}

// Open waits for a process that has locked the file no longer than its context lasts.
func TestOpenWhileLocked(t *testing.T) {
	path := somePath(t)
	require.NoError(t, opened(t, path).Close())
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, q := range []string{"PRAGMA locking_mode = EXCLUSIVE", "BEGIN IMMEDIATE"} {
		_, err = db.Exec(q)
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = sqlite.OpenPatient(ctx, path, time.Hour)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = sqlite.OpenPatient(t.Context(), path, 100*time.Millisecond)
	assert.ErrorContains(t, err, "another process has locked it")
}

// What is written into a removed file is lost: so nothing is.
func TestFileIsRemoved(t *testing.T) {
	for _, suffix := range []string{"", "-wal"} {
		t.Run("ledger.db"+suffix, func(t *testing.T) {
			path := somePath(t)
			s := opened(t, path)
			ctx := t.Context()
			require.NoError(t, put(ctx, s, "k", 0))
			require.NoError(t, os.Rename(path+suffix, path+".away"))
			assert.ErrorContains(t, put(ctx, s, "new", 0), "was removed or replaced")
			assert.ErrorContains(t, load(ctx, s, "k"), "was removed or replaced")
			_, err := s.Check(ctx)
			assert.ErrorContains(t, err, "was removed or replaced")
			require.NoError(t, os.WriteFile(path+suffix, nil, 0o600))
			assert.ErrorContains(t, put(ctx, s, "new", 0), "was removed or replaced")
			require.NoError(t, os.Rename(path+".away", path+suffix))
			assert.NoError(t, put(ctx, s, "new", 0), "when it is back")
		})
	}
}

// A damaged file is reported as such.
func TestFileIsDamaged(t *testing.T) {
	path := somePath(t)
	s := opened(t, path)
	for i := range 200 {
		require.NoError(t, put(t.Context(), s, strconv.Itoa(i), 1000))
	}
	require.NoError(t, s.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := 8192; i < len(content); i++ {
		content[i] = byte(rand.Uint32())
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
	s, err = sqlite.Open(t.Context(), path)
	if err == nil {
		defer s.Close()
		err = load(t.Context(), s, "7")
		assert.ErrorContains(t, put(t.Context(), s, "new", 0), "the file is damaged")
	}
	assert.ErrorContains(t, err, "the file is damaged")
	assert.ErrorContains(t, err, path)
	require.NoError(t, os.WriteFile(path, content[:5000], 0o600))
	_, err = sqlite.Open(t.Context(), path)
	assert.ErrorContains(t, err, "the file is damaged", "cut off")
}

// A check tries each table that records are written to, and leaves nothing in them.
func TestCheckTriesAllTables(t *testing.T) {
	for _, table := range []string{"records", "states", "items"} {
		path := somePath(t)
		s := opened(t, path)
		_, err := s.Check(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "0", look(t, path, "SELECT count(*) FROM "+table))
		look(t, path, "ALTER TABLE "+table+" RENAME TO away")
		_, err = s.Check(t.Context())
		assert.ErrorContains(t, err, "no such table: "+table)
		look(t, path, "ALTER TABLE away RENAME TO "+table)
		_, err = s.Check(t.Context())
		assert.NoError(t, err)
	}
}

// What is in the file can be looked at without the package: what is asked by is in the clear.
func TestClear(t *testing.T) {
	path := somePath(t)
	s := opened(t, path)
	wake := time.Date(2031, 1, 2, 3, 4, 5, 6000, time.UTC)
	r := sample(named("k"), 10)
	r.Wake = wake
	require.NoError(t, s.Write(t.Context(), r, store.Change{Items: []store.Item{{Kind: "begun"}}}))
	assert.Equal(t, strconv.FormatInt(wake.UnixMicro(), 10), look(t, path, "SELECT due FROM records WHERE audience = 'a' AND tool = 't' AND status = 'waiting'"))
	assert.Equal(t, "begun", look(t, path, "SELECT kind FROM items"))
	assert.Equal(t, "10", look(t, path, "SELECT length(body) FROM states"))
	r.Status, r.State = store.Ended, nil
	require.NoError(t, s.Write(t.Context(), r, one))
	assert.Equal(t, "0", look(t, path, "SELECT count(*) FROM states"), "a large state is released at once")
}

// A clock that is set back does not take the store's time back.
func TestClockIsSetBack(t *testing.T) {
	s := opened(t, somePath(t))
	before, err := s.Check(t.Context())
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), before, time.Minute)
	sqlite.Advance(s, time.Hour)
	r := sample(named("k"), 0)
	require.NoError(t, s.Write(t.Context(), r, one))
	assert.False(t, r.Now.Before(before.Add(time.Hour)))
	now, err := s.Check(t.Context())
	require.NoError(t, err)
	assert.False(t, now.Before(r.Now))

	// Nor does it stop it: what is to wake in a while wakes.
	r.Wake, r.Status = now.Add(20*time.Millisecond), store.Sleeping
	require.NoError(t, s.Write(t.Context(), r, one))
	assert.EventuallyWithT(t, func(t *assert.CollectT) {
		taken, _, err := s.Take(context.Background(), store.Take{
			Audience: r.Audience, Tools: []store.Tool{{Name: r.Tool, Revision: r.Revision}}, Format: r.Format, Limit: 1, Lease: time.Minute,
		})
		require.NoError(t, err)
		assert.Len(t, taken, 1)
	}, 10*time.Second, 10*time.Millisecond)
}

// A copy of a ledger in use, made as its documents say, is a ledger.
func TestCopyOfALedgerInUse(t *testing.T) {
	path, copied := somePath(t), somePath(t)
	s, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	defer s.Close()
	id, err := s.Identity(t.Context())
	require.NoError(t, err)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.Exec("VACUUM INTO ?", copied)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.NoError(t, os.Chmod(copied, 0o600))
	again, err := sqlite.Open(t.Context(), copied)
	require.NoError(t, err)
	defer again.Close()
	same, err := again.Identity(t.Context())
	require.NoError(t, err)
	assert.Equal(t, id, same)
}
