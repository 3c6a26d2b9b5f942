package login

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// liar is an MCP server, and an authorization server, that say what a test has them say.
type liar struct {
	*httptest.Server
	resource, issuer map[string]any
	challenge        string
	token            string
	paths            []string // that were asked for
}

func newLiar(t *testing.T) *liar {
	l := &liar{token: `{"access_token":"good","token_type":"Bearer"}`}
	mux := http.NewServeMux()
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.paths = append(l.paths, r.URL.Path)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(l.Close)
	l.challenge = `Bearer resource_metadata="` + l.URL + `/about"`
	l.resource = map[string]any{"resource": l.URL + "/mcp", "authorization_servers": []string{l.URL}}
	l.issuer = map[string]any{
		"issuer": l.URL, "authorization_endpoint": l.URL + "/auth", "token_endpoint": l.URL + "/token",
		"registration_endpoint": l.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
	}
	say := func(what *map[string]any) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if to, is := (*what)["redirect"].(string); is {
				http.Redirect(w, r, to, http.StatusFound)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(*what)
		}
	}
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer good" {
			return
		}
		w.Header().Set("WWW-Authenticate", l.challenge)
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("/about", say(&l.resource))
	mux.HandleFunc("/.well-known/oauth-authorization-server", say(&l.issuer))
	mux.HandleFunc("/register", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"client_id":"c"}`))
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(l.token))
	})
	return l
}

// comeBack is the browser of a user who signs in.
func comeBack(t *testing.T) func(string, string, []string) {
	return func(_, address string, _ []string) {
		u, err := url.Parse(address)
		assert.NoError(t, err)
		q := u.Query()
		go func() {
			resp, err := http.Get(q.Get("redirect_uri") + "?code=c&state=" + q.Get("state"))
			if assert.NoError(t, err) {
				assert.NoError(t, resp.Body.Close())
			}
		}()
	}
}

func (l *liar) login(t *testing.T, dir string) *Login {
	in, err := New(t.Context(), Options{Server: l.URL + "/mcp", Dir: dir, Client: "test", Show: comeBack(t), Wait: 10 * time.Second, Inner: http.DefaultTransport})
	require.NoError(t, err)
	return in
}

// get sends a request, and returns the status of the response.
func get(t *testing.T, l *Login) int {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.o.Server, strings.NewReader("{}"))
	require.NoError(t, err)
	resp, err := l.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// What servers say of themselves is refused if it is about another, or would lead the command, its tokens or the user's
// browser elsewhere, or is too much. The refusal of the server is the response, and Err says why that is the end.
func TestHostileServers(t *testing.T) {
	other := newLiar(t)
	for name, c := range map[string]struct {
		lie  func(*liar)
		says string // "" if it is no lie
	}{
		"nothing":                             {func(*liar) {}, ""},
		"another resource":                    {func(l *liar) { l.resource["resource"] = other.URL + "/mcp" }, "got metadata resource"},
		"DPoP only":                           {func(l *liar) { l.resource["dpop_bound_access_tokens_required"] = true }, "with DPoP only"},
		"the resource is a part of it":        {func(l *liar) { l.resource["resource"] = l.URL }, "got metadata resource"},
		"no authorization server":             {func(l *liar) { l.resource["authorization_servers"] = nil }, "names no authorization server"},
		"an authorization server without TLS": {func(l *liar) { l.resource["authorization_servers"] = []string{"http://login.example.com"} }, "does not use HTTPS"},
		"a script":                            {func(l *liar) { l.issuer["authorization_endpoint"] = "javascript:alert(1)" }, "disallowed scheme"},
		"a file":                              {func(l *liar) { l.issuer["authorization_endpoint"] = "file:///etc/passwd" }, "does not use HTTPS"},
		"a password in an address":            {func(l *liar) { l.issuer["token_endpoint"] = "https://u:p@login.example.com/" }, "not to be used"},
		"tokens without TLS":                  {func(l *liar) { l.issuer["token_endpoint"] = "http://login.example.com/token" }, "does not use HTTPS"},
		"another issuer":                      {func(l *liar) { l.issuer["issuer"] = other.URL }, "does not match issuer"},
		"no PKCE":                             {func(l *liar) { delete(l.issuer, "code_challenge_methods_supported") }, "PKCE"},
		"PKCE in the clear":                   {func(l *liar) { l.issuer["code_challenge_methods_supported"] = []string{"plain"} }, "PKCE with S256"},
		"its answer has to have iss":          {func(l *liar) { l.issuer["authorization_response_iss_parameter_supported"] = true }, "does not say that it is of"},
		"giant metadata":                      {func(l *liar) { l.resource["x"] = strings.Repeat("x", maxAnswer) }, "larger than 262144 bytes"},
		"giant metadata of the issuer":        {func(l *liar) { l.issuer["x"] = strings.Repeat("x", maxAnswer) }, "larger than 262144 bytes"},
		"a giant token":                       {func(l *liar) { l.token = `{"access_token":"` + strings.Repeat("x", maxAnswer) }, "larger than 262144 bytes"},
		"a token of another kind":             {func(l *liar) { l.token = `{"access_token":"good","token_type":"DPoP"}` }, "not Bearer"},
		"a token with a line break":           {func(l *liar) { l.token = `{"access_token":"go\r\nod","token_type":"Bearer"}` }, "that no header can have"},
		"a token that it does not take":       {func(l *liar) { l.token = `{"access_token":"bad","token_type":"Bearer"}` }, "has just issued"},
		"metadata elsewhere by a redirect":    {func(l *liar) { l.resource = map[string]any{"redirect": other.URL + "/about"} }, "redirects to"},
		"a broken challenge":                  {func(l *liar) { l.challenge = `Bearer resource_metadata="` }, "does not say who issues"},
		"control characters":                  {func(l *liar) { l.resource["resource"] = "\x1b[2J" }, "got metadata resource"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLiar(t)
			c.lie(l)
			before := len(other.paths)
			in := l.login(t, t.TempDir())
			status := get(t, in)
			if c.says == "" {
				assert.Equal(t, 200, status)
				require.NoError(t, in.Err())
				return
			}
			assert.Equal(t, 401, status)
			require.ErrorContains(t, in.Err(), c.says)
			assert.NotContains(t, in.Err().Error(), "\x1b")
			assert.Less(t, len(in.Err().Error()), 1000)
			assert.Len(t, other.paths, before, "another server was asked")
			seen := len(l.paths)
			assert.Equal(t, 401, get(t, in))
			require.ErrorContains(t, in.Err(), c.says, "the user is not asked twice")
			assert.NotContains(t, l.paths[seen:], "/register")
		})
	}
}

