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
	_, err := codec.KeysetFile{Path: link}.Update(t.Context(), addKey)
	require.NoError(t, err)
	next := newKeyset(t)
	require.ErrorIs(t, (codec.KeysetFile{Path: link}).Create(next), fs.ErrExist)
	k, err := codec.LoadKeyset(path)
	require.NoError(t, err)
	require.Len(t, k.Keys(), 2)

	require.NoError(t, (codec.KeysetFile{Path: link}).Write(next))
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
	_, err := codec.KeysetFile{Path: path}.Update(t.Context(), addKey)
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

// As in a pod with an fsGroup, the files of a secret are root's, and the server's group may read them. Root
// changes the keys of such a file, and the server can still read it.
func TestKeysetFileLentByRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	const user, group, strange = 12345, 23456, 34567
	groups, err := os.Getgroups()
	require.NoError(t, err)
	require.NoError(t, syscall.Setgroups([]int{group}))
	defer func() { require.NoError(t, syscall.Setgroups(groups)) }()
	path := newKeysetFile(t)
	for name, tt := range map[string]struct {
		owner, group int
		mode         fs.FileMode
		want         string
	}{
		"by the group":            {0, group, 0o440, ""},
		"also written by root":    {0, group, 0o640, ""},
		"by an access list":       {0, 0, 0o440, ""},
		"by another group":        {0, strange, 0o440, "chmod 600"},
		"written by the group":    {0, group, 0o660, "chmod 600"},
		"run by the group":        {0, group, 0o450, "chmod 600"},
		"by everybody":            {0, group, 0o444, "chmod 600"},
		"by another owner's will": {user, group, 0o440, "chmod 600"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.Chown(path, tt.owner, tt.group))
			require.NoError(t, os.Chmod(path, tt.mode))
			_, err := codec.LoadKeyset(path)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			_, err = codec.KeysetFile{Path: path}.Update(t.Context(), addKey)
			require.NoError(t, err)
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o640), info.Mode().Perm())
			require.EqualValues(t, tt.group, info.Sys().(*syscall.Stat_t).Gid)
		})
	}
}
