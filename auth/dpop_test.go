package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/saga"
)

// holder is a client with a key to which its tokens are bound.
type holder struct {
	key any
	alg jose.SignatureAlgorithm
}

func newHolder(t testing.TB) holder {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return holder{key, jose.ES256}
}

// bound is the claim "cnf" of its tokens.
func (h holder) bound(t testing.TB) claims {
	public := jose.JSONWebKey{Key: h.key}
	sum, err := public.Thumbprint(crypto.SHA256)
	require.NoError(t, err)
	return claims{"jkt": base64.RawURLEncoding.EncodeToString(sum)}
}

// proof is one for a POST to the resource with a token, with changes; nil leaves a claim out.
func (h holder) proof(t testing.TB, token string, changes claims, change func(*jose.SignerOptions)) string {
	sum := sha256.Sum256([]byte(token))
	c := claims{"htm": "POST", "htu": resource, "iat": time.Now().Unix(), "jti": rand.Text(), "ath": base64.RawURLEncoding.EncodeToString(sum[:])}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	o := (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt")
	if change != nil {
		change(o)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: h.alg, Key: h.key}, o)
	require.NoError(t, err)
	raw, err := json.Marshal(c)
	require.NoError(t, err)
	signed, err := s.Sign(raw)
	require.NoError(t, err)
	proof, err := signed.CompactSerialize()
	require.NoError(t, err)
	return proof
}

func proving(token string, proofs ...string) *http.Request {
	r := request("Authorization", "DPoP "+token)
	for _, p := range proofs {
		r.Header.Add("DPoP", p)
	}
	return r
}

const (
	offered      = `, DPoP algs="ES256 EdDSA"`
	invalidProof = `DPoP resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp"` +
		`, error="invalid_dpop_proof", error_description="the proof is not valid for this request and access token", algs="ES256 EdDSA"`
)

func TestProofsThatAreTaken(t *testing.T) {
	i := newIssuer(t)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	g := newGuard(t, auth.Options{Methods: []auth.Method{i.method(t, nil)}, DPoP: true})
	for name, h := range map[string]holder{"ES256": newHolder(t), "EdDSA": {edwards, jose.EdDSA}} {
		token := i.sign(t, i.claims(claims{"cnf": h.bound(t)}), "at+jwt")
		for at, changes := range map[string]claims{
			"at once": nil, "with a query": {"htu": resource + "?a=b#c"}, "with a slash": {"htu": resource + "/"},
			"with the port": {"htu": "HTTPS://Tools.example.com:443/mcp"}, "early": {"iat": time.Now().Add(4 * time.Minute).Unix()},
			"late": {"iat": time.Now().Add(-4 * time.Minute).Unix()},
		} {
			who, err := g.Authenticate(proving(token, h.proof(t, token, changes, nil)))
			require.NoError(t, err, "%s %s", name, at)
			assert.Equal(t, "ann", who.Subject)
		}
		r := proving(token, h.proof(t, token, claims{"htm": "GET", "htu": "https://tools.example.com/mcp/more"}, nil))
		r.Method, r.URL.Path = "GET", "/mcp/more" // another path of the same server
		_, err = g.Authenticate(r)
		require.NoError(t, err)
	}
	_, err = g.Authenticate(bearing(i.sign(t, i.claims(nil), "at+jwt")))
	require.NoError(t, err, "others are still bearers'")
}

