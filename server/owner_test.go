package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Anonymous callers are told apart by their address, unless many may be behind it.
func TestPublicAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"203.0.113.7:1234": "203.0.113.7", "[::ffff:203.0.113.7]:1": "203.0.113.7",
		"[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64", "[2001:db8:1:2:ffff::4]:1": "2001:db8:1:2::/64", "[2001:db8:1:3::4]:1": "2001:db8:1:3::/64",
		"127.0.0.1:1": "", "[::1]:1": "", "10.1.2.3:1": "", "192.168.0.9:1": "", "172.16.0.1:1": "", "[fd00::1]:1": "", "[fe80::1%eth0]:1": "", "169.254.1.1:1": "",
		"": "", "@": "", "pipe": "", "203.0.113.7": "203.0.113.7", "2001:db8:1:2::9": "2001:db8:1:2::/64", "10.1.2.3": "",
	} {
		assert.Equal(t, want, publicAddress(&http.Request{RemoteAddr: remote}), remote)
	}
}

// A principal is never counted with an anonymous caller, whatever their names.
func TestOwners(t *testing.T) {
	key := ""
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := New(Options{
		Keys: keys, Logger: slog.New(slog.DiscardHandler), CallerKey: func(*http.Request) string { return key },
		Authenticate: func(r *http.Request) (saga.Caller, error) {
			return saga.Caller{Subject: r.Header.Get("Subject")}, nil
		},
	})
	require.NoError(t, err)
	account := func(subject string) string {
		r := httptest.NewRequest(http.MethodPost, "http://localhost"+Endpoint, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Subject", subject)
		w := httptest.NewRecorder()
		x := &httpExchange{server: s, request: r, reply: wire.Reply{Writer: w}}
		assert.True(t, s.read(x, w))
		return x.Account
	}
	assert.Empty(t, account(""))
	ann, bob := account("ann"), account("bob")
	key = (&engine.Caller{Subject: "ann"}).Binding()
	owners := []string{ann, bob, account("")}
	for i, a := range owners {
		assert.NotEmpty(t, a)
		assert.NotContains(t, owners[i+1:], a)
	}
	assert.Equal(t, ann, account("ann"))
}
