package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// output is what a program has printed so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// await waits until the output matches, and returns the last match's groups.
func (o *output) await(t *testing.T, pattern string, times int) []string {
	t.Helper()
	var found [][]string
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		found = regexp.MustCompile(pattern).FindAllStringSubmatch(o.b.String(), -1)
		return len(found) >= times
	}, time.Minute, 10*time.Millisecond, pattern)
	return found[len(found)-1]
}

// TestOneCommand starts the whole example, kills a part of it, and books.
func TestOneCommand(t *testing.T) {
	t.Setenv(childEnv, "part") // the children are this binary again
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, ended := new(output), make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"trip", "--addr", "127.0.0.1:0", "--dir", filepath.Join(t.TempDir(), "missing", "yet")}, out, out)
	}()
	url := out.await(t, `server +(http\S+)`, 1)[1]
	out.await(t, `Ctrl-C ends everything`, 1)
	pid, err := strconv.Atoi(out.await(t, `hotel +http\S+ \(process (\d+)\)`, 1)[1])
	require.NoError(t, err)
	victim, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.NoError(t, victim.Kill())
	out.await(t, `hotel +http`, 2)

	d := &driver{url: url, script: script{City: newCity(), Travellers: 1, Nights: 1, Answer: "accept"}}
	require.NoError(t, d.start(ctx))
	assert.Contains(t, d.result, `"paid":"EUR 61.00"`)
	stop()
	require.NoError(t, <-ended)
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	for _, args := range [][]string{
		{"trip", "nonsense"},
		{"trip", "service", "--db", "x", "museum"},
		{"trip", "service", "hotel"},
		{"trip", "serve"},
	} {
		assert.Error(t, run(t.Context(), args, new(output), new(output)), args)
	}
}
