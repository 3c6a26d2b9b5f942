package auth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

const resource = "https://tools.example.com/mcp"

type claims map[string]any

// issuer is an authorization server's keys over HTTP, whose fetches are counted.
type issuer struct {
	*httptest.Server
	fetches atomic.Int32
	status  atomic.Int32 // 0 is 200
	hold    atomic.Pointer[chan struct{}]

	mu   sync.Mutex
	keys []jose.JSONWebKey
}

func newIssuer(t testing.TB) *issuer {
	i := new(issuer)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		if h := i.hold.Load(); h != nil {
			<-*h
		}
		if status := i.status.Load(); status != 0 {
			w.WriteHeader(int(status))
			return
		}
		set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: []byte("a shared secret is no key"), KeyID: "oct"}}}
		i.mu.Lock()
		defer i.mu.Unlock()
		for _, k := range i.keys {
			set.Keys = append(set.Keys, k.Public())
		}
		_ = json.NewEncoder(w).Encode(set)
	}))
	t.Cleanup(i.Close)
	i.add(t, "one")
	return i
}

func (i *issuer) add(t testing.TB, kid string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, jose.JSONWebKey{Key: key, KeyID: kid, Algorithm: "ES256", Use: "sig"})
}

// transport answers without a connection.
func (i *issuer) transport(asked *atomic.Int32) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		asked.Add(1)
		w := httptest.NewRecorder()
		i.Config.Handler.ServeHTTP(w, r)
		return w.Result(), nil
	})
}

// sign makes a token by the newest key.
func (i *issuer) sign(t testing.TB, c claims, typ string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return signWith(t, i.keys[len(i.keys)-1], jose.ES256, c, typ)
}

