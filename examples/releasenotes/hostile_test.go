//go:build unix

package releasenotes

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/gittest"
)

// To open a pipe would wait for its other end.
func TestNotesThatAreAPipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "x.md"), 0o666))
	_, err := write(dir, "x.md", "text", "")
	assert.Contains(t, gittest.Told(t, err), "not a file")
}
