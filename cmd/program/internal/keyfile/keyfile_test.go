package keyfile

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

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
			keys, created, err := LoadOrCreate(codec.KeysetFile{Path: path})
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
