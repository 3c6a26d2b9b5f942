//go:build unix

package state

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

// A saved call can name a command to run, so nobody takes up one that another user has laid down.
func TestLoadRefusesFilesOfOthers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	path := filepath.Join(t.TempDir(), "x.json")
	saved := &Call{Stdio: "rm -r ~", Position: client.Position{Version: 1, Tool: "t"}}
	require.NoError(t, saved.Save(path))
	require.NoError(t, os.Chown(path, 12345, 0))
	_, err := Load(path)
	require.EqualError(t, err, path+" belongs to another user: copy it, if you trust what is in it, and name the copy")
	require.NoError(t, os.Chown(path, 0, 12345))
	_, err = Load(path)
	require.NoError(t, err)
}
