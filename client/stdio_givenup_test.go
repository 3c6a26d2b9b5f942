package client_test

import (
	"bytes"
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

// giveUp has n calls given up before the process answers.
func giveUp(t *testing.T, c *client.Client, n int) {
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			for range n / 50 {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				_, err := c.Call(ctx, "x", nil, client.Handlers{})
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				cancel()
			}
		})
	}
	wait.Wait()
}

// Of a call that was given up nothing is kept.
func TestStdioForgetsWhatWasGivenUp(t *testing.T) {
	transport, c := child(t, "mute")
	transport.Grace = 10 * time.Second // for a machine that is busy
	kept := func() int {
		for range 2 { // what is to be forgotten is with the next line
			_, err := c.Tools(t.Context())
			require.NoError(t, err)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	giveUp(t, c, 1000)
	before := kept()
	giveUp(t, c, 20_000)
	assert.Less(t, kept()-before, 2<<20)
}

// An answer that comes when its call was given up is for nobody, and ends no connection.
func TestStdioIgnoresLateAnswers(t *testing.T) {
	t.Parallel()
	transport, c := child(t, "late")
	transport.Grace = 10 * time.Second
	for range 5 {
		giveUp(t, c, 50)
		_, err := c.Tools(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, c.Close())
	assert.Equal(t, 1, strings.Count(transport.Stderr.(*bytes.Buffer).String(), "the child says hello"), "it is one process")
}
