package handshake

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
)

func newHandshake(t *testing.T) *handshake {
	tools, err := engine.NewRegistry()
	require.NoError(t, err)
	d, err := New(&dialect.Host{Draining: t.Context(), Tools: tools, Hub: new(dialect.Hub), Log: slog.New(slog.DiscardHandler), Limits: dialect.Limits{SessionIdle: time.Minute, MaxSessions: 10, MaxSessionsPerPrincipal: 10}})
	require.NoError(t, err)
	t.Cleanup(d.(*handshake).Close)
	return d.(*handshake)
}

// A session whose time runs out at the moment in which it is used again goes on: the
// timer may have fired before use could stop it.
func TestSessionInUseDoesNotExpire(t *testing.T) {
	d := newHandshake(t)
	p, _, rerr := d.open(t.Context(), []byte(`{"protocolVersion":"2025-11-25","capabilities":{}}`))
	require.Nil(t, rerr)
	opened, rerr := d.start(p, &dialect.Exchange{})
	require.Nil(t, rerr)
	require.NotNil(t, d.sessions.use(opened.id))
	d.expire(opened)
	assert.NoError(t, opened.ctx.Err())
	assert.NotNil(t, d.sessions.use(opened.id), "it is there for others, too")
	d.release(opened, nil)
	d.expire(opened)
	assert.NoError(t, opened.ctx.Err(), "one request is still under way")
	d.release(opened, nil)
	d.expire(opened)
	assert.Error(t, opened.ctx.Err())
	assert.Nil(t, d.sessions.use(opened.id))
}
