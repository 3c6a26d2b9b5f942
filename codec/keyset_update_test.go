package codec_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gofrs/flock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

func newKeysetFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keyset.json")
	_, err := codec.CreateKeysetFile(path)
	require.NoError(t, err)
	return path
}

func addKey(k *codec.Keyset) (*codec.Keyset, error) {
	k, _, err := k.Add(codec.XAES256GCM)
	return k, err
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestUpdateKeysetFileByMany(t *testing.T) {
	path := newKeysetFile(t)
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			_, err := codec.KeysetFile{Path: path}.Update(t.Context(), addKey)
			assert.NoError(t, err)
		})
	}
	done := make(chan struct{})
	go func() {
		wait.Wait()
		close(done)
	}()
	// Whoever loads it meanwhile gets an old keyset or a new one, whole.
	for changing := true; changing; {
		select {
		case <-done:
			changing = false
		default:
		}
		_, err := codec.LoadKeyset(path)
		require.NoError(t, err)
	}
	k, err := codec.LoadKeyset(path)
	require.NoError(t, err)
	require.Len(t, k.Keys(), 21)
	require.Equal(t, []string{".keyset.json.lock", "keyset.json"}, namesIn(t, filepath.Dir(path)))
}

func TestUpdateKeysetFileFindsChangesByOthers(t *testing.T) {
	path := newKeysetFile(t)
	theirs, err := os.ReadFile(path)
	require.NoError(t, err)
	for name, meddle := range map[string]struct {
		with func() error
		want error
	}{
		"written in place": {func() error { return os.WriteFile(path, append(theirs, ' '), 0o600) }, codec.ErrKeysetChanged},
		"half written":     {func() error { return os.WriteFile(path, theirs[:20], 0o600) }, codec.ErrKeysetChanged},
		"removed":          {func() error { return os.Remove(path) }, fs.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, theirs, 0o600))
			_, err := codec.KeysetFile{Path: path}.Update(t.Context(), func(k *codec.Keyset) (*codec.Keyset, error) {
				require.NoError(t, meddle.with())
				return addKey(k)
			})
			require.ErrorIs(t, err, meddle.want)
			if k, err := codec.LoadKeyset(path); err == nil {
				require.Len(t, k.Keys(), 1, "what they wrote stays")
			}
			require.Subset(t, []string{".keyset.json.lock", "keyset.json"}, namesIn(t, filepath.Dir(path)))
		})
	}
}

func TestUpdateKeysetFileRefuses(t *testing.T) {
	path := newKeysetFile(t)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	no := errors.New("no")
	_, err = codec.KeysetFile{Path: path}.Update(t.Context(), func(*codec.Keyset) (*codec.Keyset, error) { return nil, no })
	require.Equal(t, no, err)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)

	missing := filepath.Join(t.TempDir(), "keyset.json")
	_, err = codec.KeysetFile{Path: missing}.Update(t.Context(), addKey)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Empty(t, namesIn(t, filepath.Dir(missing)))

	if runtime.GOOS != "windows" {
		require.NoError(t, os.Chmod(path, 0o644))
		_, err = codec.KeysetFile{Path: path}.Update(t.Context(), addKey)
		require.ErrorContains(t, err, "chmod 600")
	}
}

func TestKilledWritersLeaveNothingBehind(t *testing.T) {
	path := newKeysetFile(t)
	dir := filepath.Dir(path)
	ours := []string{".keyset.json.1.tmp", ".keyset.json.4711.tmp"}
	others := []string{".keyset.json.bak.tmp", ".keyset.json.tmp", ".other.json.1.tmp", "keyset.json.1.tmp", ".keyset.json.old.12.tmp"}
	for name, write := range map[string]func() error{
		"update": func() error { _, err := codec.KeysetFile{Path: path}.Update(t.Context(), addKey); return err },
		"write":  func() error { return (codec.KeysetFile{Path: path}).Write(newKeyset(t)) },
		"create": func() error {
			if err := (codec.KeysetFile{Path: path}).Create(newKeyset(t)); !errors.Is(err, fs.ErrExist) {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, name := range append(ours, others...) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("keys"), 0o600))
			}
			require.NoError(t, os.MkdirAll(filepath.Join(dir, ".keyset.json.7.tmp"), 0o700))
			require.NoError(t, write())
			require.ElementsMatch(t, append(others, ".keyset.json.7.tmp", ".keyset.json.lock", "keyset.json"), namesIn(t, dir))
		})
	}
}

// What a writer that lives is writing is not taken for a leftover, and a writer that
// hangs stops nobody for ever.
func TestWritersWaitForTheLock(t *testing.T) {
	path := newKeysetFile(t)
	underway := filepath.Join(filepath.Dir(path), ".keyset.json.1.tmp")
	require.NoError(t, os.WriteFile(underway, nil, 0o600))
	lock := flock.New(filepath.Join(filepath.Dir(path), ".keyset.json.lock"))
	require.NoError(t, lock.Lock())
	for name, write := range map[string]func() error{
		"update": func() error { _, err := codec.KeysetFile{Path: path}.Update(context.Background(), addKey); return err },
		"write":  func() error { return (codec.KeysetFile{Path: path}).Write(newKeyset(t)) },
		"create": func() error { return (codec.KeysetFile{Path: path}).Create(newKeyset(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.ErrorContains(t, write(), "another process has locked ")
			})
			require.FileExists(t, underway)
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := codec.KeysetFile{Path: path}.Update(ctx, addKey)
	require.ErrorIs(t, err, context.Canceled)

	require.NoError(t, lock.Unlock())
	_, err = codec.KeysetFile{Path: path}.Update(t.Context(), addKey)
	require.NoError(t, err)
	require.NoFileExists(t, underway)
	if runtime.GOOS != "windows" {
		info, err := os.Stat(lock.Path())
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), "others could keep it locked")
	}
}
