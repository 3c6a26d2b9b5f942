package server

import (
	"context"
	"net/http"
	"testing"

	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Anonymous callers are told apart by their address, unless many may be behind it.
func TestPublicAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"203.0.113.7:1234": "203.0.113.7", "[::ffff:203.0.113.7]:1": "203.0.113.7",
		"[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64", "[2001:db8:1:2:ffff::4]:1": "2001:db8:1:2::/64", "[2001:db8:1:3::4]:1": "2001:db8:1:3::/64",
		"127.0.0.1:1": "", "[::1]:1": "", "10.1.2.3:1": "", "192.168.0.9:1": "", "172.16.0.1:1": "", "[fd00::1]:1": "", "[fe80::1%eth0]:1": "", "169.254.1.1:1": "",
		"": "", "@": "", "pipe": "", "203.0.113.7": "",
	} {
		assert.Equal(t, want, publicAddress(&http.Request{RemoteAddr: remote}), remote)
	}
}

// A principal is never counted with an anonymous caller, whatever their names.
func TestOwners(t *testing.T) {
	key, anonymous := "", caller{came: new(http.Request)}
	s := &Server{opts: Options{CallerKey: func(*http.Request) string { return key }}}
	assert.Empty(t, s.ownerOf(anonymous))
	ann, bob := s.ownerOf(caller{principal: Principal{Subject: "ann"}}), s.ownerOf(caller{principal: Principal{Subject: "bob"}})
	key = Principal{Subject: "ann"}.binding()
	owners := []string{ann, bob, s.ownerOf(anonymous)}
	for i, a := range owners {
		assert.NotEmpty(t, a)
		assert.NotContains(t, owners[i+1:], a)
	}
	assert.Equal(t, ann, s.ownerOf(caller{principal: Principal{Subject: "ann"}}))
}

// Whoever opens a subscription and goes leaves no work behind.
func TestListenStopsForAClientThatHasGone(t *testing.T) {
	l := newLayered(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &statelessRequest{Message: wire.Message{Params: []byte(`{"notifications":{"resourceSubscriptions":["test://a"]}}`)}}
	_, no := l.s.stateless.openListener(ctx, r)
	require.NotNil(t, no)
	assert.Zero(t, l.s.streams.open)
	listening, no := l.s.stateless.openListener(t.Context(), r)
	require.Nil(t, no)
	assert.Equal(t, 1, l.s.streams.open)
	listening.leave()
	assert.Zero(t, l.s.streams.open)
}
