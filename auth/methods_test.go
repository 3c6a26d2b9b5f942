package auth_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// introspector answers what it is asked about a token: its answers by token, and how often it was asked.
func introspector(t testing.TB, status *atomic.Int32, asked *atomic.Int32, answers map[string]claims) auth.Introspection {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		id, secret, _ := r.BasicAuth()
		if id != "us%3A1" || secret != "s%2Fcret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if s := status.Load(); s != 0 {
			w.WriteHeader(int(s))
			return
		}
		answer, ok := answers[r.FormValue("token")]
		if !ok {
			answer = claims{"active": false}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(web.Close)
	return auth.Introspection{
		Issuer: "https://login.example.com", URL: web.URL, ClientID: "us:1", ClientSecret: "s/cret",
		Mapping: auth.Mapping{Audiences: []string{resource}, Machines: true},
	}
}

func TestIntrospectionWithoutAudience(t *testing.T) {
	var status, asked atomic.Int32
	answer := func(aud any) claims {
		c := claims{"active": true, "sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}
		if aud != nil {
			c["aud"] = aud
		}
		return c
	}
	o := introspector(t, &status, &asked, map[string]claims{"none": answer(nil), "ours": answer(resource),
		"other": answer("https://other.example.com"), "empty": answer(""), "list": answer([]string{}), "odd": answer(7)})
	for _, without := range []bool{false, true} {
		o.WithoutAudience = without
		m, err := auth.NewIntrospection(o)
		require.NoError(t, err)
		g := newGuard(t, auth.Options{Methods: []auth.Method{m}})
		for token, taken := range map[string]bool{"none": without, "ours": true, "other": false, "empty": false, "list": false, "odd": false} {
			_, err := g.Authenticate(bearing(token))
			assert.Equal(t, taken, err == nil, "%s, %t: %v", token, without, err)
		}
	}
}

func TestIntrospection(t *testing.T) {
	var status, asked atomic.Int32
	var later atomic.Int64
	good := func(more claims) claims {
		c := claims{"active": true, "sub": "ann", "aud": []string{resource}, "scope": "tools a", "client_id": "app", "exp": time.Now().Add(time.Hour).Unix()}
		for name, v := range more {
			if c[name] = v; v == nil {
				delete(c, name)
			}
		}
		return c
	}
	o := introspector(t, &status, &asked, map[string]claims{
		"good": good(nil), "forever": good(claims{"exp": nil}), "same issuer": good(claims{"iss": "https://login.example.com"}),
		"machine": good(claims{"sub": nil}), "soon": good(claims{"exp": time.Now().Add(9 * time.Second).Unix()}),
		"audience": good(claims{"aud": "https://other.example.com"}), "none": good(claims{"aud": nil}), "issuer": good(claims{"iss": "https://other.example.com"}),
		"expired": good(claims{"exp": 1}), "early": good(claims{"nbf": time.Now().Add(time.Hour).Unix()}), "odd": good(claims{"exp": "tomorrow"}),
		"nobody": good(claims{"sub": nil, "client_id": nil}), "bound": good(claims{"cnf": claims{"jkt": "x"}}), "text": {"active": "true", "sub": "ann", "aud": resource},
	})
	o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	m, err := auth.NewIntrospection(o)
	require.NoError(t, err)
	g := newGuard(t, auth.Options{Methods: []auth.Method{m}})

	for _, token := range []string{"good", "good", "good"} {
		who, err := g.Authenticate(bearing(token))
		require.NoError(t, err)
		assert.Equal(t, saga.Caller{Issuer: "https://login.example.com", Subject: "ann", Scopes: []string{"tools", "a"}}, who)
	}
	assert.EqualValues(t, 1, asked.Load())
	_, err = g.Authenticate(bearing("forever"))
	require.NoError(t, err)
	who, err := g.Authenticate(bearing("machine"))
	require.NoError(t, err)
	assert.Equal(t, "client:app", who.Subject)
	for _, token := range []string{"audience", "none", "issuer", "expired", "early", "odd", "nobody", "bound", "text", "unknown", "unknown"} {
		_, err = g.Authenticate(bearing(token))
		assert.Equal(t, invalid, refusal(t, err).Challenge, token)
	}
	before := asked.Load()
	for range 100 {
		_, err = g.Authenticate(bearing("unknown"))
		require.Error(t, err)
	}
	assert.Equal(t, before, asked.Load(), "what the issuer does not know it is not asked all the time")
	later.Store(int64(6 * time.Second))
	_, err = g.Authenticate(bearing("unknown"))
	require.Error(t, err)
	assert.Equal(t, before+1, asked.Load(), "another server of the issuer may know it by now")

	_, err = g.Authenticate(bearing("soon"))
	require.NoError(t, err)
	later.Store(int64(10 * time.Second))
	_, err = g.Authenticate(bearing("soon"))
	assert.Equal(t, 401, refusal(t, err).Status)

	status.Store(500)
	later.Store(int64(62 * time.Second))
	for _, s := range []int32{500, 401, 302} {
		status.Store(s)
		_, err = g.Authenticate(bearing("good"))
		var e *server.Error
		require.ErrorAs(t, err, &e, "nobody is told that a good token is bad")
	}
	status.Store(400)
	_, err = g.Authenticate(bearing("of another kind"))
	assert.Equal(t, 401, refusal(t, err).Status)
}

func TestAPIKeys(t *testing.T) {
	i := newIssuer(t)
	key, hash := auth.NewAPIKey()
	old, oldHash := auth.NewAPIKey()
	assert.Len(t, key, 46)
	assert.NotContains(t, hash, key)
	list := []auth.APIKey{
		{Hash: hash, Caller: saga.Caller{Subject: "nightly", Scopes: []string{"tools"}}},
		{Hash: oldHash, Caller: saga.Caller{Subject: "old"}, Expires: time.Now().Add(-time.Second)},
	}
	want := saga.Caller{Issuer: "api-keys", Subject: "nightly", Scopes: []string{"tools"}}
	for _, header := range []string{"", "X-Api-Key"} {
		keys, err := auth.NewAPIKeys(header, list...)
		require.NoError(t, err)
		g := newGuard(t, auth.Options{Methods: []auth.Method{keys, i.method(t, nil)}})
		use := func(key string) *http.Request {
			if header == "" {
				return bearing(key)
			}
			return request(header, key)
		}
		who, err := g.Authenticate(use(key))
		require.NoError(t, err)
		assert.Equal(t, want, who)
		for _, bad := range []string{old, key + "x", hash, "mk_", "x" + key} {
			_, err = g.Authenticate(use(bad))
			assert.Equal(t, 401, refusal(t, err).Status, bad)
			assert.NotContains(t, err.Error(), key)
		}
		_, err = g.Authenticate(bearing(i.sign(t, i.claims(nil), "")))
		require.NoError(t, err, "users go on with their tokens")
		require.NoError(t, keys.Set())
		_, err = g.Authenticate(use(key))
		assert.Equal(t, 401, refusal(t, err).Status, "it was taken away")
	}
	for name, bad := range map[string]auth.APIKey{
		"the key itself": {Hash: key, Caller: saga.Caller{Subject: "x"}}, "short": {Hash: "00ff", Caller: saga.Caller{Subject: "x"}}, "nobody's": {Hash: hash},
		"of an empty text": {Hash: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", Caller: saga.Caller{Subject: "x"}},
	} {
		_, err := auth.NewAPIKeys("", bad)
		require.Error(t, err, name)
		assert.NotContains(t, err.Error(), key)
	}
	_, err := auth.NewAPIKeys("", list[0], auth.APIKey{Hash: strings.ToUpper(hash), Caller: saga.Caller{Subject: "weekly"}})
	require.EqualError(t, err, `auth: "nightly" and "weekly" have the same key: it must stand for one caller`)
}

// Keys that stay are taken while all are replaced, however often.
func TestAPIKeysAreReplacedWhileTheyAreUsed(t *testing.T) {
	var list []auth.APIKey
	var stays string
	for n := range 3 {
		key, hash := auth.NewAPIKey()
		if stays == "" {
			stays = key
		}
		list = append(list, auth.APIKey{Hash: hash, Caller: saga.Caller{Subject: fmt.Sprint(n)}})
	}
	keys, err := auth.NewAPIKeys("", list...)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 2000 {
			assert.NoError(t, keys.Set(list[:1+n%3]...))
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
			who, err := keys.Identify(bearing(stays))
			require.NoError(t, err)
			require.Equal(t, "0", who.Subject)
		}
	}
}

func TestProxyHeaders(t *testing.T) {
	m, err := auth.NewProxy(auth.Proxy{
		Networks: []string{"10.0.0.0/8", "192.0.2.7", "fd00::/8", "::ffff:198.51.100.0/120"}, Issuer: "https://proxy.example.com",
		Subject: "X-Forwarded-User", Scopes: "X-Forwarded-Scopes", Claims: map[string]string{"email": "X-Forwarded-Email"},
	})
	require.NoError(t, err)
	g := newGuard(t, auth.Options{Methods: []auth.Method{m}})
	from := func(addr string, headers ...string) *http.Request {
		r := request(headers...)
		r.RemoteAddr = addr
		return r
	}
	ann := []string{"X-Forwarded-User", "ann", "X-Forwarded-Scopes", "tools, orders", "X-Forwarded-Email", "ann@example.com"}
	for _, addr := range []string{"10.1.2.3:1", "192.0.2.7:1", "[::ffff:10.1.2.3]:1", "[fd00::1]:1", "198.51.100.9:1"} {
		who, err := g.Authenticate(from(addr, ann...))
		require.NoError(t, err, addr)
		assert.Equal(t, saga.Caller{Issuer: "https://proxy.example.com", Subject: "ann", Scopes: []string{"tools", "orders"}, Claims: map[string]string{"email": "ann@example.com"}}, who)
	}
	for _, addr := range []string{"203.0.113.9:1", "192.0.2.8:1", "@", "", "[fe80::1]:1", "10.1.2.3"} {
		_, err := g.Authenticate(from(addr, append(ann, "X-Forwarded-For", "10.1.2.3", "Forwarded", "for=10.1.2.3")...))
		assert.Equal(t, metadataAt, refusal(t, err).Challenge, "%q is nobody's proxy", addr)
	}
	for name, headers := range map[string][]string{
		"nobody": {"X-Forwarded-User", ""}, "two users": {"X-Forwarded-User", "ann", "X-Forwarded-User", "bob"},
		"two lists of scopes": {"X-Forwarded-User", "ann", "X-Forwarded-Scopes", "a", "X-Forwarded-Scopes", "admin"},
	} {
		_, err := g.Authenticate(from("10.1.2.3:1", headers...))
		assert.Equal(t, 401, refusal(t, err).Status, name)
	}
	for _, bad := range []auth.Proxy{{}, {Networks: []string{"0.0.0.0/0"}, Issuer: "i", Subject: "S"}, {Networks: []string{"::ffff:0.0.0.0/96"}, Issuer: "i", Subject: "S"}, {Networks: []string{"proxy"}, Issuer: "i", Subject: "S"}, {Networks: []string{"10.0.0.1"}, Subject: "S"}} {
		_, err := auth.NewProxy(bad)
		assert.Error(t, err)
	}
}

// Clients find the metadata wherever they look for it, also behind a proxy that takes the prefix away or looks for it below.
func TestMetadata(t *testing.T) {
	keys, err := auth.NewAPIKeys("")
	require.NoError(t, err)
	const at = "/.well-known/oauth-protected-resource"
	for name, c := range map[string]struct {
		resource string
		paths    map[string]string // to the resource that is named there; "" if there is nothing
	}{
		"path": {"https://tools.example.com/a/mcp", map[string]string{
			at: "/a/mcp", at + "/": "/a/mcp", at + "/a/mcp": "/a/mcp", at + "/a/mcp/": "/a/mcp/", at + "/mcp": "/a/mcp", "/a" + at: "/a/mcp", "/a" + at + "/mcp": "/a/mcp", "/a/mcp" + at: "/a/mcp",
			at + "/other": "", at + "/cp": "", at + "mcp": "", "/b" + at: "", "/mcp": "", "/": "", at + "/a/mcp/x": "", "/.well-known/oauth-authorization-server": "",
		}},
		"slash": {"https://tools.example.com/mcp/", map[string]string{at: "/mcp/", at + "/mcp": "/mcp", at + "/mcp/": "/mcp/"}},
		"root":  {"https://tools.example.com", map[string]string{at: "", at + "/": "/", "/x": "none"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuard(t, auth.Options{
				Resource: c.resource, Methods: []auth.Method{keys}, AuthorizationServers: []string{"https://login.example.com"}, Scopes: []string{"read"},
				Tools: map[string][]string{"order": {"write"}}, ScopePrefix: "api://tools/", Name: "Tools", Documentation: "https://docs.example.com",
			})
			h := g.Handler(http.NotFoundHandler())
			get := func(method, path string) *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(method, "https://tools.example.com"+path, nil))
				return w
			}
			for path, want := range c.paths {
				w := get(http.MethodGet, path)
				if want == "none" || want == "" && name != "root" {
					assert.Equal(t, 404, w.Code, path)
					continue
				}
				require.Equal(t, 200, w.Code, path)
				assert.Equal(t, "*", w.Header().Get("Access-Control-Allow-Origin"))
				assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
				assert.JSONEq(t, `{"resource":"https://tools.example.com`+want+`","authorization_servers":["https://login.example.com"],"scopes_supported":["api://tools/read","api://tools/write"],
					"bearer_methods_supported":["header"],"resource_name":"Tools","resource_documentation":"https://docs.example.com"}`, w.Body.String(), path)
				assert.Equal(t, 204, get(http.MethodOptions, path).Code)
				assert.Equal(t, 200, get(http.MethodHead, path).Code)
				assert.Equal(t, 405, get(http.MethodPost, path).Code)
			}
		})
	}
	g := newGuard(t, auth.Options{Methods: []auth.Method{keys}})
	r := request()
	r.URL.Path += "/"
	_, err = g.Authenticate(r)
	assert.Equal(t, `Bearer resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp/"`, refusal(t, err).Challenge, "for the URL that the client has")
	g = newGuard(t, auth.Options{Methods: []auth.Method{keys}, MetadataURL: "https://tools.example.com/mcp/.well-known/oauth-protected-resource"})
	_, err = g.Authenticate(r)
	assert.Equal(t, `Bearer resource_metadata="https://tools.example.com/mcp/.well-known/oauth-protected-resource"`, refusal(t, err).Challenge)
}

