package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/leaktest"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

// childEnv names what a process that a test has started is to do.
const childEnv = "LEDGER_SQLITE_TEST_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		if err := children[name](os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
		return
	}
	// Tests wait a lot, each with a file of its own; but where they sync, they share the disk. -parallel
	// and -rapid.checks change it.
	parallel, sequences := "8", "40"
	if longtests.Wanted() {
		parallel, sequences = "4", "100"
	}
	if err := errors.Join(flag.Set("test.parallel", parallel), flag.Set("rapid.checks", sequences)); err != nil {
		panic(err)
	}
	leaktest.Main(m)
}

// children are what other processes do with a ledger.
var children = map[string]func(path string, args []string) error{
	"open": childOpen, "count": childCount, "write": childWrite, "echo": childEcho, "hold": childHold, "busy": childBusy,
}

// child is a process that a test has started: this test binary again.
type child struct {
	*exec.Cmd
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts a child, which is killed when the test ends.
func start(t *testing.T, name string, args ...string) *child {
	t.Helper()
	return started(t, name, exec.Command(os.Args[0], args...))
}

func started(t *testing.T, name string, cmd *exec.Cmd) *child {
	t.Helper()
	c := &child{Cmd: cmd, t: t}
	c.Env = append(os.Environ(), childEnv+"="+name)
	c.Stderr = os.Stderr
	var err error
	c.in, err = c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	c.out = bufio.NewReader(out)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	return c
}

// line is the next line that the child writes.
func (c *child) line() string {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	require.NoError(c.t, err)
	return line[:len(line)-1]
}

func with(path string, do func(context.Context, ledger.Store) error) error {
	s, err := sqlite.OpenPatient(context.Background(), path, long)
	if err != nil {
		return err
	}
	return using(s, do)
}

func using(s ledger.Store, do func(context.Context, ledger.Store) error) error {
	return errors.Join(do(context.Background(), s), s.Close())
}

// childOpen opens the ledger when it is told to, and writes one record.
func childOpen(path string, args []string) error {
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return with(path, func(ctx context.Context, s ledger.Store) error {
		return s.Swap(ctx, &ledger.Record{Key: args[0]})
	})
}

// childCount adds one to the record "row", as often as it is told.
func childCount(path string, args []string) error {
	n, _ := strconv.Atoi(args[0])
	return with(path, func(ctx context.Context, s ledger.Store) error { return countUp(ctx, s, n) })
}

func countUp(ctx context.Context, s ledger.Store, n int) error {
	for range n {
		for {
			r, err := s.Load(ctx, "row")
			if err != nil {
				return err
			}
			count, _ := strconv.Atoi(string(r.Body))
			r.Body = strconv.AppendInt(nil, int64(count)+1, 10)
			if err = s.Swap(ctx, r); err == nil {
				break
			} else if !errors.Is(err, ledger.ErrConflict) {
				return err
			}
		}
	}
	return nil
}

// childWrite creates records by 16 goroutines until it is killed, and writes the key of each
// that is acknowledged.
func childWrite(path string, args []string) error {
	return with(path, func(ctx context.Context, s ledger.Store) error {
		var all sync.WaitGroup
		for w := range 16 {
			all.Go(func() {
				for i := 0; ; i++ {
					r := &ledger.Record{Key: fmt.Sprintf("%s-%d-%d", args[0], w, i), Body: make([]byte, 1024)}
					if err := s.Swap(ctx, r); err != nil {
						panic(err)
					}
					_, _ = os.Stdout.WriteString(r.Key + "\n")
				}
			})
		}
		all.Wait()
		return nil
	})
}

// childBusy changes a record of its own without a break, from 4 goroutines, until its
// standard input ends, and says how often.
func childBusy(path string, args []string) error {
	ctx, stop := context.WithCancel(context.Background())
	return with(path, func(_ context.Context, s ledger.Store) error {
		var all sync.WaitGroup
		var mu sync.Mutex
		sum := 0
		fmt.Println("ready")
		for w := range 4 {
			all.Go(func() {
				r := &ledger.Record{Key: args[0] + strconv.Itoa(w)}
				for s.Swap(ctx, r) == nil {
				}
				mu.Lock()
				defer mu.Unlock()
				sum += int(r.Rev)
			})
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
		all.Wait()
		fmt.Println(sum)
		return nil
	})
}

// childEcho changes the record "row" for each line of its standard input, or adds a record that
// is due, and writes the time at which that was acknowledged.
func childEcho(path string, _ []string) error {
	return with(path, func(ctx context.Context, s ledger.Store) error {
		row := &ledger.Record{Key: "row"}
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			r := row
			if lines.Text() == "due" {
				r = &ledger.Record{Key: strconv.FormatInt(time.Now().UnixNano(), 10), Queue: "q", Wake: time.Now()}
			}
			if err := s.Swap(ctx, r); err != nil {
				return err
			}
			fmt.Println(time.Now().UnixNano())
		}
		return nil
	})
}

// childHold locks the database until its standard input ends.
func childHold(path string, _ []string) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	fmt.Println("locked")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}
