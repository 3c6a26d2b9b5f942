//go:build linux

package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

func init() {
	children["full"], children["full before"], children["readonly"], children["wait"] = childFull, childFullBefore, childReadOnly, childWait
}

// nobody is a user that owns nothing.
const nobody = 65534

// A disk that is full costs no record that was acknowledged, and when there is room again, all goes on.
func TestDiskIsFull(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	require.NoError(t, opened(t, path).Close())
	for _, when := range []string{"full before", "full"} {
		c := start(t, when, path)
		require.NoError(t, c.Wait(), when)
	}
}

// childFullBefore may write no files, and opens a ledger.
func childFullBefore(path string, _ []string) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
		return err
	}
	err := with(path, func(context.Context, ledger.Store) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "the disk is full") || !strings.Contains(err.Error(), path) {
		return fmt.Errorf("a full disk is not said to be: %w", err)
	}
	return nil
}

// childFull may write files of a megabyte at most.
func childFull(path string, _ []string) error {
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		return err
	}
	limited := syscall.Rlimit{Cur: 1 << 20, Max: old.Max}
	return with(path, func(ctx context.Context, s ledger.Store) error {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limited); err != nil {
			return err
		}
		put := func(i int) error {
			return s.Swap(ctx, &ledger.Record{Key: fmt.Sprint(i), Body: make([]byte, 10_000)})
		}
		n, err := 0, error(nil)
		for ; err == nil && n < 1000; n++ {
			err = put(n)
		}
		if err == nil {
			return errors.New("the disk was never full")
		}
		if !strings.Contains(err.Error(), path) {
			return fmt.Errorf("an error without the file's name: %w", err)
		}
		last := n - 1 // perhaps done, if its outcome is unknown
		for range 20 {
			if put(n) == nil {
				return errors.New("a record was written to a full disk")
			}
		}
		if _, err := s.Load(ctx, "0"); err != nil {
			return fmt.Errorf("reading from a full disk: %w", err)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			return err
		}
		if err := s.Swap(ctx, &ledger.Record{Key: "again", Body: make([]byte, 10_000)}); err != nil {
			return fmt.Errorf("when there is room again: %w", err)
		}
		for i := range n {
			if _, err := s.Load(ctx, fmt.Sprint(i)); err != nil && i != last {
				return fmt.Errorf("record %d of %d: %w", i, n, err)
			}
		}
		return nil
	})
}

// A file that cannot be written is refused when it is opened.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	path := somePath(t)
	require.NoError(t, opened(t, path).Swap(t.Context(), &ledger.Record{Key: "k"}))
	other := filepath.Join(t.TempDir(), "in a directory", "ledger.db")
	require.NoError(t, opened(t, other).Close())
	for _, p := range []string{path, other} { // for another user
		for d := filepath.Dir(p); d != os.TempDir(); d = filepath.Dir(d) {
			require.NoError(t, os.Chmod(d, 0o755))
		}
	}
	if os.Geteuid() == 0 { // root may write everything
		require.NoError(t, os.Chown(path, nobody, nobody))
		require.NoError(t, os.Chown(filepath.Dir(path), nobody, nobody))
		require.NoError(t, os.Chown(other, nobody, nobody))
	}
	require.NoError(t, os.Chmod(path, 0o400))
	require.NoError(t, os.Chmod(filepath.Dir(other), 0o555))
	for _, p := range []string{path, other} {
		c := start(t, "readonly", p)
		said := c.line()
		assert.Contains(t, said, p)
		assert.Regexp(t, "cannot be (written|opened)", said)
		require.NoError(t, c.Wait())
	}
}

func childReadOnly(path string, _ []string) error {
	if os.Geteuid() == 0 {
		if err := errors.Join(syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			return err
		}
	}
	_, err := sqlite.Open(context.Background(), path)
	fmt.Println(err)
	return nil
}

// cpu is how much time this process has computed.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Who waits for due records hardly computes. What it costs the machine to wake a process
// that often is subtracted.
func TestWaitingCostsLittle(t *testing.T) {
	t.Parallel()
	c := start(t, "wait", somePath(t))
	var used, bare time.Duration
	inTime(t, "5 ms of CPU per second, or on a slow machine what a timer takes, thrice", func() bool {
		_, err := c.in.Write([]byte("again\n"))
		require.NoError(t, err)
		_, err = fmt.Sscan(c.line(), &used, &bare)
		require.NoError(t, err)
		t.Logf("%v of CPU per second, and %v for a timer of 100 ms alone", used, bare)
		return used-bare < max(5*time.Millisecond, 2*bare)
	})
	require.NoError(t, c.in.Close())
	require.NoError(t, c.Wait())
}

// childWait says for each line that it reads how much CPU it uses in a second in which it waits for due
// records, and how much it used in half of one in which a timer woke it, twice.
func childWait(path string, _ []string) error {
	const watched = time.Second
	begin := cpu()
	for t0 := time.Now(); time.Since(t0) < watched/2; {
		time.Sleep(100 * time.Millisecond)
	}
	bare := 2 * (cpu() - begin)
	s, err := sqlite.OpenRestless(context.Background(), path, 100*time.Millisecond)
	if err != nil {
		return err
	}
	return using(s, func(ctx context.Context, s ledger.Store) error {
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan error)
		go func() {
			_, err := s.Take(ctx, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Second})
			done <- err
		}()
		time.Sleep(1200 * time.Millisecond) // until the file is quiet, and SQLite is asked only now and then
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			begin := cpu()
			time.Sleep(watched)
			fmt.Println(int64(cpu()-begin), int64(bare))
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			return fmt.Errorf("waiting ended with %w", err)
		}
		return nil
	})
}

// resident is how much memory this process has.
func resident(t testing.TB) int {
	t.Helper()
	runtime.GC()
	debug.FreeOSMemory()
	content, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	var all, pages int
	_, err = fmt.Sscan(string(content), &all, &pages)
	require.NoError(t, err)
	return pages * os.Getpagesize()
}