func TestMistakesInOptions(t *testing.T) {
	keys, err := auth.NewAPIKeys("")
	require.NoError(t, err)
	some := []auth.Method{keys}
	for name, o := range map[string]auth.Options{
		"no resource": {Methods: some}, "no URL": {Resource: "tools", Methods: some}, "not https": {Resource: "http://tools.example.com/mcp", Methods: some},
		"a query": {Resource: resource + "?x=1", Methods: some}, "no methods": {Resource: resource}, "a method that is nil": {Resource: resource, Methods: []auth.Method{nil}},
		"a quote in a scope": {Resource: resource, Methods: some, Tools: map[string][]string{"order": {`a"`}}}, "two scopes in one": {Resource: resource, Methods: some, Scopes: []string{"a b"}},
		"an issuer in clear": {Resource: resource, Methods: some, AuthorizationServers: []string{"http://login.example.com"}},
	} {
		_, err := auth.New(o)
		assert.ErrorContains(t, err, "auth: ", name)
	}
	audiences := auth.Mapping{Audiences: []string{resource}}
	for name, o := range map[string]auth.JWT{
		"no audience": {Issuer: "https://i.example.com", KeysURL: "https://i.example.com"}, "no issuer": {KeysURL: "https://i.example.com", Mapping: audiences}, "any issuer": {Issuer: "{iss}", KeysURL: "https://i.example.com", Mapping: audiences},
		"no keys of many issuers": {Issuer: "https://i.example.com/{tid}", Mapping: audiences}, "an issuer in clear": {Issuer: "http://i.example.com", Mapping: audiences}, "an issuer with a password": {Issuer: "https://a:hush@i.example.com", Mapping: audiences}, "keys in clear": {Issuer: "https://i.example.com", KeysURL: "http://i.example.com", Mapping: audiences},
		"a shared secret": {Issuer: "https://i.example.com", KeysURL: "https://i.example.com", Mapping: audiences, Algorithms: []string{"HS256"}},
		"no signature":    {Issuer: "https://i.example.com", KeysURL: "https://i.example.com", Mapping: audiences, Algorithms: []string{"none"}},
	} {
		_, err := auth.NewJWT(o)
		require.Error(t, err, name)
		assert.NotContains(t, err.Error(), "hush")
	}
	_, err = auth.NewIntrospection(auth.Introspection{URL: "https://i.example.com", Mapping: audiences})
	assert.Error(t, err)
}

