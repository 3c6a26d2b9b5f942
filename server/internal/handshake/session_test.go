package handshake

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// replica is the dialect of one of the servers with these keys. Its clock is time.Now.
func replica(t *testing.T, keys *codec.Keyset, change ...func(*dialect.Limits)) *handshake {
	t.Helper()
	tools, err := engine.NewRegistry()
	require.NoError(t, err)
	c, err := tokens.New(keys, tokens.Options{})
	require.NoError(t, err)
	runner := turns.New(turns.Config{Registry: tools, Codec: c, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	limits := dialect.Limits{SessionTTL: time.Hour, SessionIdle: time.Minute, MaxSessions: 10, MaxSessionsPerPrincipal: 10}
	for _, f := range change {
		f(&limits)
	}
	d, err := New(&dialect.Host{Draining: t.Context(), Tools: tools, Turns: runner, Hub: new(dialect.Hub), Catalogue: new(dialect.Catalogue), Log: slog.New(slog.DiscardHandler), Limits: limits})
	require.NoError(t, err)
	t.Cleanup(func() { d.(*handshake).Close(t.Context()) })
	return d.(*handshake)
}

func newKeyset(t *testing.T) *codec.Keyset {
	t.Helper()
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	return keys
}

// begin is a session whose client declares these capabilities.
func begin(t *testing.T, d *handshake, principal, version, capabilities string) *agreed {
	t.Helper()
	p, _, rerr := d.agree(&dialect.Exchange{Message: &wire.Message{Params: []byte(`{"protocolVersion":"` + version + `","capabilities":` + capabilities + `}`)}})
	require.Nil(t, rerr)
	name, err := d.newID(p, principal)
	require.NoError(t, err)
	a, late, rerr := d.readID(t.Context(), name, d.Log)
	require.Nil(t, rerr)
	require.False(t, late)
	return a
}

// A session whose time in memory runs out at the moment in which it is used again stays: the
// timer may have fired before use could stop it.
func TestSessionInUseDoesNotExpire(t *testing.T) {
	d := replica(t, newKeyset(t))
	a := begin(t, d, "", "2025-11-25", `{}`)
	opened, rerr := d.use(a, "", needs{memory: true}, false)
	require.Nil(t, rerr)
	opened.linger()
	use := func() *session {
		if s, _ := d.use(a, "", needs{}, false); s.idle != nil {
			return s
		}
		return nil
	}
	require.Same(t, opened, use())
	d.sessions.forget(opened)
	assert.NoError(t, opened.ctx.Err())
	assert.NotNil(t, use(), "it is there for others, too")
	for range 2 {
		d.release(opened, nil)
		d.sessions.forget(opened)
		assert.NoError(t, opened.ctx.Err(), "another request is still under way")
	}
	d.release(opened, nil)
	assert.NoError(t, opened.ctx.Err(), "it stays for a while")
	d.sessions.forget(opened)
	assert.Error(t, opened.ctx.Err())
	assert.Nil(t, use())
}
