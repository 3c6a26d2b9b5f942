package stateless

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Whoever opens a subscription and goes leaves no work behind.
func TestListenStopsForAClientThatHasGone(t *testing.T) {
	tools, err := engine.NewRegistry()
	require.NoError(t, err)
	known, err := New(&dialect.Host{Tools: tools, Hub: new(dialect.Hub), Catalogue: new(dialect.Catalogue), Limits: dialect.Limits{MaxStreams: 2, MaxStreamsPerPrincipal: 1}})
	require.NoError(t, err)
	d := known.(*stateless)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := &wire.Message{Params: []byte(`{"notifications":{"resourceSubscriptions":["test://a"]}}`)}
	r := &request{Exchange: &dialect.Exchange{Message: m}}
	_, rerr := d.openListener(ctx, r)
	require.NotNil(t, rerr)
	assert.Zero(t, d.streams.open)
	listening, rerr := d.openListener(t.Context(), r)
	require.Nil(t, rerr)
	assert.Equal(t, 1, d.streams.open)
	listening.leave()
	assert.Zero(t, d.streams.open)
}
