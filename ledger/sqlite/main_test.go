package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/leaktest"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

// childEnv names what a process that a test has started is to do.
const childEnv = "STORE_SQLITE_TEST_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		if err := children[name](context.Background(), os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
		return
	}
	if err := flag.Set("rapid.checks", "40"); err != nil { // the flag changes it
		panic(err)
	}
	leaktest.Main(m)
}

// children are what other processes do with the file at a path, given an argument.
var children = map[string]func(ctx context.Context, path, arg string) error{}

// child is a process that a test has started: this test binary again.
type child struct {
	*exec.Cmd
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts a child, which is killed when the test ends.
func start(t *testing.T, name, path, arg string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0], path, arg), t: t}
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

// with opens a store for a child.
func with(ctx context.Context, path string, do func(store.Store) error) error {
	s, err := sqlite.OpenPatient(ctx, path, long)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

// untilEOF returns when standard input ends.
func untilEOF() { _, _ = io.Copy(io.Discard, os.Stdin) }
