package auth_test

import (
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/mcpsaga/mcpsaga/server"
)

// What nobody has to fetch is not fetched, and what has to be fetched is fetched seldom, whatever tokens come.
func TestKeysAreFetchedSeldom(t *testing.T) {
	i, forger := newIssuer(t), newIssuer(t)
	var later atomic.Int64
	m := i.method(t, func(o *auth.JWT) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	identify := func(token string) error {
		_, err := m.Identify(bearing(token))
		return err
	}
	assert.Zero(t, i.fetches.Load(), "nothing is fetched before a token comes")
	require.NoError(t, identify(i.sign(t, i.claims(nil), "")))
	later.Add(int64(31 * time.Second)) // a fetch would be allowed
	for range 200 {
		require.Error(t, identify(forger.sign(t, i.claims(nil), "")), "a key of the same name")
	}
	assert.EqualValues(t, 1, i.fetches.Load(), "a bad signature has nothing fetched")
	forger.add(t, "unknown")
	i.add(t, "two")
	later.Store(0)
	for range 200 {
		require.Error(t, identify(forger.sign(t, i.claims(nil), "")))
	}
	require.Error(t, identify(i.sign(t, i.claims(nil), "")), "its key is not known before the next fetch")
	assert.EqualValues(t, 1, i.fetches.Load())
	later.Add(int64(31 * time.Second))
	require.NoError(t, identify(i.sign(t, i.claims(nil), "")), "a new key is found")
	for range 200 {
		require.Error(t, identify(forger.sign(t, i.claims(nil), "")))
	}
	assert.EqualValues(t, 2, i.fetches.Load())
	later.Add(int64(31 * time.Second))
	for range 200 {
		require.Error(t, identify(forger.sign(t, i.claims(nil), "")))
	}
	assert.EqualValues(t, 3, i.fetches.Load())
}

// A key that its issuer has withdrawn is trusted for an hour at most, though no token names an unknown one.
func TestWithdrawnKeysAreNotTrusted(t *testing.T) {
	i := newIssuer(t)
	var later atomic.Int64
	m := i.method(t, func(o *auth.JWT) { o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) } })
	stolen := i.keys[0]
	c := i.claims(claims{"exp": time.Now().Add(9 * time.Hour).Unix()})
	token := signWith(t, stolen, jose.ES256, c, "")
	_, err := m.Identify(bearing(token))
	require.NoError(t, err)
	i.add(t, "two")
	i.mu.Lock()
	i.keys = i.keys[1:]
	i.mu.Unlock()
	later.Store(int64(time.Hour + time.Minute))
	_, _ = m.Identify(bearing(token)) // has the keys fetched
	require.Eventually(t, func() bool {
		later.Add(int64(2 * time.Minute)) // nothing is remembered for so long
		_, err := m.Identify(bearing(token))
		return err != nil
	}, 5*time.Second, 10*time.Millisecond)
}

// An issuer that does not answer when its keys are old holds up the request that asks for them, and no other.
func TestIssuerHangs(t *testing.T) {
	i := newIssuer(t)
	var later atomic.Int64
	m := i.method(t, func(o *auth.JWT) {
		o.MaxChecks = 1
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	lasts := claims{"exp": time.Now().Add(9 * time.Hour).Unix()}
	identify := func() error {
		_, err := m.Identify(bearing(i.sign(t, i.claims(lasts), "")))
		return err
	}
	require.NoError(t, identify())
	hold := make(chan struct{})
	release := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release) // before the server closes, which waits for it
	i.hold.Store(&hold)
	later.Store(int64(2 * time.Hour))
	done := make(chan error, 1)
	go func() { done <- identify() }()
	require.Eventually(t, func() bool { return i.fetches.Load() == 2 }, 5*time.Second, time.Millisecond)
	for range 10 {
		require.NoError(t, identify())
	}
	release()
	require.NoError(t, <-done)
	assert.EqualValues(t, 2, i.fetches.Load())
}

// While an issuer is away, what is known goes on, and the rest is for later: nobody is told that a good token is bad.
func TestIssuerIsAway(t *testing.T) {
	i := newIssuer(t)
	i.status.Store(500)
	var later atomic.Int64
	g := newGuard(t, auth.Options{Methods: []auth.Method{i.method(t, func(o *auth.JWT) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})}})
	for range 100 {
		_, err := g.Authenticate(bearing(i.sign(t, i.claims(nil), "")))
		var e *server.Error
		require.ErrorAs(t, err, &e)
		assert.NotContains(t, e.Message, "500")
		assert.ErrorContains(t, err, "cannot be asked")
	}
	assert.EqualValues(t, 1, i.fetches.Load(), "it is not asked all the time")
	i.status.Store(0)
	later.Add(int64(4 * time.Second))
	_, err := g.Authenticate(bearing(i.sign(t, i.claims(nil), "")))
	require.NoError(t, err)
	i.status.Store(500)
	later.Add(int64(30 * time.Minute))
	_, err = g.Authenticate(bearing(i.sign(t, i.claims(nil), "")))
	require.NoError(t, err, "by the keys that are known")

	known := i.sign(t, i.claims(nil), "")
	i.add(t, "two")
	later.Add(int64(time.Minute))
	for range 10 {
		var e *server.Error
		_, err = g.Authenticate(bearing(i.sign(t, i.claims(nil), "")))
		require.ErrorAs(t, err, &e, "its key may be a new one, so the token is not bad")
		_, err = g.Authenticate(bearing(known))
		require.NoError(t, err)
	}
	i.status.Store(0)
	later.Add(int64(31 * time.Second))
	_, err = g.Authenticate(bearing(i.sign(t, i.claims(nil), "")))
	require.NoError(t, err)
}

