package codec_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

// Who may not write beside a keyset is told what has to be writable.
func TestKeysetInADirectoryThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755)) // else it cannot even be seen
	require.NoError(t, os.Chmod(dir, 0o555))
	if os.Getuid() == 0 { // who may write everything
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		require.NoError(t, syscall.Setfsuid(12345))
		defer func() { require.NoError(t, syscall.Setfsuid(0)) }()
	}
	_, err := codec.CreateKeysetFile(filepath.Join(dir, "keyset.json"))
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, "the directory of the keyset has to be writable")
}
