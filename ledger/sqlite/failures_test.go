package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

// patientFor opens a store that waits so long for others that write; it is closed when the test ends.
func patientFor(t testing.TB, path string, patience time.Duration) ledger.Store {
	t.Helper()
	s, err := sqlite.OpenPatient(t.Context(), path, patience)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

// somebodyWaits returns when a store waits for another process to let go of the file, which it shows by
// a lock beside it.
func somebodyWaits(t testing.TB, path string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		sign := flock.New(path + "-wait")
		got, err := sign.TryLock()
		require.NoError(t, err)
		require.NoError(t, sign.Close())
		if !got {
			return
		}
		require.True(t, time.Now().Before(end), "nobody waits")
	}
}

// Another process that does not let go of the file costs time and loses nothing.
func TestLockedForLong(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	s := patientFor(t, path, 100*time.Millisecond)
	r := &ledger.Record{Key: "k", Body: []byte("one")}
	require.NoError(t, s.Swap(t.Context(), r))
	c := start(t, "hold", path)
	require.Equal(t, "locked", c.line())

	r.Body = []byte("two")
	begin := time.Now()
	err := s.Swap(t.Context(), r)
	assert.ErrorContains(t, err, "another process has locked it")
	assert.NotErrorIs(t, err, ledger.ErrUnknown)
	assert.Less(t, time.Since(begin), 5*time.Second, "as long as a store waits by default")
	_, err = s.Now(t.Context())
	assert.Error(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = s.Swap(ctx, r) // whose context ends before it begins, unless the machine is very busy
	assert.Error(t, err)
	assert.NotErrorIs(t, err, ledger.ErrUnknown)
	got, err := s.Load(t.Context(), "k") // reading goes on
	require.NoError(t, err)
	assert.Equal(t, "one", string(got.Body))
	other := opened(t, path) // and so does opening
	_, err = other.Load(t.Context(), "k")
	assert.NoError(t, err)

	waiting, done := patientFor(t, path, time.Hour), make(chan error, 1)
	go func() { done <- waiting.Swap(t.Context(), r) }()
	somebodyWaits(t, path)
	require.NoError(t, c.in.Close())
	require.NoError(t, <-done, "who waited long enough")
	assert.EqualValues(t, 2, r.Rev)
	require.NoError(t, s.Swap(t.Context(), r), "who had given up, when it is free again")
}

// Who waits for a process that gets on with what it writes waits for as long as his context lasts; so
// does who opens a file whose tables he has to change.
func TestLockedByWhoGetsOn(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(ctx context.Context, s ledger.Store, path string, patience time.Duration) error{
		"a change": func(ctx context.Context, s ledger.Store, _ string, _ time.Duration) error {
			return s.Swap(ctx, &ledger.Record{Key: "k"})
		},
		"newer tables": func(ctx context.Context, _ ledger.Store, path string, patience time.Duration) error {
			s, err := sqlite.OpenPatient(ctx, path, patience)
			if err == nil {
				err = s.Close()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A machine that is busy may keep the other process from getting on for that long.
			for patience := 300 * time.Millisecond; ; patience *= 2 {
				path := somePath(t)
				first, err := sqlite.OpenFirst(t.Context(), path)
				require.NoError(t, err)
				require.NoError(t, first.Close())
				var s ledger.Store
				if name == "a change" {
					s = patientFor(t, path, patience)
				}
				db, err := sql.Open("sqlite", path)
				require.NoError(t, err)
				defer db.Close()
				db.SetMaxOpenConns(1)
				for _, q := range []string{"PRAGMA cache_size = 1", "BEGIN IMMEDIATE", "CREATE TABLE other (b)"} {
					_, err = db.Exec(q)
					require.NoError(t, err)
				}
				done := make(chan error, 1)
				go func() { done <- write(t.Context(), s, path, patience) }()
				somebodyWaits(t, path)
				begin := time.Now()
				last, longest := begin, time.Duration(0)
				for last.Sub(begin) < 4*patience {
					_, err = db.Exec("INSERT INTO other VALUES (randomblob(50000))") // more than it keeps in memory
					require.NoError(t, err)
					longest, last = max(longest, time.Since(last)), time.Now()
					time.Sleep(patience / 30)
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience/10)
				err = write(ctx, s, path, patience)
				cancel()
				gaveUp := error(nil)
				select {
				case gaveUp = <-done:
				default:
				}
				if longest = max(longest, time.Since(last)); longest > patience/2 && patience < 10*time.Second {
					t.Logf("the other process wrote nothing for %v", longest)
					continue
				}
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NoError(t, gaveUp, "it has not waited")
				_, err = db.Exec("ROLLBACK")
				require.NoError(t, err)
				require.NoError(t, <-done)
				return
			}
		})
	}
}

// Open waits for who has locked the file no longer than its context lasts.
func TestOpenWhileLocked(t *testing.T) {
	t.Parallel()
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
}

// Close does not wait for who has locked the file.
func TestCloseWhileLocked(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	s := patientFor(t, path, time.Hour)
	c := start(t, "hold", path)
	require.Equal(t, "locked", c.line())
	done := make(chan error, 1)
	go func() { done <- s.Swap(t.Context(), &ledger.Record{Key: "k"}) }()
	somebodyWaits(t, path)
	require.NoError(t, s.Close())
	assert.ErrorIs(t, <-done, ledger.ErrClosed)
}

// A change whose context ends tells the truth about it.
func TestContextsEndAtAnyMoment(t *testing.T) {
	s := opened(t, somePath(t))
	outcomes := map[string]error{}
	succeeded := 0
	// How long a change takes depends on the disk, so contexts last longer until some were in time.
	for longest := 3 * time.Millisecond; succeeded == 0 && longest < time.Minute; longest *= 2 {
		var mu sync.Mutex
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() {
				for i := range 100 {
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(longest))
					key := fmt.Sprintf("%v-%d-%d", longest, w, i)
					err := s.Swap(ctx, &ledger.Record{Key: key, Body: []byte("x")}, ledger.Item{N: 1})
					cancel()
					mu.Lock()
					outcomes[key] = err
					if err == nil {
						succeeded++
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
	}
	// What was unknown is known when a later change is made.
	require.NoError(t, s.Swap(t.Context(), &ledger.Record{Key: "last"}))
	done, unknown, not := 0, 0, 0
	for key, outcome := range outcomes {
		_, err := s.Load(t.Context(), key)
		switch {
		case outcome == nil:
			done++
			assert.NoError(t, err, "%s was acknowledged", key)
		case errors.Is(outcome, ledger.ErrUnknown):
			unknown++
			assert.ErrorIs(t, outcome, context.DeadlineExceeded)
		default:
			not++
			assert.ErrorIs(t, outcome, context.DeadlineExceeded)
			assert.ErrorIs(t, err, ledger.ErrNotFound, "%s was refused", key)
		}
	}
	t.Logf("done %d, unknown %d, not begun %d", done, unknown, not)
	assert.NotZero(t, done)
	assert.NotZero(t, unknown+not)
}

// What is acknowledged while the store is closed is there, and what is refused is not.
func TestCloseWhileBusy(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	s := opened(t, path)
	type outcome struct {
		key string
		err error
	}
	var mu sync.Mutex
	var outcomes []outcome
	busy := make(chan struct{})
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := 0; ; i++ {
				o := outcome{key: fmt.Sprint(w, "-", i)}
				o.err = s.Swap(context.Background(), &ledger.Record{Key: o.key})
				mu.Lock()
				if outcomes = append(outcomes, o); len(outcomes) == 50 {
					close(busy)
				}
				mu.Unlock()
				if o.err != nil {
					return
				}
			}
		})
	}
	<-busy
	for range 2 {
		all.Go(func() { assert.NoError(t, s.Close()) })
	}
	all.Wait()
	s = opened(t, path)
	refused := 0
	for _, o := range outcomes {
		_, err := s.Load(t.Context(), o.key)
		if o.err == nil {
			assert.NoError(t, err, "%s was acknowledged", o.key)
		} else {
			refused++
			assert.ErrorIs(t, o.err, ledger.ErrClosed)
			assert.ErrorIs(t, err, ledger.ErrNotFound, "%s was refused", o.key)
		}
	}
	assert.Equal(t, 16, refused)
}

