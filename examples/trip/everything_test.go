package main

import (
	"bytes"
	"context"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
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

// await waits until the output matches, and returns the match's groups.
func (o *output) await(t *testing.T, pattern string) (found []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		found = regexp.MustCompile(pattern).FindStringSubmatch(o.b.String())
		return found != nil
	}, time.Minute, 10*time.Millisecond, pattern)
	return found
}

// TestOneCommand starts the whole example, and books. What was begun is continued by another process
// that has the same directory.
func TestOneCommand(t *testing.T) {
	d := &driver{script: script{City: newCity(), Travellers: 1, Nights: 1, Answer: "leave"}}
	dir := filepath.Join(t.TempDir(), "missing", "yet")
	live := func(do func(context.Context) error) error {
		ctx, stop := context.WithCancel(t.Context())
		out, ended := new(output), make(chan error, 1)
		go func() { ended <- run(ctx, []string{"trip", "--addr", "127.0.0.1:0", "--dir", dir}, out, out) }()
		d.url = out.await(t, `--server (http\S+)`)[1]
		err := do(ctx)
		stop()
		require.NoError(t, <-ended)
		return err
	}
	require.ErrorIs(t, live(d.start), client.ErrPause)
	d.script.Answer = "accept"
	require.NoError(t, live(func(ctx context.Context) error { return d.comeBack(ctx, false) }))
	assert.Contains(t, d.result, `"paid":"EUR 61.00"`)
}

// What keeps a part from starting ends the others.
func TestPartsThatDoNotStart(t *testing.T) {
	out := new(output)
	assert.ErrorContains(t, run(t.Context(), []string{"trip", "--addr", "nowhere", "--dir", t.TempDir()}, out, out), "nowhere")
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	for _, args := range [][]string{
		{"trip", "nonsense"},
		{"trip", "service", "--db", "x", "museum"},
		{"trip", "service", "hotel"},
		{"trip", "serve"},
		{"trip", "serve", "--keyset", "x", "--hotel", "x", "--flight", "x", "--payment", "x", "--approver", "boss"},
	} {
		assert.Error(t, run(t.Context(), args, new(output), new(output)), args)
	}
}
