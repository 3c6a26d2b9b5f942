//go:build unix

package releasenotes

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/gittest"
)

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o666) }

// Notes that are a pipe would hang whoever opens it.
func TestNotesThatAreAPipe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, mkfifo(filepath.Join(dir, "x.md")))
	_, err := write(dir, "x.md", "text", "id", "")
	assert.Contains(t, gittest.Told(t, err), "not a file")
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	_, _, err = openRegular(root, "x.md") // it became one after it was looked at
	assert.ErrorIs(t, err, errNotRegular)
}