// A server that wants other scopes each time does not have the user sign in for ever.
func TestScopesWithoutEnd(t *testing.T) {
	l := newLiar(t)
	n := 0
	l.Config.Handler = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/mcp" && r.Header.Get("Authorization") != "" {
				n++
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`%s, error="insufficient_scope", scope="s%d"`, l.challenge, n))
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
	}(l.Config.Handler)
	in := l.login(t, t.TempDir())
	assert.Equal(t, 403, get(t, in))
	require.ErrorContains(t, in.Err(), "other scopes after 5 sign-ins")
	assert.Equal(t, 5, n)
}

// A token that another command has got meanwhile is used, and renewed if it has expired, too: the user is not asked.
func TestTokensOfOtherCommands(t *testing.T) {
	l := newLiar(t)
	in := l.login(t, t.TempDir())
	assert.Equal(t, 200, get(t, in))
	k, err := in.place.load()
	require.NoError(t, err)
	in.o.Show = func(string, string, []string) { t.Error("the user is asked") }
	in.now.Load().Access = "expired"
	k.Access, k.Refresh = "expired as well", "refresh"
	require.NoError(t, in.place.save(k))
	assert.Equal(t, 200, get(t, in))
	in.now.Load().Access = "expired"
	assert.Equal(t, 200, get(t, in))
}

// A server elsewhere cannot have the command send requests to what listens on this machine, nor tokens go without TLS.
func TestAddressesOfServers(t *testing.T) {
	elsewhere, err := New(t.Context(), Options{Server: "https://tools.example.com/mcp", Dir: t.TempDir()})
	require.NoError(t, err)
	here, err := New(t.Context(), Options{Server: "http://127.0.0.1:1/mcp", Dir: t.TempDir()})
	require.NoError(t, err)
	for address, wants := range map[string][2]bool{
		"https://login.example.com/x": {true, true}, "http://login.example.com/x": {false, false},
		"http://127.0.0.1:2/x": {false, true}, "http://localhost:2/x": {false, true}, "https://[::1]/x": {false, true},
		"https://LOCALHOST/x": {false, true}, "https://localhost./x": {false, true}, "http://Localhost/x": {false, true},
		"https://u:p@login.example.com/": {false, false}, "ftp://127.0.0.1/": {false, false}, "https:///x": {false, false},
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		assert.Equal(t, wants, [2]bool{elsewhere.check(u) == nil, here.check(u) == nil}, address)
	}
	for _, server := range []string{"https://LOCALHOST/mcp", "https://localhost./mcp"} {
		own, err := New(t.Context(), Options{Server: server, Dir: t.TempDir()})
		require.NoError(t, err)
		require.NoError(t, own.check(own.server), server)
	}
	_, err = New(t.Context(), Options{Server: "http://tools.example.com/mcp", Dir: t.TempDir(), Show: comeBack(t)})
	require.ErrorContains(t, err, "in the clear")
}

