package server

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A session whose time runs out at the moment in which it is used again goes on: the
// timer may have fired before hold could stop it.
func TestSessionInUseDoesNotExpire(t *testing.T) {
	s := newLayered(t).s
	t.Cleanup(s.Close)
	d := &s.handshake
	p, _, fail := d.open([]byte(`{"protocolVersion":"2025-11-25","capabilities":{}}`))
	require.Nil(t, fail)
	opened, err := d.start(p, caller{principal: Anonymous})
	require.NoError(t, err)
	require.NotNil(t, d.sessions.use(opened.id))
	d.expire(opened)
	assert.NoError(t, opened.ctx.Err())
	assert.NotNil(t, d.sessions.use(opened.id), "it is there for others, too")
	d.release(opened)
	d.expire(opened)
	assert.NoError(t, opened.ctx.Err(), "one request is still under way")
	d.release(opened)
	d.expire(opened)
	assert.Error(t, opened.ctx.Err())
	assert.Nil(t, d.sessions.use(opened.id))
}
