package turns

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
)

// newRunner returns a runner of tools with keys of its own.
func newRunner(t testing.TB, definitions ...saga.Definition) *Runner {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	c, err := tokens.New(keys, tokens.Options{})
	require.NoError(t, err)
	tools, err := engine.NewRegistry(definitions...)
	require.NoError(t, err)
	return New(Config{Registry: tools, Codec: c, Log: slog.New(slog.DiscardHandler), Now: time.Now, Timeout: time.Minute})
}