func signWith(t testing.TB, key any, alg jose.SignatureAlgorithm, c claims, typ string) string {
	o := new(jose.SignerOptions)
	if typ != "" {
		o = o.WithType(jose.ContentType(typ))
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	require.NoError(t, err)
	raw, err := json.Marshal(c)
	require.NoError(t, err)
	signed, err := s.Sign(raw)
	require.NoError(t, err)
	token, err := signed.CompactSerialize()
	require.NoError(t, err)
	return token
}

// claims are those of a good token, with changes; nil leaves one out.
func (i *issuer) claims(changes claims) claims {
	c := claims{
		"iss": i.URL, "sub": "ann", "aud": resource, "client_id": "app", "scope": "tools:read",
		"exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(), "jti": rand.Text(),
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func (i *issuer) method(t testing.TB, change func(*auth.JWT)) auth.Method {
	o := auth.JWT{Issuer: i.URL, KeysURL: i.URL, Mapping: auth.Mapping{Audiences: []string{resource}}}
	if change != nil {
		change(&o)
	}
	m, err := auth.NewJWT(o)
	require.NoError(t, err)
	return m
}

func newGuard(t testing.TB, o auth.Options) *auth.Guard {
	if o.Resource == "" {
		o.Resource = resource
	}
	g, err := auth.New(o)
	require.NoError(t, err)
	return g
}

func request(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, resource, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func bearing(token string) *http.Request { return request("Authorization", "Bearer "+token) }

// refusal is how an error of Authenticate refuses.
func refusal(t testing.TB, err error) *server.AuthError {
	var e *server.AuthError
	require.ErrorAs(t, err, &e)
	return e
}

const (
	metadataAt = `Bearer resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp"`
	invalid    = metadataAt + `, error="invalid_token", error_description="the access token is not valid here, or no longer"`
)

func TestTokensThatAreTaken(t *testing.T) {
	i := newIssuer(t)
	plain := saga.Caller{Issuer: i.URL, Subject: "ann", Client: "app", Scopes: []string{"tools:read"}}
	for name, c := range map[string]struct {
		claims claims
		typ    string
		want   func(*saga.Caller)
	}{
		"of RFC 9068":            {nil, "at+jwt", nil},
		"with the full type":     {nil, "application/AT+JWT", nil},
		"plain":                  {nil, "JWT", nil},
		"without a type":         {nil, "", nil},
		"audience with a slash":  {claims{"aud": resource + "/"}, "", nil},
		"one of audiences":       {claims{"aud": []string{"https://other.example.com", "api://tools"}}, "", nil},
		"audience is a GUID":     {claims{"aud": "6a1c1bf5-5ac9-4f6e-9b0f-0e0b3f6a8f3e"}, "", nil},
		"Entra's scopes":         {claims{"scope": nil, "scp": "tools:read"}, "", nil},
		"scopes in a list":       {claims{"scope": []string{"tools:read"}}, "", nil},
		"Keycloak's client":      {claims{"client_id": nil, "azp": "app", "typ": "Bearer"}, "", nil},
		"Keycloak's with nonce":  {claims{"typ": "Bearer", "nonce": "x"}, "", nil},
		"Cognito's":              {claims{"token_use": "access"}, "", nil},
		"Entra's client":         {claims{"client_id": nil, "appid": "app"}, "", nil},
		"no client":              {claims{"client_id": nil}, "", func(c *saga.Caller) { c.Client = "" }},
		"claims that are chosen": {claims{"groups": []string{"a", "b"}, "level": int64(12345678901), "x": "y"}, "", func(c *saga.Caller) { c.Claims = map[string]string{"groups": `["a","b"]`, "level": "12345678901"} }},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuard(t, auth.Options{Methods: []auth.Method{i.method(t, func(o *auth.JWT) {
				o.Audiences = []string{resource, "api://tools", "6a1c1bf5-5ac9-4f6e-9b0f-0e0b3f6a8f3e"}
				o.Claims, o.BindClient = []string{"groups", "level"}, true
			})}})
			token, want := i.sign(t, i.claims(c.claims), c.typ), plain
			if c.want != nil {
				c.want(&want)
			}
			for range 2 {
				who, err := g.Authenticate(bearing(token))
				require.NoError(t, err)
				assert.Equal(t, want, who)
			}
		})
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	i, other := newIssuer(t), newIssuer(t)
	good := i.sign(t, i.claims(nil), "at+jwt")
	parts := strings.Split(good, ".")
	header := func(h string) string { return base64.RawURLEncoding.EncodeToString([]byte(h)) }
	more, err := json.Marshal(i.claims(claims{"scope": "tools admin"}))
	require.NoError(t, err)
	public, err := json.Marshal(i.keys[0].Public())
	require.NoError(t, err)
	tokens := map[string]string{
		"wrong audience":             i.sign(t, i.claims(claims{"aud": "https://tools.example.com/other"}), ""),
		"no audience":                i.sign(t, i.claims(claims{"aud": nil}), ""),
		"the host's root":            i.sign(t, i.claims(claims{"aud": "https://tools.example.com"}), ""),
		"expired":                    i.sign(t, i.claims(claims{"exp": time.Now().Add(-time.Second).Unix()}), ""),
		"without an end":             i.sign(t, i.claims(claims{"exp": nil}), ""),
		"not yet valid":              i.sign(t, i.claims(claims{"nbf": time.Now().Add(time.Hour).Unix()}), ""),
		"no subject":                 i.sign(t, i.claims(claims{"sub": nil}), ""),
		"an ID token by its type":    i.sign(t, i.claims(claims{"typ": "ID"}), ""),
		"an ID token by its hash":    i.sign(t, i.claims(claims{"at_hash": "x"}), ""),
		"an ID token by its nonce":   i.sign(t, i.claims(claims{"nonce": "x"}), ""),
		"an ID token of Cognito":     i.sign(t, i.claims(claims{"token_use": "id"}), ""),
		"Keycloak's logout token":    i.sign(t, i.claims(claims{"typ": "Logout"}), ""),
		"a logout token":             i.sign(t, i.claims(claims{"events": claims{"http://schemas.openid.net/event/backchannel-logout": claims{}}}), ""),
		"an end that is a text":      i.sign(t, i.claims(claims{"exp": "99999999999"}), ""),
		"an end in milliseconds":     i.sign(t, i.claims(claims{"exp": time.Now().Add(time.Hour).UnixMilli()}), ""),
		"another type":               i.sign(t, i.claims(nil), "logout+jwt"),
		"bound to a key":             i.sign(t, i.claims(claims{"cnf": claims{"jkt": "x"}}), ""),
		"refused by the check":       i.sign(t, i.claims(claims{"tid": "mallory"}), ""),
		"another issuer":             other.sign(t, other.claims(nil), ""),
		"another's key":              other.sign(t, i.claims(nil), ""),
		"other claims":               parts[0] + "." + base64.RawURLEncoding.EncodeToString(more) + "." + parts[2],
		"cut off":                    good[:len(good)-4],
		"no signature":               parts[0] + "." + parts[1] + ".",
		"alg none":                   header(`{"alg":"none","typ":"at+jwt"}`) + "." + parts[1] + ".",
		"alg none, signed":           header(`{"alg":"None","kid":"one"}`) + "." + parts[1] + "." + parts[2],
		"the public key as a secret": signWith(t, public, jose.HS256, i.claims(nil), ""),
		"opaque":                     "c2VjcmV0",
		"two dots":                   "..",
		"five parts":                 "a.b.c.d.e",
		"too long":                   strings.Repeat("a", 17<<10),
	}
	g := newGuard(t, auth.Options{Methods: []auth.Method{i.method(t, func(o *auth.JWT) {
		o.FetchEvery = time.Nanosecond
		o.Check = func(_ context.Context, c map[string]any) error {
			if c["tid"] == "mallory" {
				return errors.New("not of this house")
			}
			return nil
		}
	})}})
	for name, token := range tokens {
		for range 2 {
			_, err := g.Authenticate(bearing(token))
			e := refusal(t, err)
			assert.Equal(t, 401, e.Status, name)
			assert.Equal(t, invalid, e.Challenge, "%s: nothing is said of why", name)
			assert.NotContains(t, e.Error(), token[:min(len(token), 9)], "no token is logged")
		}
	}
	for name, r := range map[string]*http.Request{
		"another scheme": request("Authorization", "Basic "+good),
		"two of them":    request("Authorization", "Bearer "+good, "Authorization", "Bearer "+good),
		"something else": request("Authorization", "Bearer "+good+" x"),
	} {
		_, err := g.Authenticate(r)
		assert.Equal(t, invalid, refusal(t, err).Challenge, name)
	}
	inURL := httptest.NewRequest(http.MethodPost, resource+"?access_token="+good, nil)
	_, err = g.Authenticate(inURL)
	assert.Equal(t, metadataAt, refusal(t, err).Challenge, "a token in a URL is none")
	_, err = g.Authenticate(bearing(good))
	assert.NoError(t, err)
}

func TestOnlyAccessTokens(t *testing.T) {
	i := newIssuer(t)
	m := i.method(t, func(o *auth.JWT) { o.OnlyAccessTokens = true })
	_, err := m.Identify(bearing(i.sign(t, i.claims(nil), "at+jwt")))
	assert.NoError(t, err)
	_, err = m.Identify(bearing(i.sign(t, i.claims(nil), "JWT")))
	assert.ErrorContains(t, err, "type")
}

// One method takes the tokens of all tenants, each of its own issuer, and of several methods each takes those of its issuer.
func TestSeveralIssuers(t *testing.T) {
	i, other := newIssuer(t), newIssuer(t)
	tenants := i.method(t, func(o *auth.JWT) { o.Issuer = "https://login.example.com/{tid}/v2.0" })
	g := newGuard(t, auth.Options{Methods: []auth.Method{tenants, other.method(t, nil)}})
	who, err := g.Authenticate(bearing(i.sign(t, i.claims(claims{"iss": "https://login.example.com/t1/v2.0", "tid": "t1"}), "")))
	require.NoError(t, err)
	assert.Equal(t, "https://login.example.com/t1/v2.0", who.Issuer)
	who, err = g.Authenticate(bearing(other.sign(t, other.claims(nil), "")))
	require.NoError(t, err)
	assert.Equal(t, other.URL, who.Issuer)
	for _, c := range []claims{{"iss": "https://login.example.com/t1/v2.0", "tid": "t2"}, {"iss": "https://login.example.com//v2.0"}, {"iss": "https://login.example.com/{tid}/v2.0"}} {
		_, err = g.Authenticate(bearing(i.sign(t, i.claims(c), "")))
		assert.Equal(t, 401, refusal(t, err).Status, "%v", c)
	}
	assert.EqualValues(t, 1, i.fetches.Load())
	assert.EqualValues(t, 1, other.fetches.Load())
}

func TestScopes(t *testing.T) {
	i := newIssuer(t)
	g := newGuard(t, auth.Options{
		Methods: []auth.Method{i.method(t, nil)}, AuthorizationServers: []string{i.URL},
		Scopes: []string{"tools:read"}, FirstScopes: []string{"tools:read", "tools:write"},
		Tools: map[string][]string{"order": {"tools:write", "orders"}}, Resources: map[string][]string{"notes": {"notes"}},
	})
	_, err := g.Authenticate(request())
	assert.Equal(t, metadataAt+`, scope="tools:read tools:write"`, refusal(t, err).Challenge, "no error without a token, and more than the least")
	_, err = g.Authenticate(bearing(i.sign(t, i.claims(claims{"scope": "openid notes"}), "")))
	e := refusal(t, err)
	assert.Equal(t, 403, e.Status)
	tooFew := metadataAt + `, error="insufficient_scope", error_description="this takes scopes that the access token does not have"`
	assert.Equal(t, tooFew+`, scope="tools:read notes"`, e.Challenge, "what the token has already stays")

	who := func(scopes ...string) saga.Caller { return saga.Caller{Issuer: "x", Subject: "ann", Scopes: scopes} }
	permit := func(c saga.Caller, kind, name string) error { return g.Permit(context.Background(), c, kind, name) }
	e = refusal(t, permit(who("tools:read"), "tool", "order"))
	assert.Equal(t, 403, e.Status)
	assert.Equal(t, tooFew+`, scope="tools:read tools:write orders"`, e.Challenge)
	for _, scopes := range [][]string{{"tools", "orders"}, {"tools:read", "tools:write", "orders"}} {
		assert.NoError(t, permit(who(scopes...), "tool", "order"))
	}
	for _, scopes := range [][]string{nil, {""}, {"tool", "orders"}, {"tools:", "orders"}, {"tools:read:all", "orders"}, {"TOOLS", "orders"}} {
		assert.Error(t, permit(who(scopes...), "tool", "order"), "%q", scopes)
	}
	assert.NoError(t, permit(who("tools:read"), "tool", "other"))
	assert.NoError(t, permit(who("tools:read"), "prompt", "order"), "of the same name")
	assert.Error(t, permit(who("tools:read"), "resource", "notes"))
	assert.Error(t, permit(saga.Caller{}, "tool", "other"), "nobody has no scopes")

	hides := newGuard(t, auth.Options{Methods: []auth.Method{i.method(t, nil)}, Hide: true, ScopePrefix: "api://tools/", Scopes: []string{"a"}, Tools: map[string][]string{"order": {"b"}}})
	assert.ErrorIs(t, hides.Permit(context.Background(), who("a"), "tool", "order"), server.ErrHidden)
	_, err = hides.Authenticate(request())
	assert.Equal(t, metadataAt+`, scope="api://tools/a"`, refusal(t, err).Challenge)
}
