package auth_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// The issuer alone is enough: its metadata says where its keys are, and whom to ask about tokens, wherever it has it.
func TestDiscovery(t *testing.T) {
	const path, oauth, openID = "/tenant", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	i := newIssuer(t)
	for name, at := range map[string]struct{ issuer, place string }{
		"RFC 8414": {path, oauth + path}, "OpenID, as RFC 8414": {path, openID + path}, "OpenID": {path, path + openID},
		"at the root": {"", oauth}, "OpenID at the root": {"", openID}, "with a slash": {path + "/", path + openID},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			web := httptest.NewServer(mux)
			defer web.Close()
			mux.Handle("/keys", i.Config.Handler)
			mux.HandleFunc("/ask", func(w http.ResponseWriter, r *http.Request) {
				_ = json.NewEncoder(w).Encode(active(claims{"sub": r.FormValue("token")}))
			})
			mux.HandleFunc(at.place, func(w http.ResponseWriter, _ *http.Request) {
				_ = json.NewEncoder(w).Encode(claims{"issuer": web.URL + at.issuer, "jwks_uri": web.URL + "/keys", "introspection_endpoint": web.URL + "/ask"})
			})
			mapping := auth.Mapping{Audiences: []string{resource}}
			tokens, err := auth.NewJWT(auth.JWT{Issuer: web.URL + at.issuer, Mapping: mapping})
			require.NoError(t, err)
			opaque, err := auth.NewIntrospection(auth.Introspection{Issuer: web.URL + at.issuer, Mapping: mapping})
			require.NoError(t, err)
			g := newGuard(t, auth.Options{Methods: []auth.Method{tokens, opaque}})
			require.NoError(t, g.Probe(t.Context()))
			who, err := g.Authenticate(bearing(i.sign(t, i.claims(claims{"iss": web.URL + at.issuer}), "")))
			require.NoError(t, err)
			assert.Equal(t, saga.Caller{Issuer: web.URL + at.issuer, Subject: "ann", Scopes: []string{"tools:read"}}, who)
			who, err = g.Authenticate(bearing("bob"))
			require.NoError(t, err)
			assert.Equal(t, "bob", who.Subject)
		})
	}
}

// Metadata whose addresses are no texts is none: the next place is asked.
func TestDiscoveryBehindOddMetadata(t *testing.T) {
	i := newIssuer(t)
	for _, odd := range []claims{{"jwks_uri": 7}, {"jwks_uri": i.URL, "introspection_endpoint": []string{"x"}}} {
		mux := http.NewServeMux()
		web := httptest.NewServer(mux)
		defer web.Close()
		odd["issuer"] = web.URL
		mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(odd) })
		mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(claims{"issuer": web.URL, "jwks_uri": i.URL, "introspection_endpoint": nil})
		})
		tokens, err := auth.NewJWT(auth.JWT{Issuer: web.URL, Mapping: auth.Mapping{Audiences: []string{resource}}})
		require.NoError(t, err)
		assert.NoError(t, newGuard(t, auth.Options{Methods: []auth.Method{tokens}}).Probe(t.Context()))
	}
}

// What is not the issuer's metadata is not believed. It is asked for again after a while, hourly when it was had, and what it
// said last counts while it cannot be had.
func TestMetadataOfIssuers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []string
		var document any
		answer := func(r *http.Request) any {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, r.URL.Host+r.URL.Path)
			if r.Method == http.MethodPost {
				return active(nil)
			}
			return document
		}
		web := func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			if answer := answer(r); answer != nil {
				_ = json.NewEncoder(w).Encode(answer)
			} else {
				w.WriteHeader(404)
			}
			return w.Result(), nil
		}
		m, err := auth.NewIntrospection(auth.Introspection{
			Issuer: "https://i.example.com", Mapping: auth.Mapping{Audiences: []string{resource}},
			Checking: auth.Checking{Remember: -1, Client: &http.Client{Transport: roundTrip(web)}},
		})
		require.NoError(t, err)
		g := newGuard(t, auth.Options{Methods: []auth.Method{m}})
		use := func() ([]string, error) {
			mu.Lock()
			asked = nil
			mu.Unlock()
			_, err := g.Authenticate(bearing("x"))
			return slices.Clone(asked), err
		}
		places := []string{"i.example.com/.well-known/oauth-authorization-server", "i.example.com/.well-known/openid-configuration"}
		for _, c := range []struct {
			want     string
			document any
		}{
			{"status 404", nil},
			{"is of the issuer \"https://mallory.example.com\"", claims{"issuer": "https://mallory.example.com", "introspection_endpoint": "https://mallory.example.com"}},
			{"cannot unmarshal", "no object"},
			{"has no introspection_endpoint", claims{"issuer": "https://i.example.com"}},
			{"must be https", claims{"issuer": "https://i.example.com", "introspection_endpoint": "http://i.example.com/ask"}},
		} {
			want := c.want
			document = c.document
			got, err := use()
			var later *server.Error
			require.ErrorAs(t, err, &later, want)
			assert.ErrorContains(t, err, want)
			assert.ErrorContains(t, g.Probe(context.Background()), want)
			assert.Equal(t, places[:max(1, len(got))], got)
			got, _ = use()
			assert.Empty(t, got, "it is not asked all the time")
			time.Sleep(time.Hour)
		}
		document = claims{"issuer": "https://i.example.com", "introspection_endpoint": "https://i.example.com/ask"}
		got, err := use()
		require.NoError(t, err)
		assert.Equal(t, []string{places[0], "i.example.com/ask"}, got)
		document = nil
		got, err = use()
		require.NoError(t, err)
		assert.Equal(t, []string{"i.example.com/ask"}, got)
		time.Sleep(time.Hour)
		got, err = use()
		require.NoError(t, err, "what it said last will do")
		assert.Equal(t, append(slices.Clone(places), "i.example.com/ask"), got)
	})
}
