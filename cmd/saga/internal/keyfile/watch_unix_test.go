//go:build unix

package keyfile

import (
	"bytes"
	"log/slog"
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
