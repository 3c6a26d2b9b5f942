package codec_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

func TestKeysetFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyset.json")
	_, err := codec.LoadKeyset(path)
	require.ErrorIs(t, err, fs.ErrNotExist)

	k, err := codec.CreateKeysetFile(path)
	require.NoError(t, err)
	loaded, err := codec.LoadKeyset(path)
	require.NoError(t, err)
	require.Equal(t, k.Keys(), loaded.Keys())
	sealed, err := k.Encrypt([]byte("{}"), []byte("alice"))
	require.NoError(t, err)
	opened, err := loaded.Decrypt(sealed, []byte("alice"))
	require.NoError(t, err)
	require.Equal(t, "{}", string(opened))

	_, err = codec.CreateKeysetFile(path)
	require.ErrorIs(t, err, fs.ErrExist)

	next, _, err := loaded.Add(codec.AES256CTRHMACSHA256)
	require.NoError(t, err)
	next, err = next.Disable(next.Keys()[1].ID)
	require.NoError(t, err)
	require.NoError(t, (codec.KeysetFile{Path: path}).Write(next))
	loaded, err = codec.LoadKeyset(path)
	require.NoError(t, err)
	require.Equal(t, next.Keys(), loaded.Keys())
	require.Equal(t, []string{".keyset.json.lock", "keyset.json"}, namesIn(t, filepath.Dir(path)), "nothing else is left behind")

	if runtime.GOOS == "windows" {
		return
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	for _, mode := range []fs.FileMode{0o604, 0o620, 0o644, 0o660} { // and 0o640, unless root is the owner
		require.NoError(t, os.Chmod(path, mode))
		_, err = codec.LoadKeyset(path)
		require.ErrorContains(t, err, "chmod 600 '"+path+"'")
	}
	require.NoError(t, os.Chmod(path, 0o400))
	_, err = codec.LoadKeyset(path)
	require.NoError(t, err)
}

func TestKeysetFileErrors(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "no", "keyset.json")
	_, err := codec.CreateKeysetFile(missing)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, (codec.KeysetFile{Path: missing}).Write(newKeyset(t)), fs.ErrNotExist)

	_, err = codec.LoadKeyset(dir)
	require.ErrorContains(t, err, "is a directory")

	path := filepath.Join(dir, "broken.json")
	require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
	_, err = codec.LoadKeyset(path)
	require.ErrorContains(t, err, path)
	require.NoError(t, os.WriteFile(path, make([]byte, 1<<20+1), 0o600))
	_, err = codec.LoadKeyset(path)
	require.ErrorContains(t, err, "larger than")
}

func TestCreateKeysetFileByMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyset.json")
	var created atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := codec.CreateKeysetFile(path)
			if err == nil {
				created.Add(1)
				return
			}
			if !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
			if _, err := codec.LoadKeyset(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, created.Load())
	_, err := codec.LoadKeyset(path)
	require.NoError(t, err)
}

func TestBoundsOfKeysetFiles(t *testing.T) {
	path := newKeysetFile(t)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data = append(data, bytes.Repeat([]byte{' '}, 1<<20-len(data))...)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	_, err = codec.LoadKeyset(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(data, ' '), 0o600))
	_, err = codec.LoadKeyset(path)
	require.ErrorContains(t, err, "larger than 1048576 bytes")
}
