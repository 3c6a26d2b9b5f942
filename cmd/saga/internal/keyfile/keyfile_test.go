package keyfile

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

func TestLoadOrCreateByManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "keyset.json")
	var wait sync.WaitGroup
	var mu sync.Mutex
	ids, creators := map[uint32]bool{}, 0
	for range 16 {
		wait.Go(func() {
			keys, created, err := LoadOrCreate(path)
			if !assert.NoError(t, err) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[keys.Primary().ID] = true
			if created {
				creators++
			}
		})
	}
	wait.Wait()
	assert.Len(t, ids, 1)
	assert.Equal(t, 1, creators)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	info, err = os.Stat(filepath.Dir(path))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyset.json")
	keys, _, err := LoadOrCreate(path)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan *codec.Keyset, 10)
	now := make(chan os.Signal)
	done := make(chan struct{})
	var logged bytes.Buffer
	go func() {
		defer close(done)
		Watch(ctx, path, 5*time.Millisecond, now, func(k *codec.Keyset) { changed <- k }, slog.New(slog.NewTextHandler(&logged, nil)))
	}()

	more, id, err := keys.Add(codec.XAES256GCM)
	require.NoError(t, err)
	require.NoError(t, more.WriteFile(path))
	got := <-changed
	if len(got.Keys()) == 1 {
		got = <-changed // the first look came before the change
	}
	assert.Equal(t, id, got.Keys()[1].ID)

	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	time.Sleep(30 * time.Millisecond)
	assert.Empty(t, changed, "a broken file changes nothing")
	require.NoError(t, more.WriteFile(path))
	<-changed

	now <- syscall.SIGHUP // changed or not
	<-changed
	cancel()
	<-done
	assert.Contains(t, logged.String(), "going on with the keys loaded before")
}
