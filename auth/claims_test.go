package auth_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// introspecting is a method whose issuer answers at once, and what it was asked.
func introspecting(t testing.TB, asked *atomic.Int32, answer func(token string) claims, change func(*auth.Introspection)) auth.Method {
	o := auth.Introspection{
		Issuer: "https://i.example.com", URL: "https://i.example.com/ask", Mapping: auth.Mapping{Audiences: []string{resource}},
		Checking: auth.Checking{Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			asked.Add(1)
			raw, err := json.Marshal(answer(r.FormValue("token")))
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(string(raw)))}, err
		})}},
	}
	change(&o)
	m, err := auth.NewIntrospection(o)
	require.NoError(t, err)
	return m
}

func active(more claims) claims {
	c := claims{"active": true, "sub": "ann", "aud": resource}
	maps.Copy(c, more)
	return c
}

// A Check that asks others holds up who has the same token, and no other; and only for so long.
func TestChecksOfClaimsHoldUpNobodyElse(t *testing.T) {
	i := newIssuer(t)
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		slow := func(ctx context.Context, c map[string]any) error {
			if c["sub"] != "slow" {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		keys := introspecting(t, &asked, func(token string) claims { return active(claims{"sub": token}) }, func(o *auth.Introspection) {
			o.MaxChecks, o.Check = 1, slow
		})
		tokens := i.method(t, func(o *auth.JWT) {
			o.MaxChecks, o.Check = 1, slow
			o.Client = &http.Client{Transport: i.transport(&asked)}
		})
		for _, c := range []struct {
			m           auth.Method
			slow, quick string
		}{
			{keys, "slow", "ann"},
			{tokens, i.sign(t, i.claims(claims{"sub": "slow", "exp": int64(1 << 36)}), ""), i.sign(t, i.claims(claims{"exp": int64(1 << 36)}), "")},
		} {
			g, began, done := newGuard(t, auth.Options{Methods: []auth.Method{c.m}}), time.Now(), make(chan error, 1)
			go func() { _, err := g.Authenticate(bearing(c.slow)); done <- err }()
			synctest.Wait()
			_, err := g.Authenticate(bearing(c.quick))
			require.NoError(t, err)
			assert.Equal(t, began, time.Now(), "it has not waited")
			var e *server.Error
			require.ErrorAs(t, <-done, &e, "it says nothing about the token")
			assert.Equal(t, 10*time.Second, time.Since(began))
		}
	})
}

// What will be refused again is not asked about again at once.
func TestRefusedClaimsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, checks atomic.Int32
		var check error
		m := introspecting(t, &asked, func(token string) claims {
			return map[string]claims{
				"audience": active(claims{"aud": "https://other.example.com"}), "issuer": active(claims{"iss": "https://other.example.com"}),
				"nobody": active(claims{"sub": ""}), "inactive": {"active": false}, "good": active(nil),
			}[token]
		}, func(o *auth.Introspection) {
			o.Check = func(context.Context, map[string]any) error { checks.Add(1); return check }
		})
		for _, token := range []string{"audience", "issuer", "nobody", "inactive"} {
			before := asked.Load()
			for range 10 {
				_, err := m.Identify(bearing(token))
				require.Error(t, err)
			}
			assert.Equal(t, before+1, asked.Load(), token)
		}
		check = server.TryAgain("later", time.Second)
		for range 3 {
			_, err := m.Identify(bearing("good"))
			require.Error(t, err)
		}
		assert.EqualValues(t, 3, checks.Load(), "this says nothing about the token")
		check = errors.New("not of this house")
		for range 3 {
			_, err := m.Identify(bearing("good"))
			require.ErrorContains(t, err, "house")
		}
		assert.EqualValues(t, 4, checks.Load())
		check = nil
		time.Sleep(5 * time.Second)
		_, err := m.Identify(bearing("good"))
		require.NoError(t, err)
	})
}

// What an issuer is asked about may be no access token; what says so is refused.
func TestOtherTokensByIntrospection(t *testing.T) {
	var asked atomic.Int32
	refused := map[string]claims{
		"refresh": {"token_type": "refresh_token"}, "Hydra-refresh": {"token_use": "refresh_token", "token_type": "Bearer"},
		"Keycloak-refresh": {"typ": "Refresh"}, "DPoP": {"token_type": "DPoP"}, "ID": {"nonce": "n"}, "odd": {"token_type": 7},
	}
	taken := map[string]claims{"bearer": {"token_type": "Bearer"}, "Hydra": {"token_type": "bearer", "token_use": "access_token"}, "endless": {}}
	m := introspecting(t, &asked, func(token string) claims {
		if c, ok := taken[token]; ok {
			return active(c)
		}
		return active(refused[token])
	}, func(*auth.Introspection) {})
	for token := range refused {
		_, err := m.Identify(bearing(token))
		assert.ErrorContains(t, err, "no access token", token)
	}
	for token := range taken {
		_, err := m.Identify(bearing(token))
		assert.NoError(t, err, token)
	}
}

// A user is no machine, whatever an issuer lets users be called; and no two lists of groups are the same to tools.
func TestCallersAreNotMixedUp(t *testing.T) {
	var asked atomic.Int32
	answer := claims{}
	for _, machines := range []bool{false, true} {
		m := introspecting(t, &asked, func(string) claims { return answer }, func(o *auth.Introspection) {
			o.Machines, o.Remember, o.Claims = machines, -1, []string{"groups"}
		})
		answer = active(claims{"sub": "client:x"})
		_, err := m.Identify(bearing("user"))
		assert.Equal(t, machines, err != nil)
		answer = active(claims{"sub": nil, "client_id": "x"})
		who, err := m.Identify(bearing("machine"))
		assert.Equal(t, machines, err == nil)
		if machines {
			assert.Equal(t, "client:x", who.Subject)
		}
		seen := map[string]bool{}
		for _, groups := range []any{"staff admin", []string{"staff", "admin"}, []string{"staff admin", "x"}, `["staff","admin"]`, []string{"[", "a"}, "[", `["["]`, []string{`["["]`, ""}} {
			answer = active(claims{"groups": groups})
			who, err := m.Identify(bearing("groups"))
			require.NoError(t, err)
			assert.False(t, seen[who.Claims["groups"]], "%q looks like another", groups)
			seen[who.Claims["groups"]] = true
		}
	}
}

// The log says why a caller with too much to say of it cannot be served; clients are not sent to sign in again.
func TestTooManyClaims(t *testing.T) {
	var asked atomic.Int32
	m := introspecting(t, &asked, func(string) claims { return active(claims{"groups": strings.Repeat("g", 4096)}) }, func(o *auth.Introspection) { o.Claims = []string{"groups"} })
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	var log strings.Builder
	tool := saga.Flow[struct{}, string]{Info: saga.Info{Name: "order"}, Run: func(*saga.Run, struct{}) (string, error) { return "", nil }}
	o := server.Options{Tools: []saga.Definition{tool}, Keys: keys, AllowedHosts: []string{"tools.example.com"}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	require.NoError(t, newGuard(t, auth.Options{Methods: []auth.Method{m}}).Secure(&o))
	s, err := server.New(o)
	require.NoError(t, err)
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, resource, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	r.Header.Set("Authorization", "Bearer x")
	r.Header.Set("Content-Type", "application/json")
	s.Handler().ServeHTTP(w, r)
	assert.Equal(t, 403, w.Code, "%s", w.Body)
	assert.Empty(t, w.Header().Get("WWW-Authenticate"))
	assert.Contains(t, log.String(), "a caller has claims of 4102 bytes; names and values may have 4096: choose those that tools need")
}
