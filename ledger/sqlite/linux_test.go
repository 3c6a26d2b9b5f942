//go:build linux

package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

func init() {
	children["full"], children["readonly"], children["wait"] = childFull, childReadOnly, childWait
}

// ownsNothing is a user that owns nothing.
const ownsNothing = 65534

// A disk that is full costs no record that was acknowledged, and when there is room again, all goes on.
func TestDiskIsFull(t *testing.T) {
	path := somePath(t)
	require.NoError(t, opened(t, path).Close())
	c := start(t, "full", path, "")
	require.NoError(t, c.Wait())
}

// childFull may write files of a megabyte at most.
func childFull(ctx context.Context, path, _ string) error {
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	limited := syscall.Rlimit{Cur: 1 << 20, Max: old.Max}
	return with(ctx, path, func(s store.Store) error {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited); err != nil {
			return err
		}
		n, err := 0, error(nil)
		for ; err == nil && n < 1000; n++ {
			err = put(ctx, s, fmt.Sprint(n), 10_000)
		}
		if err == nil {
			return errors.New("the disk was never full")
		}
		if !strings.Contains(err.Error(), path) {
			return fmt.Errorf("an error without the file's name: %w", err)
		}
		last := n - 1 // perhaps made, if its outcome is unknown
		for range 20 {
			if put(ctx, s, "no room", 10_000) == nil {
				return errors.New("a record was written to a full disk")
			}
		}
		if err := load(ctx, s, "0"); err != nil {
			return fmt.Errorf("reading from a full disk: %w", err)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			return err
		}
		if err := put(ctx, s, "again", 10_000); err != nil {
			return fmt.Errorf("when there is room again: %w", err)
		}
		for i := range n {
			if err := load(ctx, s, fmt.Sprint(i)); err != nil && i != last {
				return fmt.Errorf("record %d of %d: %w", i, n, err)
			}
		}
		return nil
	})
}

// A file that cannot be written is refused when it is opened.
func TestReadOnly(t *testing.T) {
	path := somePath(t)
	require.NoError(t, put(t.Context(), opened(t, path), "k", 0))
	other := filepath.Join(t.TempDir(), "in a directory", "ledger.db")
	require.NoError(t, os.Mkdir(filepath.Dir(other), 0o700))
	require.NoError(t, opened(t, other).Close())
	for _, p := range []string{path, other} { // for another user
		for d := filepath.Dir(p); d != os.TempDir(); d = filepath.Dir(d) {
			require.NoError(t, os.Chmod(d, 0o755))
		}
	}
	if os.Geteuid() == 0 { // root may write everything
		for _, p := range []string{path, filepath.Dir(path), other} {
			require.NoError(t, os.Chown(p, ownsNothing, ownsNothing))
		}
	}
	require.NoError(t, os.Chmod(path, 0o400))
	require.NoError(t, os.Chmod(filepath.Dir(other), 0o555))
	for _, p := range []string{path, other} {
		c := start(t, "readonly", p, "")
		said := c.line()
		assert.Contains(t, said, p)
		assert.Regexp(t, "cannot be (written|opened)", said)
		require.NoError(t, c.Wait())
	}
}

func childReadOnly(ctx context.Context, path, _ string) error {
	if os.Geteuid() == 0 {
		if err := errors.Join(syscall.Setgid(ownsNothing), syscall.Setuid(ownsNothing)); err != nil {
			return err
		}
	}
	_, err := sqlite.Open(ctx, path)
	fmt.Println(err)
	return nil
}

// A file that cannot be opened is not kept open.
func TestRefusedFilesAreClosed(t *testing.T) {
	path := somePath(t)
	require.NoError(t, opened(t, path).Close())
	look(t, path, "PRAGMA user_version = 9999")
	locked := somePath(t)
	require.NoError(t, opened(t, locked).Close())
	db, err := sql.Open("sqlite", locked)
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	_, err = db.Exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE")
	require.NoError(t, err)
	files := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(list)
	}
	before := files()
	for range 5 {
		_, err = sqlite.OpenPatient(t.Context(), path, time.Minute)
		require.ErrorContains(t, err, "newer format")
		_, err = sqlite.OpenPatient(t.Context(), locked, 10*time.Millisecond)
		require.ErrorContains(t, err, "has locked it")
	}
	assert.Less(t, files(), before+5)
}

// To listen while nothing is written hardly computes. What it costs the machine to wake a process
// that often is subtracted.
func TestListeningCostsLittle(t *testing.T) {
	c := start(t, "wait", somePath(t), "")
	var used, bare time.Duration
	inTime(t, "1 ms of CPU per second, or on a slow machine half of what a timer takes", func() bool {
		_, err := c.in.Write([]byte("again\n"))
		require.NoError(t, err)
		_, err = fmt.Sscan(c.line(), &used, &bare)
		require.NoError(t, err)
		t.Logf("%v of CPU per second, and %v for a timer alone", used, bare)
		return used-bare < max(time.Millisecond, bare/2)
	})
	require.NoError(t, c.in.Close())
	require.NoError(t, c.Wait())
}

// childWait says for each line that it reads how much CPU it uses in a second in which it listens, and how
// much in one in which a timer wakes it as often.
func childWait(parent context.Context, path, _ string) error {
	ctx, cancel := context.WithCancel(parent)
	return with(ctx, path, func(s store.Store) error {
		ended := make(chan error)
		listen := func() { ended <- s.Listen(ctx, func(store.ID, uint64) {}) }
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			begin := cpu()
			for t0 := time.Now(); time.Since(t0) < time.Second; {
				time.Sleep(45 * time.Millisecond)
			}
			bare := cpu() - begin
			ctx, cancel = context.WithCancel(parent)
			go listen()
			time.Sleep(1200 * time.Millisecond) // until the file is quiet
			begin = cpu()
			time.Sleep(time.Second)
			fmt.Println(int64(cpu()-begin), int64(bare))
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				return fmt.Errorf("listening ended with %w", err)
			}
		}
		return nil
	})
}

// cpu is how much time this process has computed.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