// What is written into a removed file is lost: so nothing is.
func TestFileIsRemoved(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"", "-wal"} {
		t.Run("ledger.db"+suffix, func(t *testing.T) {
			path := somePath(t)
			s := opened(t, path)
			ctx := t.Context()
			r := &ledger.Record{Key: "k"}
			require.NoError(t, s.Swap(ctx, r))
			watched := make(chan error, 1)
			go func() {
				for _, err := range s.Watch(ctx, "k", 1) {
					watched <- err
				}
			}()
			require.NoError(t, os.Rename(path+suffix, path+".away"))
			assert.ErrorContains(t, s.Swap(ctx, r), "was removed or replaced")
			_, err := s.Load(ctx, "k")
			assert.ErrorContains(t, err, "was removed or replaced")
			assert.ErrorContains(t, <-watched, "was removed or replaced")
			require.NoError(t, os.WriteFile(path+suffix, nil, 0o600))
			assert.ErrorContains(t, s.Swap(ctx, r), "was removed or replaced")
			require.NoError(t, os.Rename(path+".away", path+suffix))
			assert.NoError(t, s.Swap(ctx, r), "when it is back")
		})
	}
}

// A damaged file is reported as such, and never read as one that holds less.
func TestFileIsDamaged(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	s := opened(t, path)
	for i := range 200 {
		require.NoError(t, s.Swap(t.Context(), &ledger.Record{Key: fmt.Sprint(i), Body: make([]byte, 1000)}))
	}
	require.NoError(t, s.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := 4096; i < len(content); i++ {
		content[i] = byte(rand.Uint32())
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
	s = opened(t, path) // which looks at the first page only
	for name, do := range map[string]func() error{
		"Load":  func() error { _, err := s.Load(t.Context(), "7"); return err },
		"Swap":  func() error { return s.Swap(t.Context(), &ledger.Record{Key: "new"}) },
		"Items": func() error { _, err := s.Items(t.Context(), "7", 0, 1); return err },
		"Take": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := s.Take(ctx, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Minute})
			return err
		},
		"List":   func() error { _, err := s.List(t.Context(), []string{"q"}, "", 1); return err },
		"Owned":  func() error { _, err := s.Owned(t.Context(), []string{"o"}, "", 1); return err },
		"Count":  func() error { _, err := s.Count(t.Context(), "o", 1); return err },
		"Forget": func() error { _, err := s.Forget(t.Context(), 1); return err },
	} {
		err := do()
		assert.ErrorContains(t, err, "the file is damaged", name)
		assert.ErrorContains(t, err, path, name)
	}

	require.NoError(t, os.WriteFile(path, content[:5000], 0o600))
	_, err = sqlite.Open(t.Context(), path)
	assert.ErrorContains(t, err, "the file is damaged", "cut off")
}

// Nobody else can read what is in the ledger, even if it is to be had only as sealed.
func TestModes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "ledger?x=1&mode=memory#%41.db") // not an option of the driver's
	s := opened(t, path)
	require.NoError(t, s.Swap(t.Context(), &ledger.Record{Key: "k"}))
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
