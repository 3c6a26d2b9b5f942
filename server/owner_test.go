package server

import (
	"net/http"
	"testing"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/stretchr/testify/assert"
)

// Principal{} callers are told apart by their address, unless many may be behind it.
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
	key := ""
	s := &Server{opts: Options{CallerKey: func(*http.Request) string { return key }}}
	account := func(p Principal) string {
		return (&httpExchange{Exchange: dialect.Exchange{Principal: p.binding()}, server: s, request: new(http.Request)}).Account()
	}
	assert.Empty(t, account(Principal{}))
	ann, bob := account(Principal{Subject: "ann"}), account(Principal{Subject: "bob"})
	key = Principal{Subject: "ann"}.binding()
	owners := []string{ann, bob, account(Principal{})}
	for i, a := range owners {
		assert.NotEmpty(t, a)
		assert.NotContains(t, owners[i+1:], a)
	}
	assert.Equal(t, ann, account(Principal{Subject: "ann"}))
}

// Hooks of turns that the server takes by itself get back who it was.
func TestPrincipalOfABinding(t *testing.T) {
	for _, p := range []Principal{{}, {Subject: "ann"}, {"https://issuer.example.com", "ann", "app"}, {Client: "\x00\xff"}} {
		assert.Equal(t, p, principalOf(p.binding()))
	}
	for _, wrong := range []string{"\x05ann", "\x03ann", "\xff"} {
		assert.Equal(t, Principal{}, principalOf(wrong), "never somebody else")
	}
}