// Verified tokens are remembered no longer than they are valid, and not too many.
func TestTokensAreRemembered(t *testing.T) {
	i := newIssuer(t)
	var later, checks atomic.Int64
	m := i.method(t, func(o *auth.JWT) {
		o.MaxRemembered = 10
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		o.Check = func(context.Context, map[string]any) error { checks.Add(1); return nil }
	})
	token, short := i.sign(t, i.claims(nil), ""), i.sign(t, i.claims(claims{"exp": time.Now().Add(5 * time.Second).Unix()}), "")
	use := func(token string, want int64) {
		t.Helper()
		_, err := m.Identify(bearing(token))
		require.NoError(t, err)
		assert.Equal(t, want, checks.Load())
	}
	use(token, 1)
	use(token, 1)
	use(short, 2)
	later.Store(int64(6 * time.Second))
	_, err := m.Identify(bearing(short))
	require.ErrorContains(t, err, "expired")
	use(token, 2)
	later.Store(int64(61 * time.Second))
	use(token, 3)
	for n := range int64(20) {
		use(i.sign(t, i.claims(nil), ""), 4+n)
		use(token, 4+n) // what is used stays
	}
	first := i.sign(t, i.claims(nil), "")
	use(first, 24)
	for n := range int64(20) {
		use(i.sign(t, i.claims(nil), ""), 25+n)
	}
	use(first, 45)
}

// Checks that are done at once are bounded: who comes when all places are taken, and too many wait, is to come again.
func TestChecksAreBounded(t *testing.T) {
	hold, inside := make(chan struct{}), make(chan struct{}, 100)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.FormValue("token"), "slow") {
			inside <- struct{}{}
			<-hold
		}
		_ = json.NewEncoder(w).Encode(claims{"active": true, "sub": "ann", "aud": resource})
	}))
	t.Cleanup(web.Close)
	release := sync.OnceFunc(func() { close(hold) })
	t.Cleanup(release) // before the server closes, which waits for it
	m, err := auth.NewIntrospection(auth.Introspection{
		Issuer: "https://i.example.com", URL: web.URL, Mapping: auth.Mapping{Audiences: []string{resource}}, Checking: auth.Checking{MaxChecks: 2},
	})
	require.NoError(t, err)
	g := newGuard(t, auth.Options{Methods: []auth.Method{m}})
	_, err = g.Authenticate(bearing("known"))
	require.NoError(t, err)
	done := make(chan error)
	for n := range 2 {
		go func() { _, err := g.Authenticate(bearing(fmt.Sprint("slow", n))); done <- err }()
		<-inside
	}
	for range 3 {
		_, err := g.Authenticate(bearing("slow-too"))
		var e *server.Error
		require.ErrorAs(t, err, &e)
		assert.Contains(t, e.Message, "send the same request again")
	}
	_, err = g.Authenticate(bearing("known"))
	require.NoError(t, err, "who is known does not wait")
	assert.Empty(t, inside)
	release()
	for range 2 {
		assert.NoError(t, <-done)
	}
}

// A key that an issuer has added since its keys were fetched is not known before the next fetch, which anybody may have put
// off: a token that may be its is for later. One that is older names a key that there is no more.
func TestNewKeysAreForLater(t *testing.T) {
	i := newIssuer(t)
	var later atomic.Int64
	g := newGuard(t, auth.Options{Methods: []auth.Method{i.method(t, func(o *auth.JWT) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})}})
	_, err := g.Authenticate(bearing(i.sign(t, i.claims(nil), "")))
	require.NoError(t, err)
	i.add(t, "two")
	later.Store(int64(5 * time.Second))
	lately, old := i.sign(t, i.claims(nil), ""), i.sign(t, i.claims(claims{"iat": time.Now().Add(-10 * time.Minute).Unix()}), "")
	_, err = g.Authenticate(bearing(lately))
	var e *server.Error
	require.ErrorAs(t, err, &e, "nobody is told that a good token is bad")
	w := httptest.NewRecorder()
	g.Require(http.NotFoundHandler()).ServeHTTP(w, bearing(lately))
	assert.Equal(t, 503, w.Code)
	_, err = g.Authenticate(bearing(i.sign(t, i.claims(claims{"iat": nil}), "")))
	require.ErrorAs(t, err, &e)
	_, err = g.Authenticate(bearing(old))
	assert.Equal(t, 401, refusal(t, err).Status)
	assert.EqualValues(t, 1, i.fetches.Load())
	later.Store(int64(31 * time.Second))
	_, err = g.Authenticate(bearing(lately))
	require.NoError(t, err)

	i.mu.Lock()
	i.keys = i.keys[:1]
	i.mu.Unlock()
	forger := newIssuer(t)
	forger.add(t, "three")
	later.Store(int64(62 * time.Second))
	_, err = g.Authenticate(bearing(forger.sign(t, i.claims(claims{"iat": time.Now().Add(62 * time.Second).Unix()}), "")))
	assert.Equal(t, 401, refusal(t, err).Status, "the keys were fetched for it, and it is none of them")
	assert.EqualValues(t, 3, i.fetches.Load())
}
