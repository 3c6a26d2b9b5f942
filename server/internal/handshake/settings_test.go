package handshake

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
)

// A ledger that does not say what became of sessions is a line of the log in ten seconds, however many go on.
func TestSessionsLogAnOutageNowAndThen(t *testing.T) {
	keys, err := codec.NewKeyset(codec.XAES256GCM)
	require.NoError(t, err)
	sealing, err := tokens.New(keys, tokens.Options{})
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		away := &storetest.Intercept{Store: store.NewMemory(nil)}
		away.Around = func(context.Context, storetest.Call, func() error) error { return assert.AnError }
		core, err := durable.New(durable.Config{Store: away, Turns: &turns.Runner{Config: turns.Config{Codec: sealing}}})
		require.NoError(t, err)
		var log bytes.Buffer
		d := &handshake{Host: &dialect.Host{Core: core, Log: slog.New(slog.NewTextHandler(&log, nil))}}
		for range 100 {
			assert.Nil(t, d.recordOf(t.Context(), &agreed{}))
			time.Sleep(250 * time.Millisecond)
		}
		assert.Equal(t, 3, strings.Count(log.String(), "level=WARN"))
	})
}
