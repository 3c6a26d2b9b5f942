package state

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

func TestSaveAndLoad(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	path, err := NewPath(time.Now())
	require.NoError(t, err)
	saved := &Call{URL: "http://x/mcp", Position: client.Position{Version: 1, Dialect: "saga", Tool: "t", Token: "tok"}}
	for range 2 {
		require.NoError(t, saved.Save(path))
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 1)
	loaded, err := Load(path)
	require.NoError(t, err)
	assert.Equal(t, saved, loaded)

	require.NoError(t, os.Chmod(path, 0o666))
	_, err = Load(path)
	require.ErrorContains(t, err, "chmod 600")
}

func TestLoadRefusesOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	for _, text := range []string{"", "[]", "{}", `{"position":{}}`} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Load(path)
		require.ErrorContains(t, err, "not a saved call")
	}
	_, err := Load(path + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}
