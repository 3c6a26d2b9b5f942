package legacy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
)

// flood writes without end, if the mode is one of TestFloodingProcesses.
func flood(mode string) {
	out := bufio.NewWriter(os.Stdout)
	ping := func(id string) { fmt.Fprintf(out, `{"jsonrpc":"2.0","id":"%s","method":"ping"}`+"\n", id) }
	switch mode {
	case "pings":
		for i := 0; ; i++ {
			ping(fmt.Sprint(i))
		}
	case "batch":
		fmt.Fprintf(out, "[%s{}]\n", strings.Repeat(`{"jsonrpc":"2.0","id":7,"method":"ping"},`, 5000))
		_ = out.Flush()
		select {}
	case "notifications":
		for range 200 { // whose answers do not fit into the pipe
			ping(strings.Repeat("x", 1000))
		}
		for {
			fmt.Fprintln(out, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		}
	}
}

// A session does not keep what a process sends that does not wait for answers.
func TestFloodingProcesses(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	for _, mode := range []string{"pings", "batch", "notifications"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			process := &client.Stdio{Command: self, Env: append(os.Environ(), asServer+"="+mode), Stderr: io.Discard, Grace: 100 * time.Millisecond}
			c := client.New(process, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open, Timeout: 10 * time.Second})
			defer c.Close()
			_, err = c.Call(t.Context(), "deploy", nil, client.Handlers{})
			require.ErrorAs(t, err, new(*client.ProtocolError))
			require.ErrorContains(t, err, "more than 1000 messages while it waits for no answers")
		})
	}
}

// A call without a session ends when its context does, whatever the process writes, and keeps nothing of it.
func TestCallsOfFloodingProcessesEnd(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	process := &client.Stdio{Command: self, Env: append(os.Environ(), asServer+"=notifications"), Stderr: io.Discard, Grace: 100 * time.Millisecond}
	c := client.New(process, client.Options{Protocol: "2026-07-28"})
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	began := time.Now()
	_, err = c.Call(ctx, "deploy", nil, client.Handlers{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(began), 20*time.Second)
	held := []metrics.Sample{{Name: "/gc/heap/live:bytes"}} // when garbage was collected last, in the middle of the flood
	metrics.Read(held)
	t.Logf("%d MB of heap after %v", held[0].Value.Uint64()>>20, time.Since(began))
	require.Less(t, held[0].Value.Uint64(), uint64(64<<20))
}
