//go:build unix

package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mcpsaga/mcpsaga/saga"
)

// socketPair is what some clients give a server for its standard output.
func socketPair(t *testing.T) (read, write *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	return os.NewFile(uintptr(fds[0]), "here"), os.NewFile(uintptr(fds[1]), "there")
}

func osPipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	return read, write
}

// A client that has closed the output and says nothing more does not keep the server
// alive, though there is nothing to write; what its calls did is undone.
func TestStdioEndsIdleWhenNobodyReads(t *testing.T) {
	t.Parallel()
	for name, streams := range map[string]func(*testing.T) (read, write *os.File){"pipe": osPipe, "socket": socketPair} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool := roomTool(1, map[saga.Key]bool{})
			var undone atomic.Int32
			tool.Effects[0].(*saga.Effect[string, bool]).Undo = func(context.Context, saga.Performed[string, bool]) error {
				undone.Add(1)
				return nil
			}
			s := newStdio(t, tool)
			in, write := io.Pipe()
			defer write.Close()
			read, out := streams(t)
			defer out.Close()
			ended := make(chan error, 1)
			go func() { ended <- s.ServeStdio(t.Context(), in, out) }()
			lines := bufio.NewScanner(read)
			fmt.Fprintln(write, initializeMessage("2025-11-25", everything))
			require.True(t, lines.Scan())
			fmt.Fprintln(write, toolCall(1, "room", `{}`))
			require.True(t, lines.Scan())
			require.Contains(t, lines.Text(), "elicitation/create")
			select {
			case err := <-ended:
				require.Fail(t, "ended although somebody reads", err)
			case <-time.After(2500 * time.Millisecond):
			}
			read.Close()
			select {
			case err := <-ended:
				assert.ErrorIs(t, err, unix.EPIPE)
			case <-time.After(time.Minute):
				t.Fatal("the server lives on")
			}
			assert.Equal(t, int32(1), undone.Load(), "what was done is undone")
		})
	}
}

// A client that has no more to say still reads; and of a file nobody can be gone.
func TestStdioIsNotEndedByWhatStillReads(t *testing.T) {
	t.Parallel()
	t.Run("socket", func(t *testing.T) {
		t.Parallel()
		read, out := socketPair(t)
		defer read.Close()
		defer out.Close()
		require.NoError(t, unix.Shutdown(int(read.Fd()), unix.SHUT_WR))
		goesOn(t, out, func() string {
			lines := bufio.NewScanner(read)
			lines.Scan()
			return lines.Text()
		})
	})
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		require.NoError(t, err)
		defer out.Close()
		goesOn(t, out, func() string {
			all, err := os.ReadFile(out.Name())
			require.NoError(t, err)
			return string(all)
		})
	})
}

// goesOn requires that a server which was idle for a while is there.
func goesOn(t *testing.T, out io.Writer, said func() string) {
	t.Helper()
	in, write := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- newStdio(t).ServeStdio(context.Background(), in, out) }()
	time.Sleep(1500 * time.Millisecond)
	fmt.Fprintln(write, pingMessage)
	write.Close()
	require.NoError(t, <-ended)
	assert.Contains(t, said(), `"result":{}`)
}