// A login is for one server and readable by its user only; one of another issuer is not renewed there, and its client not used.
func TestLoginsAreKeptApart(t *testing.T) {
	dir := t.TempDir()
	one, two := newLiar(t), newLiar(t)
	assert.Equal(t, 200, get(t, one.login(t, dir)))
	path := string(placeOf(dir, one.URL+"/mcp"))
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	in := two.login(t, dir)
	assert.Empty(t, in.now.Load().token())

	k, err := place(path).load()
	require.NoError(t, err)
	k.Access, k.Refresh, k.Issuer, k.TokenURL = "old", "secret", two.URL, two.URL+"/token"
	k.Client.ID = "of two"
	require.NoError(t, place(path).save(k))
	two.token = `{"error":"invalid_grant"}`
	in = one.login(t, dir)
	show := in.o.Show
	in.o.Show = func(issuer, address string, scopes []string) {
		assert.Contains(t, address, "client_id=c&", "a new client")
		show(issuer, address, scopes)
	}
	assert.Equal(t, 200, get(t, in))
	require.NoError(t, in.Err())

	require.NoError(t, os.Chmod(path, 0o644))
	_, err = New(t.Context(), in.o)
	require.ErrorContains(t, err, "chmod 600")
	require.NoError(t, os.WriteFile(path, append([]byte("x"), raw...), 0o600))
	require.NoError(t, os.Chmod(path, 0o600))
	_, err = New(t.Context(), in.o)
	require.ErrorContains(t, err, "is not a login")
	assert.NotContains(t, err.Error(), "good")
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.Len(t, left, 2, "%v", left) // with the lock
}

// An authorization server may forget a client. If it says so, another is registered; if it only shows the user a page, the
// error says how to have one registered.
func TestClientsThatAreForgotten(t *testing.T) {
	dir := t.TempDir()
	l := newLiar(t)
	l.token = `{"access_token":"old","token_type":"Bearer"}`
	in := l.login(t, dir)
	assert.Equal(t, 401, get(t, in)) // what it has issued is kept
	known := l.Config.Handler
	registered := 0
	l.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/register":
			registered++
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"client_id":"another"}`))
		case r.URL.Path == "/token" && r.FormValue("client_id") == "c":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"invalid_client"}`))
		default:
			known.ServeHTTP(w, r)
		}
	})
	l.token = `{"access_token":"good","token_type":"Bearer"}`

	in = l.login(t, dir)
	ctx, giveUp := context.WithCancel(t.Context())
	in.ctx, in.o.Show = ctx, func(string, string, []string) { giveUp() }
	assert.Equal(t, 401, get(t, in))
	require.ErrorContains(t, in.Err(), "forget the login by logout")

	in = l.login(t, dir)
	assert.Equal(t, 200, get(t, in))
	require.NoError(t, in.Err())
	assert.Equal(t, 1, registered)
	assert.Equal(t, "another", in.now.Load().Client.ID)
}

// An authorization server that fails for now does not have the user sign in again.
func TestRenewalsThatFailForNow(t *testing.T) {
	l := newLiar(t)
	in := l.login(t, t.TempDir())
	assert.Equal(t, 200, get(t, in))
	k, err := in.place.load()
	require.NoError(t, err)
	k.Access, k.Refresh = "expired", "refresh"
	require.NoError(t, in.place.save(k))
	in.now.Store(k)
	in.o.Show = func(string, string, []string) { t.Error("the user is asked") }
	for _, code := range []string{"server_error", "temporarily_unavailable"} {
		l.token = `{"error":"` + code + `"}`
		assert.Equal(t, 401, get(t, in))
		require.ErrorContains(t, in.Err(), "cannot be renewed now")
	}
	l.token = `{"access_token":"good","token_type":"Bearer"}`
	assert.Equal(t, 200, get(t, in))
}
