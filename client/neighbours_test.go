package client_test

import (
	"bufio"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

// sleepInTheFirstLine reads its beginning, and no more while there is a file MARK, which it makes.
func sleepInTheFirstLine(in *bufio.Reader) {
	_, _ = in.Peek(1)
	for asleep := firstTime(); asleep; time.Sleep(5 * time.Millisecond) {
		_, err := os.Stat(os.Getenv("MARK"))
		asleep = err == nil
	}
}

// shared is a client whose calls share a process, and are not repeated; mark is the process's file.
func shared(t *testing.T, mode string, grace time.Duration) (c *client.Client, mark string) {
	t.Helper()
	transport, _ := child(t, mode)
	transport.Grace = grace
	c = client.New(transport, client.Options{Protocol: "saga", Retries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c, strings.TrimPrefix(transport.Env[len(transport.Env)-1], "MARK=")
}

// inBackground returns the error of a call later.
func inBackground(call func() error) <-chan error {
	failed := make(chan error, 1)
	go func() { failed <- call() }()
	return failed
}

func comes(t *testing.T, file string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(file)
		return err == nil
	}, time.Minute, 5*time.Millisecond)
}

// A call whose context has ended takes nothing from those that share its process.
func TestStdioEndedContextsLeaveOthersAlone(t *testing.T) {
	t.Parallel()
	c, asked := shared(t, "pairs", time.Minute)
	list := func() error {
		_, err := c.Tools(t.Context())
		return err
	}
	first := inBackground(list)
	comes(t, asked)
	ended, end := context.WithCancel(t.Context())
	end()
	for range 20 { // some look at their context before
		require.ErrorIs(t, reach(ended, c), context.Canceled)
	}
	second := inBackground(list)
	require.NoError(t, <-first)
	require.NoError(t, <-second)
}

// A context that ends before its request can be written, or in the middle of that, ends no other call.
func TestStdioWritesAreFinished(t *testing.T) {
	t.Parallel()
	for name, wakes := range map[string]bool{"the process reads on": true, "it never does": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			grace := 200 * time.Millisecond
			if wakes {
				grace = time.Minute
			}
			c, asleep := shared(t, "drowsy", grace)
			ctx, cancel := context.WithCancel(t.Context())
			long := inBackground(func() error {
				_, err := c.Call(ctx, "x", map[string]string{"a": strings.Repeat("x", 1<<20)}, client.Handlers{})
				return err
			})
			comes(t, asleep)
			other := inBackground(func() error { return reach(t.Context(), c) })
			short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer stop()
			require.ErrorIs(t, reach(short, c), context.DeadlineExceeded, "before the process reads")
			cancel()
			if wakes {
				require.NoError(t, os.Remove(asleep))
				require.ErrorIs(t, <-long, context.Canceled)
				assert.ErrorAs(t, <-other, new(*client.Error), "it is answered")
				return
			}
			require.ErrorIs(t, <-long, context.Canceled)
			assert.ErrorAs(t, <-other, new(*client.TransportError))
		})
	}
}

// Whoever waits for the handshake of another call does so only as long as its context lasts.
func TestStdioHandshakesOfOthers(t *testing.T) {
	t.Parallel()
	transport, _ := child(t, "deaf")
	transport.Initialize = true
	c := client.New(transport, client.Options{Protocol: "saga", Retries: -1})
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	first := inBackground(func() error { return reach(ctx, c) })
	comes(t, strings.TrimPrefix(transport.Env[len(transport.Env)-1], "MARK="))
	short, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	second := inBackground(func() error { return reach(short, c) })
	select {
	case err := <-second:
		require.ErrorIs(t, err, context.DeadlineExceeded)
	case <-time.After(10 * time.Second):
		assert.Fail(t, "it waits on")
	}
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
}
