package keyfile

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

// A file on a mount that is gone can hang for ever, or until the mount is back.
func TestALoadThatHangsIsToldAndDoesNotEndTheWatch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyset.json")
	keys, err := codec.CreateKeysetFile(path)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		hangs, loads, failed, set := make(chan struct{}), 0, 0, 0
		var log bytes.Buffer
		w := OfKeyset(codec.KeysetFile{Path: path}, keys)
		w.Set, w.Failed, w.Log = func(*codec.Keyset) { set++ }, func() { failed++ }, slog.New(slog.NewTextHandler(&log, nil))
		w.Load = func() (*codec.Keyset, error) {
			if loads++; loads == 2 {
				<-hangs
			}
			return keys, nil
		}
		go w.Run(t.Context())
		time.Sleep(time.Hour) //sagavet:ignore the clock of a bubble
		synctest.Wait()
		assert.Equal(t, []int{2, 1, 0}, []int{loads, failed, set}, "no further load beside the one that hangs")
		assert.InDelta(t, 60, strings.Count(log.String(), "hangs"), 2, "the log says so again every minute")
		close(hangs)
		time.Sleep(2 * interval) //sagavet:ignore the clock of a bubble
		synctest.Wait()
		assert.Equal(t, 1, set)
		assert.Contains(t, log.String(), "keyset loaded again")
	})
}