func TestProofsThatAreRefused(t *testing.T) {
	i := newIssuer(t)
	h, other := newHolder(t), newHolder(t)
	token, its := i.sign(t, i.claims(claims{"cnf": h.bound(t)}), "at+jwt"), i.sign(t, i.claims(claims{"cnf": other.bound(t)}), "at+jwt")
	g := newGuard(t, auth.Options{Methods: []auth.Method{i.method(t, nil)}, DPoP: true})
	claim := func(changes claims) []string { return []string{h.proof(t, token, changes, nil)} }
	header := func(change func(*jose.SignerOptions)) []string { return []string{h.proof(t, token, nil, change)} }
	good := h.proof(t, token, nil, nil)
	_, err := g.Authenticate(proving(token, good))
	require.NoError(t, err)
	tampered := []byte(h.proof(t, token, nil, nil))
	tampered[len(tampered)-10] ^= 1
	for name, proofs := range map[string][]string{
		"none": nil, "two": {h.proof(t, token, nil, nil), h.proof(t, token, nil, nil)}, "nothing": {""}, "no JWS": {"a.b.c"}, "too long": {string(make([]byte, 5000))},
		"again": {good}, "of another key": {other.proof(t, token, nil, nil)}, "tampered": {string(tampered)},
		"of another type": header(func(o *jose.SignerOptions) { o.WithType("JWT") }),
		"without its key": header(func(o *jose.SignerOptions) { o.EmbedJWK = false }),
		"a shared secret": {holder{[]byte("0123456789abcdef0123456789abcdef"), jose.HS256}.proof(t, token, nil, func(o *jose.SignerOptions) { o.EmbedJWK = false })},
		"another method":  claim(claims{"htm": "GET"}), "no method": claim(claims{"htm": nil}), "another path": claim(claims{"htu": "https://tools.example.com/other"}),
		"another host": claim(claims{"htu": "https://evil.example.com/mcp"}), "another scheme": claim(claims{"htu": "http://tools.example.com/mcp"}),
		"another port": claim(claims{"htu": "https://tools.example.com:8443/mcp"}), "with a user": claim(claims{"htu": "https://u@tools.example.com/mcp"}),
		"no URL": claim(claims{"htu": nil}), "another token": claim(claims{"ath": h.bound(t)["jkt"]}), "no token": claim(claims{"ath": nil}),
		"old": claim(claims{"iat": time.Now().Add(-6 * time.Minute).Unix()}), "of later": claim(claims{"iat": time.Now().Add(6 * time.Minute).Unix()}),
		"no time": claim(claims{"iat": nil}), "no jti": claim(claims{"jti": nil}),
	} {
		_, err := g.Authenticate(proving(token, proofs...))
		assert.Equal(t, invalidProof, refusal(t, err).Challenge, name)
	}
	for name, r := range map[string]*http.Request{
		"a bound token of a bearer": bearing(token), "a bound token of a bearer with a proof": request("Authorization", "Bearer "+token, "DPoP", h.proof(t, token, nil, nil)),
	} {
		_, err = g.Authenticate(r)
		assert.Equal(t, invalid+offered, refusal(t, err).Challenge, name)
	}
	loose := i.sign(t, i.claims(nil), "at+jwt")
	for name, r := range map[string]*http.Request{
		"a loose token with a proof": proving(loose, h.proof(t, loose, nil, nil)),
		"bound by TLS":               proving(i.sign(t, i.claims(claims{"cnf": claims{"x5t#S256": "x"}}), ""), good),
		"bound twice":                proving(i.sign(t, i.claims(claims{"cnf": claims{"x5t#S256": "x", "jkt": h.bound(t)["jkt"]}}), ""), good),
		"bound to nothing":           proving(i.sign(t, i.claims(claims{"cnf": claims{}}), ""), good),
		"bound to no text":           proving(i.sign(t, i.claims(claims{"cnf": claims{"jkt": 7}}), ""), good),
	} {
		_, err = g.Authenticate(r)
		assert.Contains(t, refusal(t, err).Challenge, `error="invalid_token"`, name)
	}
	_, err = g.Authenticate(proving(its, other.proof(t, its, nil, nil)))
	require.NoError(t, err, "another client has another key")

	without := newGuard(t, auth.Options{Methods: []auth.Method{i.method(t, nil)}})
	for _, r := range []*http.Request{proving(token, h.proof(t, token, nil, nil)), bearing(token)} {
		_, err = without.Authenticate(r)
		assert.Equal(t, invalid, refusal(t, err).Challenge, "who does not ask for it does not take it")
	}
}

func TestProofsAtOnceAreTakenOnce(t *testing.T) {
	i, h := newIssuer(t), newHolder(t)
	token := i.sign(t, i.claims(claims{"cnf": h.bound(t)}), "at+jwt")
	g := newGuard(t, auth.Options{Methods: []auth.Method{i.method(t, nil)}, DPoP: true})
	proof := h.proof(t, token, nil, nil)
	var taken atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := g.Authenticate(proving(token, proof)); err == nil {
				taken.Add(1)
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 1, taken.Load())
}

