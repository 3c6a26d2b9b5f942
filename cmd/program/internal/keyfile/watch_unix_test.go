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

	"github.com/mcpsaga/mcpsaga/codec"
)

// A pipe, as of a shell's <(command), can be read once.
func TestWatcherDoesNotReadAPipeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	var log bytes.Buffer
	watcher := OfKeyset(codec.KeysetFile{Path: path}, nil)
	watcher.Log = slog.New(slog.NewTextHandler(&log, nil))
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

// Kubernetes replaces a secret by another target of the link ..data, through which the name of each file leads.
func TestWatcherFollowsLinksThatAreSwapped(t *testing.T) {
	watch(t, func(w *watched) {
		dir := filepath.Dir(w.path)
		mount := func(version string) { // as the kubelet's atomic writer does
			require.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o755))
			require.NoError(t, os.Rename(w.path+".next", filepath.Join(dir, version, "keyset.json")))
			require.NoError(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
			require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		}
		require.NoError(t, os.Rename(w.path, w.path+".next"))
		mount("..2026_11_20")
		require.NoError(t, os.Symlink("..data/keyset.json", w.path))
		w.pass(interval)
		assert.Zero(t, w.failed())
		assert.Len(t, w.inUse(), 1)
		for more := range 3 {
			keys, err := codec.LoadKeyset(w.path)
			require.NoError(t, err)
			keys, _, err = keys.Add(codec.XAES256GCM)
			require.NoError(t, err)
			require.NoError(t, codec.KeysetFile{Path: w.path + ".next"}.Write(keys))
			require.NoError(t, os.Chmod(w.path+".next", 0o400))
			old, err := os.Readlink(filepath.Join(dir, "..data"))
			require.NoError(t, err)
			mount("..2026_11_21_" + string(rune('a'+more)))
			require.NoError(t, os.RemoveAll(filepath.Join(dir, old)))
			w.pass(interval)
			assert.Len(t, w.inUse(), more+2)
			assert.Zero(t, w.failed())
		}
	})
}
