package legacy_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
)

// A process that refuses server/discover has the session, if it lives.
func TestOlderProcessesAreStartedOnce(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for mode, want := range map[string]string{"older": "x", "brittle": "xx"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			starts := filepath.Join(t.TempDir(), "starts")
			c := client.New(&client.Stdio{Command: self, Env: append(os.Environ(), asServer+"="+mode, "STARTS="+starts), Stderr: io.Discard}, client.Options{Sessions: legacy.Open})
			defer c.Close()
			var asked []string
			result, err := c.Call(t.Context(), "deploy", map[string]any{"what": "it"}, handlers(&asked))
			require.NoError(t, err)
			assert.Equal(t, "here, Yes, file:///w", result.Content.Text())
			assert.Len(t, asked, 3)
			count, err := os.ReadFile(starts)
			require.NoError(t, err)
			assert.Equal(t, want, string(count))
		})
	}
}

// The process of a session that is kept for the next call may end meanwhile. As it has not read that call, another
// process does.
func TestKeptProcessesThatEnd(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	transport := &client.Stdio{Command: self, Env: append(os.Environ(), asServer+"=1"), Stderr: io.Discard}
	c := client.New(transport, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open})
	defer c.Close()
	pids := map[int]bool{}
	for n := range 3 {
		result, err := c.Call(t.Context(), "pid", nil, client.Handlers{})
		require.NoError(t, err)
		pid, err := strconv.Atoi(result.Content.Text())
		require.NoError(t, err)
		pids[pid] = true
		assert.Len(t, pids, n+1)
		process, err := os.FindProcess(pid)
		require.NoError(t, err)
		require.NoError(t, process.Kill())
		require.Eventually(t, func() bool { return process.Signal(syscall.Signal(0)) != nil }, time.Minute, time.Millisecond)
	}
}

// noteStart has a file count the processes that have started.
func noteStart(file string) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString("x")
	}
	if err != nil {
		panic(err)
	}
}

// answerOnce refuses the first message and ends, unless the message is initialize, which it leaves
// to be read.
func answerOnce() {
	in := bufio.NewReader(os.Stdin)
	line, _ := in.ReadBytes('\n')
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(line, &m)
	if m.Method != "initialize" {
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"initialize comes first"}}`+"\n", m.ID)
		os.Exit(1)
	}
	rest := &mcp.IOTransport{Reader: io.NopCloser(io.MultiReader(bytes.NewReader(line), in)), Writer: os.Stdout}
	_ = newServer().Run(context.Background(), rest)
	os.Exit(0)
}