func TestBoundTokensThatAreRequired(t *testing.T) {
	i, h := newIssuer(t), newHolder(t)
	key, hash := auth.NewAPIKey()
	machines, err := auth.NewAPIKeys("", auth.APIKey{Hash: hash, Caller: saga.Caller{Subject: "job"}})
	require.NoError(t, err)
	g := newGuard(t, auth.Options{Methods: []auth.Method{machines, i.method(t, nil)}, DPoP: true, RequireDPoP: true})
	_, err = g.Authenticate(bearing(i.sign(t, i.claims(nil), "at+jwt")))
	assert.Contains(t, refusal(t, err).Challenge, `DPoP resource_metadata=`)
	token := i.sign(t, i.claims(claims{"cnf": h.bound(t)}), "at+jwt")
	_, err = g.Authenticate(proving(token, h.proof(t, token, nil, nil)))
	require.NoError(t, err)
	_, err = g.Authenticate(bearing(key))
	require.NoError(t, err, "a machine's key is no access token")
	_, err = g.Authenticate(proving(key, h.proof(t, key, nil, nil)))
	assert.Error(t, err)

	w := httptest.NewRecorder()
	g.Handler(nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/.well-known/oauth-protected-resource/mcp", nil))
	var metadata struct {
		Algs     []string `json:"dpop_signing_alg_values_supported"`
		Required bool     `json:"dpop_bound_access_tokens_required"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &metadata))
	assert.True(t, metadata.Required)
	assert.Equal(t, []string{"ES256", "EdDSA"}, metadata.Algs)

	wrapped := struct{ auth.Method }{i.method(t, nil)}
	_, err = auth.New(auth.Options{Resource: resource, Methods: []auth.Method{machines, wrapped}, DPoP: true, RequireDPoP: true})
	assert.ErrorContains(t, err, "RequireDPoP cannot be held by the method")
	g = newGuard(t, auth.Options{Methods: []auth.Method{wrapped}, DPoP: true})
	_, err = g.Authenticate(proving(token, h.proof(t, token, nil, nil)))
	assert.Error(t, err, "as its own method has it")
	_, err = auth.New(auth.Options{Resource: resource, Methods: []auth.Method{machines}, RequireDPoP: true})
	assert.ErrorContains(t, err, "needs DPoP")
}

func TestProofsWithIntrospection(t *testing.T) {
	var status, asked atomic.Int32
	h := newHolder(t)
	active := claims{"active": true, "sub": "ann", "aud": resource, "exp": time.Now().Add(time.Hour).Unix(), "token_type": "DPoP", "cnf": h.bound(t)}
	m, err := auth.NewIntrospection(introspector(t, &status, &asked, map[string]claims{"opaque": active, "unbound": {"active": true, "sub": "ann", "aud": resource, "token_type": "DPoP"}}))
	require.NoError(t, err)
	g := newGuard(t, auth.Options{Methods: []auth.Method{m}, DPoP: true})
	for range 3 {
		_, err = g.Authenticate(proving("opaque", h.proof(t, "opaque", nil, nil)))
		require.NoError(t, err)
	}
	assert.EqualValues(t, 1, asked.Load(), "the token is remembered, the proofs are not")
	_, err = g.Authenticate(bearing("opaque"))
	assert.Error(t, err)
	_, err = g.Authenticate(proving("unbound", h.proof(t, "unbound", nil, nil)))
	assert.Error(t, err)
}

func FuzzProof(f *testing.F) {
	i, h := newIssuer(f), newHolder(f)
	token := i.sign(f, i.claims(claims{"cnf": h.bound(f)}), "at+jwt")
	g := newGuard(f, auth.Options{Methods: []auth.Method{i.method(f, nil)}, DPoP: true})
	f.Add("")
	f.Add(h.proof(f, token, claims{"htm": "GET"}, nil))
	f.Add(newHolder(f).proof(f, token, nil, nil))
	f.Fuzz(func(t *testing.T, proof string) {
		_, err := g.Authenticate(proving(token, proof))
		assert.Equal(t, invalidProof, refusal(t, err).Challenge)
	})
}

func BenchmarkProof(b *testing.B) {
	i, h := newIssuer(b), newHolder(b)
	token := i.sign(b, i.claims(claims{"cnf": h.bound(b)}), "at+jwt")
	g := newGuard(b, auth.Options{Methods: []auth.Method{i.method(b, nil)}, DPoP: true})
	requests := make([]*http.Request, b.N)
	for n := range requests {
		requests[n] = proving(token, h.proof(b, token, nil, nil))
	}
	b.ResetTimer()
	for _, r := range requests {
		if _, err := g.Authenticate(r); err != nil {
			b.Fatal(err)
		}
	}
}
