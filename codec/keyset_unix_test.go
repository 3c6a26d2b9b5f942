//go:build unix

package codec_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

// Of a link, the file behind it is replaced, and it is one file to lock by whatever name.
func TestKeysetFileBehindALink(t *testing.T) {
	path := newKeysetFile(t)
	link := filepath.Join(t.TempDir(), "link.json")
	require.NoError(t, os.Symlink(path, link))
	_, err := codec.UpdateKeysetFile(t.Context(), link, addKey)
	require.NoError(t, err)
	next := newKeyset(t)
	require.ErrorIs(t, next.CreateFile(link), fs.ErrExist)
	k, err := codec.LoadKeyset(path)
	require.NoError(t, err)
	require.Len(t, k.Keys(), 2)

	require.NoError(t, next.WriteFile(link))
	k, err = codec.LoadKeyset(path)
	require.NoError(t, err)
	require.Equal(t, next.Keys(), k.Keys())
	require.Equal(t, []string{"link.json"}, namesIn(t, filepath.Dir(link)))
	require.Equal(t, []string{".keyset.json.lock", "keyset.json"}, namesIn(t, filepath.Dir(path)))
}

// Root changes the keys of a server that is another user: it must still read them, and be
// able to change them itself.
func TestKeysetFileKeepsItsOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	path := newKeysetFile(t)
	const user, group = 12345, 23456
	require.NoError(t, os.Chown(path, user, group))
	require.NoError(t, os.Chown(filepath.Dir(path), user, group))
	_, err := codec.UpdateKeysetFile(t.Context(), path, addKey)
	require.NoError(t, err)
	for _, name := range []string{"keyset.json", ".keyset.json.lock"} {
		info, err := os.Stat(filepath.Join(filepath.Dir(path), name))
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), name)
		owner := info.Sys().(*syscall.Stat_t)
		require.EqualValues(t, user, owner.Uid, name)
		require.EqualValues(t, group, owner.Gid, name)
	}
}
