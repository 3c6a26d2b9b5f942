package stateless

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// notified is a way to a client.
type notified func(method string)

func (n notified) Notify(method string, _ json.RawMessage) { n(method) }
func (n notified) Hangup(time.Duration)                    {}

func (n notified) Call(context.Context, string, json.RawMessage) (steps.Answer, error) {
	return steps.Answer{}, dialect.ErrNoBackChannel
}

func (n notified) KeepOpen() *wire.Error { return nil }

// Whoever opens a subscription and goes leaves no work behind.
func TestListenStopsForAClientThatHasGone(t *testing.T) {
	tools, err := engine.NewRegistry()
	require.NoError(t, err)
	known, err := New(&dialect.Host{Tools: tools, Turns: new(turns.Runner), Hub: new(dialect.Hub), Catalogue: new(dialect.Catalogue), Draining: t.Context(), Limits: dialect.Limits{MaxStreams: 1, MaxStreamsPerPrincipal: 1}})
	require.NoError(t, err)
	d := known.(*stateless)
	full := func() bool {
		leave, rerr := d.streams.Enter("")
		if rerr == nil {
			leave()
		}
		return rerr != nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := &wire.Message{ID: []byte("1"), Params: []byte(`{"notifications":{"resourceSubscriptions":["test://a"]}}`)}
	var methods []string
	r := &request{Exchange: &dialect.Exchange{Message: m, Closing: ctx, Way: notified(func(method string) {
		methods = append(methods, method)
		assert.True(t, full())
	})}}
	_, err = d.listen(ctx, r)
	require.Error(t, err)
	assert.Empty(t, methods)
	assert.False(t, full())
	_, err = d.listen(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, []string{"notifications/subscriptions/acknowledged", "notifications/cancelled"}, methods)
	assert.False(t, full())
}
