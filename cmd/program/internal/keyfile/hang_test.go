package keyfile

import (
	"bytes"
	"log/slog"
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
	synctest.Test(t, func(t *testing.T) {
		keys, err := codec.NewKeyset()
		require.NoError(t, err)
		hangs, loads, failed, set := make(chan struct{}), 0, 0, 0
		var log bytes.Buffer
		w := &Watcher{
			File: codec.KeysetFile{Path: "keyset.json"}, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Set: func(*codec.Keyset) { set++ }, Failed: func() { failed++ },
			load: func(codec.KeysetFile) (*codec.Keyset, error) {
				if loads++; loads == 2 {
					<-hangs
				}
				return keys, nil
			},
		}
		go w.Run(t.Context())
		time.Sleep(time.Hour) //sagavet:ignore the clock of a bubble
		synctest.Wait()
		assert.Equal(t, []int{2, 1, 1}, []int{loads, failed, set}, "no further load beside the one that hangs")
		assert.InDelta(t, 60, strings.Count(log.String(), "hangs"), 2, "the log says so again every minute")
		close(hangs)
		time.Sleep(2 * interval) //sagavet:ignore the clock of a bubble
		synctest.Wait()
		assert.Equal(t, 2, set)
		assert.Contains(t, log.String(), "keyset loaded again")
	})
}
