package program

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// What reads the audit may stop reading: calls are answered all the same, and the server can be stopped.
func TestAuditThatIsNotRead(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	path := filepath.Join(h.dir, "audit")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	_, stderr, code := h.run("serve", "--addr", "127.0.0.1:0", "--audit", path)
	require.Equal(t, exitFailed, code, stderr)
	require.Contains(t, stderr, "nothing reads the pipe", "to wait for that could not be ended")
	reader, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(reader)
	for err == nil { // until it is full
		_, err = unix.Write(reader, make([]byte, 4096))
	}
	url, server := h.serve("--audit", path)
	began := time.Now()
	for range 3 {
		_, stderr, code := h.run("call", "--server", url, "complex_tool", "initial_arg=x", "--answers", h.file("a.json", `{}`), "--timeout", "20s")
		require.Equal(t, exitNeedsAnswer, code, stderr)
	}
	assert.Less(t, time.Since(began), 20*time.Second)
	require.NoError(t, server.Process.Signal(os.Interrupt))
	state, err := server.Process.Wait()
	require.NoError(t, err)
	assert.Zero(t, state.ExitCode(), "it was killed, as it did not end")
}