// A scope that is demanded for a name with a mistake in it would be demanded for nothing.
func TestSecureKnowsTheTools(t *testing.T) {
	keys, err := auth.NewAPIKeys("")
	require.NoError(t, err)
	tool := saga.Flow[struct{}, string]{Info: saga.Info{Name: "order", Asks: []steps.Question{}}, Run: func(*saga.Run, struct{}) (string, error) { return "", nil }}
	for names, fails := range map[string]bool{"order": false, "orders": true} {
		g := newGuard(t, auth.Options{Methods: []auth.Method{keys}, Tools: map[string][]string{names: {"write"}}})
		o := server.Options{Tools: []saga.Definition{tool}}
		err := g.Secure(&o)
		assert.Equal(t, fails, err != nil)
		assert.Equal(t, fails, o.Authenticate == nil)
	}
}

// Whoever asks for what is behind Require gets the refusals of a server.
func TestRequire(t *testing.T) {
	var status, asked atomic.Int32
	status.Store(500)
	m, err := auth.NewIntrospection(introspector(t, &status, &asked, nil))
	require.NoError(t, err)
	key, hash := auth.NewAPIKey()
	keys, err := auth.NewAPIKeys("X-Api-Key", auth.APIKey{Hash: hash, Caller: saga.Caller{Subject: "nightly"}})
	require.NoError(t, err)
	h := newGuard(t, auth.Options{Methods: []auth.Method{keys, m}}).Require(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("in")) }))
	few := newGuard(t, auth.Options{Methods: []auth.Method{keys}, Scopes: []string{"tools"}}).Require(http.NotFoundHandler())
	for _, c := range []struct {
		h         http.Handler
		r         *http.Request
		status    int
		challenge string
	}{
		{h, request("X-Api-Key", key), 200, ""}, {h, request(), 401, metadataAt}, {h, bearing("x"), 503, ""}, {h, request("X-Api-Key", "x"), 401, invalid},
		{few, request("X-Api-Key", key), 403, metadataAt + `, error="insufficient_scope", error_description="this takes scopes that the access token does not have", scope="tools"`},
	} {
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, c.r)
		assert.Equal(t, c.status, w.Code)
		assert.Equal(t, c.challenge, w.Header().Get("WWW-Authenticate"))
		assert.Equal(t, c.status == 503, w.Header().Get("Retry-After") != "")
		assert.False(t, strings.Contains(w.Body.String(), "500"))
	}
}

