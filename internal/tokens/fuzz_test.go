package tokens_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

func FuzzOpen(f *testing.F) {
	c := newCodec(f, newKeyset(f), tokens.Options{})
	token := seal(f, c, alice, sample(smallState))
	for _, seed := range []string{"", "1", token, token[:40], "1" + strings.Repeat("A", 80), token + "\n", "2" + token[1:]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, err := c.Open(alice, noon, s)
		if s == token {
			require.NoError(t, err)
			return
		}
		require.Nil(t, x)
		require.EqualError(t, err, "token not accepted")
		require.NotZero(t, c.Explain(alice, noon, s, nil).Reason)
	})
}

func FuzzSealOpen(f *testing.F) {
	c := newCodec(f, newKeyset(f), tokens.Options{Audience: "here"})
	f.Add([]byte(smallState), []byte(nil), "deploy", uint32(1), uint32(2), int64(600), int64(0), "p", "q", []byte{1})
	f.Add([]byte(mediumState), []byte("secret"), "", uint32(0), uint32(1<<32-1), int64(61), int64(86400), "", "", []byte(nil))
	f.Fuzz(func(t *testing.T, state, secret []byte, tool string, turn, revision uint32, ttl, deadline int64, tenant, principal string, request []byte) {
		b := tokens.Binding{Tenant: tenant, Principal: principal}
		x := &tokens.Contents{
			Claims: tokens.Claims{
				ID: tokens.ID{1}, Turn: turn, Tool: tool, Revision: revision, Request: request,
				IssuedAt: noon, ExpiresAt: noon.Add(time.Duration(ttl%1e9) * time.Second),
			},
			State: state, Secret: secret,
		}
		if deadline != 0 {
			x.Claims.Deadline = noon.Add(time.Duration(deadline%1e9) * time.Second)
		}
		token, err := c.Seal(b, noon, x)
		if err != nil {
			return
		}
		at := x.Claims.ExpiresAt
		if d := x.Claims.Deadline; !d.IsZero() && d.Before(at) {
			at = d
		}
		got, err := c.Open(b, at, token)
		require.NoError(t, err)
		if len(request) == 0 {
			x.Claims.Request = nil
		}
		require.Equal(t, x.Claims, got.Claims)
		require.Equal(t, string(state), string(got.State))
		require.Equal(t, string(secret), string(got.Secret))
		_, err = c.Open(tokens.Binding{Tenant: tenant + "x", Principal: principal}, at, token)
		requireRejected(t, err, tokens.ReasonAuthentication)
	})
}
