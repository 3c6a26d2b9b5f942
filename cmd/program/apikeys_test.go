package program

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/server"
)

// A file that can no longer be loaded may have revoked a key: the log says so again every minute.
func TestAPIKeysThatCannotBeLoadedAreRepeated(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP) // so that what passes signals on is in no bubble
	defer signal.Stop(signals)
	path := newHome(t).file("keys.yaml", "[]\n---\n[]\n")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		keys, err := auth.NewAPIKeys("")
		require.NoError(t, err)
		guard, err := auth.New(auth.Options{Resource: "https://tools.example.com/mcp", Methods: []auth.Method{keys}})
		require.NoError(t, err)
		p := &program{server: server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
		ctx, cancel := context.WithCancel(t.Context())
		(&authorization{program: p, guard: guard, keys: keys, path: path}).begin(ctx)
		time.Sleep(10 * time.Minute) //sagavet:ignore the clock of a bubble
		cancel()
		synctest.Wait()
		assert.InDelta(t, 10, strings.Count(log.String(), "cannot reload the file of API keys"), 1)
	})
}