// Requests that come with the same token at once have it checked once, and wait for that.
func TestATokenIsCheckedOnce(t *testing.T) {
	var asked atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		time.Sleep(300 * time.Millisecond) // longer than a check waits for its place
		_ = json.NewEncoder(w).Encode(claims{"active": true, "sub": "ann", "aud": resource})
	}))
	defer web.Close()
	m, err := auth.NewIntrospection(auth.Introspection{Issuer: "https://i.example.com", URL: web.URL, Mapping: auth.Mapping{Audiences: []string{resource}}})
	require.NoError(t, err)
	g := newGuard(t, auth.Options{Methods: []auth.Method{m}})
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			_, err := g.Authenticate(bearing("hot"))
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.EqualValues(t, 1, asked.Load())
}

// A provider that does not answer holds no place for longer than a while, whatever client is set: others get in then.
func TestIntrospectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		m, err := auth.NewIntrospection(auth.Introspection{
			Issuer: "https://i.example.com", URL: "https://i.example.com/ask", Mapping: auth.Mapping{Audiences: []string{resource}},
			Checking: auth.Checking{MaxChecks: 1, Client: &http.Client{Transport: hangs}},
		})
		require.NoError(t, err)
		began := time.Now()
		_, err = m.Identify(bearing("one"))
		require.ErrorContains(t, err, "cannot be asked")
		_, err = m.Identify(bearing("two"))
		require.ErrorContains(t, err, "cannot be asked", "it has a place")
		assert.Equal(t, 20*time.Second, time.Since(began))
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
