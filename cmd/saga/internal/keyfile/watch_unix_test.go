//go:build unix

package keyfile

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pipe, as of a shell's <(command), can be read once.
func TestWatcherDoesNotReadAPipeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	var log bytes.Buffer
	watcher := Watcher{Path: path, Log: slog.New(slog.NewTextHandler(&log, nil))}
	watcher.Run(t.Context())
	assert.Contains(t, log.String(), "not a regular file")
}

// Whoever opens a pipe waits for a writer. In the place of the keyset that must not be the end of watching.
func TestWatcherGoesOnAfterAPipeInPlaceOfTheKeyset(t *testing.T) {
	watch(t, func(w *watched) {
		require.NoError(t, os.Rename(w.path, w.path+".kept"))
		require.NoError(t, syscall.Mkfifo(w.path, 0o600))
		w.pass(interval)
		assert.Equal(t, 1, w.failed())
		assert.Equal(t, 1, w.logged("no longer a regular file"))
		require.NoError(t, os.Rename(w.path+".kept", w.path))
		w.add()
		w.pass(interval)
		assert.Len(t, w.inUse(), 2)
	})
}
