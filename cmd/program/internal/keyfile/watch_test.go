package keyfile

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

// watched is a keyset file that is watched, in a bubble of its own time.
type watched struct {
	t    *testing.T
	path string
	now  chan os.Signal

	mu    sync.Mutex
	keys  *codec.Keyset // what the server has
	fails int
	log   bytes.Buffer
}

// Write implements [io.Writer], for the log.
func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *watched) set(k *codec.Keyset) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys = k
}

func (w *watched) fail() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails++
}

// inUse are the keys that the server has, and failed is how often it was told of a failure.
func (w *watched) inUse() []codec.KeyInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keys.Keys()
}

func (w *watched) failed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fails
}

func watch(t *testing.T, test func(w *watched)) {
	path := filepath.Join(t.TempDir(), "keyset.json")
	keys, err := codec.CreateKeysetFile(path)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		w := &watched{t: t, path: path, now: make(chan os.Signal), keys: keys}
		watcher := OfKeyset(codec.KeysetFile{Path: path}, keys)
		watcher.Now, watcher.Set, watcher.Failed, watcher.Log = w.now, w.set, w.fail, slog.New(slog.NewTextHandler(w, nil))
		go watcher.Run(t.Context())
		w.pass(interval)
		assert.Zero(t, w.logged("\n"), "what the server began with is no news")
		test(w)
	})
}

// pass lets time pass, and the watcher do what it does meanwhile.
func (w *watched) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *watched) logged(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), text)
}

// write replaces the file as another program would: in place.
func (w *watched) write(data []byte) { require.NoError(w.t, os.WriteFile(w.path, data, 0o600)) }

func (w *watched) read() []byte {
	data, err := os.ReadFile(w.path)
	require.NoError(w.t, err)
	return data
}

// add adds a disabled key to the file.
func (w *watched) add() {
	_, err := codec.KeysetFile{Path: w.path}.Update(w.t.Context(), func(k *codec.Keyset) (*codec.Keyset, error) {
		more, id, err := k.Add(codec.XAES256GCM)
		if err != nil {
			return nil, err
		}
		return more.Disable(id)
	})
	require.NoError(w.t, err)
}

func TestWatcherSeesChanges(t *testing.T) {
	watch(t, func(w *watched) {
		w.add()
		w.pass(interval)
		assert.Len(t, w.inUse(), 2)
		assert.Equal(t, 1, w.logged("keyset reloaded"))
		w.pass(10 * interval)
		assert.Equal(t, 1, w.logged("keyset reloaded"), "once for each change")

		go func() { w.now <- syscall.SIGHUP }() // changed or not
		w.pass(0)
		assert.Equal(t, 2, w.logged("keyset reloaded"))
		assert.Zero(t, w.failed())
	})
}

// An older file may have the same size, and its own time of modification.
func TestWatcherSeesThatAFileWasReplacedByAnOlderOne(t *testing.T) {
	watch(t, func(w *watched) {
		info, err := os.Stat(w.path)
		require.NoError(t, err)
		ofSameSize := func() string {
			for {
				other := filepath.Join(t.TempDir(), "other.json")
				_, err := codec.CreateKeysetFile(other)
				require.NoError(t, err)
				made, err := os.Stat(other)
				require.NoError(t, err)
				if made.Size() == info.Size() {
					require.NoError(t, os.Chtimes(other, info.ModTime(), info.ModTime()))
					return other
				}
			}
		}
		other := ofSameSize()
		want, err := codec.LoadKeyset(other)
		require.NoError(t, err)
		require.NoError(t, os.Rename(other, w.path))
		w.pass(interval)
		assert.Equal(t, want.Keys(), w.inUse(), "put in its place")

		other = ofSameSize()
		want, err = codec.LoadKeyset(other)
		require.NoError(t, err)
		data, err := os.ReadFile(other)
		require.NoError(t, err)
		w.write(data)
		require.NoError(t, os.Chtimes(w.path, info.ModTime(), info.ModTime()))
		w.pass(interval)
		assert.Equal(t, want.Keys(), w.inUse(), "written over it")
	})
}

func TestWatcherTriesAgain(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*watched)
		mend  func(w *watched, changed []byte)
		says  string
	}{
		"a mode that others can read": {
			spoil: func(w *watched) { require.NoError(t, os.Chmod(w.path, 0o644)) },
			mend:  func(w *watched, _ []byte) { require.NoError(t, os.Chmod(w.path, 0o600)) },
			says:  "chmod 600",
		},
		"half written by another program": {
			spoil: func(w *watched) { w.write(w.read()[:50]) },
			mend:  func(w *watched, changed []byte) { w.write(changed) },
			says:  "not a keyset",
		},
		"moved away and back": {
			spoil: func(w *watched) { require.NoError(t, os.Rename(w.path, w.path+".old")) },
			mend:  func(w *watched, _ []byte) { require.NoError(t, os.Rename(w.path+".old", w.path)) },
			says:  "no such file",
		},
		"a directory on the way": {
			spoil: func(w *watched) {
				require.NoError(t, os.Rename(w.path, w.path+".old"))
				require.NoError(t, os.Mkdir(w.path, 0o700))
			},
			mend: func(w *watched, _ []byte) {
				require.NoError(t, os.Remove(w.path))
				require.NoError(t, os.Rename(w.path+".old", w.path))
			},
			says: "is a directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			watch(t, func(w *watched) {
				w.add()
				changed := w.read()
				c.spoil(w)
				w.pass(interval)
				assert.Len(t, w.inUse(), 1, "it goes on with the keys it has")
				assert.Equal(t, 1, w.logged("cannot reload the keyset"))
				assert.Equal(t, 1, w.logged(c.says))
				assert.Equal(t, 1, w.failed())

				w.pass(10 * time.Minute)
				assert.Equal(t, 11, w.logged("cannot reload the keyset"), "a reminder each minute, no flood")
				assert.Equal(t, 1, w.failed())

				c.mend(w, changed)
				assert.Equal(t, changed, w.read())
				w.pass(interval)
				assert.Len(t, w.inUse(), 2, "without being asked")
				assert.Equal(t, 1, w.logged("keyset loaded again"))
				w.pass(10 * time.Minute)
				assert.Equal(t, 12, w.logged("\n"), "and all is quiet")
			})
		})
	}
}
