package program

import (
	"bufio"
	"net/http"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What reads the audit and the log may be gone: lines are lost then, and calls are answered.
func TestServerWhoseOutputIsReadNoMore(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("SIGPIPE")
	}
	h := newHome(t)
	cmd := h.command("serve", "--addr", "127.0.0.1:0", "--audit", "-")
	audit, err := cmd.StdoutPipe()
	require.NoError(t, err)
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill()
	url := ""
	for lines := bufio.NewScanner(log); url == "" && lines.Scan(); {
		_, url, _ = strings.Cut(lines.Text(), "url=")
		url, _, _ = strings.Cut(url, " ")
	}
	answers := h.file("a.json", `{}`)
	for _, gone := range []interface{ Close() error }{audit, log} {
		require.NoError(t, gone.Close())
		for range 2 {
			_, stderr, code := h.run("call", "--server", url, "complex_tool", "initial_arg=x", "--answers", answers)
			require.Equal(t, exitNeedsAnswer, code, stderr)
		}
		for range 2 { // the log says that these are refused
			foreign, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
			require.NoError(t, err)
			foreign.Host = "elsewhere.example"
			resp, err := http.DefaultClient.Do(foreign)
			require.NoError(t, err)
			assert.NoError(t, resp.Body.Close())
			assert.Equal(t, http.StatusForbidden, resp.StatusCode)
		}
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
}

// A SIGHUP has files loaded again, also by a server that is not yet ready: it must not end it.
func TestServerThatWaitsForItsLedgerHearsOfFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("SIGHUP")
	}
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	cmd := h.command("serve", "--addr", "127.0.0.1:0", "--keyset", "k.json", "--ledger", "postgres://127.0.0.1:1/none?sslmode=disable")
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill()
	waits := func(lines *bufio.Scanner) bool {
		for lines.Scan() {
			if strings.Contains(lines.Text(), "is waited for") {
				return true
			}
		}
		return false
	}
	lines := bufio.NewScanner(log)
	require.True(t, waits(lines))
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	require.True(t, waits(lines), "it has ended")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	for lines.Scan() {
	}
	_ = cmd.Wait()
	assert.True(t, cmd.ProcessState.Exited(), "a signal has ended it")
}
