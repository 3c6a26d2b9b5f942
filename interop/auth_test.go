package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// startAuthServer starts the authorization server, and returns its issuer.
func startAuthServer(t *testing.T) string {
	cmd := needNode(t).command("authserver.mjs")
	stdin, err := cmd.StdinPipe() // it ends when this does
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var log bytes.Buffer
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, &log)
	return strings.TrimSpace(line)
}

// machineToken is a token that a machine gets for a resource.
func machineToken(t *testing.T, issuer, client, resource, scope string) string {
	r, err := http.NewRequest(http.MethodPost, issuer+"/token", strings.NewReader(url.Values{
		"grant_type": {"client_credentials"}, "resource": {resource}, "scope": {scope}}.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(client, url.QueryEscape("secret of "+client))
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	var got struct {
		Token string `json:"access_token"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&got))
	require.NotEmpty(t, got.Token, resp.Status)
	return got.Token
}

// whoami says who calls; order asks first.
func protectedTools() []saga.Definition {
	type sure struct {
		Sure bool `json:"sure"`
	}
	ask := &steps.Form[sure]{ID: "sure", Message: "Sure?"}
	who := func(c saga.Caller) string {
		return fmt.Sprintf("%s may %s", c.Subject, strings.Join(slices.Sorted(slices.Values(c.Scopes)), " "))
	}
	return []saga.Definition{
		saga.Flow[struct{}, string]{
			Info: saga.Info{Name: "whoami"},
			Run:  func(r *saga.Run, _ struct{}) (string, error) { return who(r.Caller()), nil },
		},
		saga.Flow[struct{}, string]{
			Info: saga.Info{Name: "order", Asks: []steps.Question{ask}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
			Run: func(r *saga.Run, _ struct{}) (string, error) {
				if _, err := saga.Ask(r, ask); err != nil {
					return "", err
				}
				return "ordered: " + who(r.Caller()), nil
			},
		},
	}
}

// serveProtected serves the tools for who has tokens of an issuer, by our own server or on one of the SDK. Its path has "opaque"
// if tokens are to be, and "bound" if they are to be bound to keys.
func serveProtected(t *testing.T, issuer, path string, mounted bool, change ...func(*server.Options)) string {
	web := httptest.NewUnstartedServer(nil)
	resource := "http://" + web.Listener.Addr().String() + path
	mapping := auth.Mapping{Audiences: []string{resource}, Machines: true}
	method, err := auth.NewJWT(auth.JWT{Issuer: issuer, KeysURL: issuer + "/jwks", Mapping: mapping, OnlyAccessTokens: true})
	if strings.Contains(path, "opaque") {
		method, err = auth.NewIntrospection(auth.Introspection{
			Issuer: issuer, URL: issuer + "/token/introspection", Mapping: mapping,
			ClientID: "resource-server", ClientSecret: "secret of resource-server", Checking: auth.Checking{Remember: -1},
		})
	}
	require.NoError(t, err)
	o := auth.Options{
		Resource: resource, Methods: []auth.Method{method}, AuthorizationServers: []string{issuer},
		Scopes: []string{"tools:read"}, FirstScopes: []string{"tools:read", "orders"}, Tools: map[string][]string{"order": {"orders"}},
	}
	o.DPoP = strings.Contains(path, "bound")
	o.RequireDPoP = o.DPoP
	if !strings.Contains(path, "most") && !o.DPoP {
		o.FirstScopes = nil
	}
	guard, err := auth.New(o)
	require.NoError(t, err)
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	log := slog.New(slog.DiscardHandler)
	var handler http.Handler
	if mounted {
		s := mcp.NewServer(&mcp.Implementation{Name: "protected", Version: "1"}, nil)
		_, err = gosdk.Mount(s, gosdk.Options{Keys: newKeys(t), Ledger: store, Logger: log, Permit: guard.Permit}, protectedTools()...)
		require.NoError(t, err)
		verify := func(_ context.Context, _ string, r *http.Request) (*sdkauth.TokenInfo, error) {
			who, err := guard.Authenticate(r) // it is remembered
			return &sdkauth.TokenInfo{
				UserID: who.Subject, Scopes: who.Scopes, Expiration: time.Now().Add(time.Minute),
				Extra: map[string]any{"iss": who.Issuer, "client_id": who.Client},
			}, err
		}
		sdk := gosdk.NewHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
		handler = guard.Require(sdkauth.RequireBearerToken(verify, nil)(sdk))
	} else {
		options := server.Options{Tools: protectedTools(), Keys: newKeys(t), Ledger: store, Logger: log}
		require.NoError(t, guard.Secure(&options))
		for _, c := range change {
			c(&options)
		}
		s, err := server.New(options)
		require.NoError(t, err)
		handler = s.Handler()
	}
	mux := http.NewServeMux()
	mux.Handle(path, http.StripPrefix(strings.TrimSuffix(path, "/mcp"), handler))
	mux.Handle("/ask/", handler) // pages
	web.Config.Handler = guard.Handler(mux)
	web.Start()
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return resource
}

// signIn does what a browser would at an authorization server, and returns what the client is sent back with.
func signIn(ctx context.Context, at string) (*sdkauth.AuthorizationResult, error) {
	resp, err := browse(ctx, at)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		body, _ := io.ReadAll(resp.Body)
		return nil, fmt.Errorf("%w: %s", err, body)
	}
	q := back.Query()
	if q.Get("error") != "" {
		return nil, fmt.Errorf("the authorization server says %s", back.RawQuery)
	}
	return &sdkauth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
}

// browse follows an authorization server to the address that it sends the browser back to.
func browse(ctx context.Context, at string) (*http.Response, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/callback" {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	return browser.Do(r)
}

// connectAs connects the Go SDK's client, which signs in as somebody when it is asked to.
func connectAs(t *testing.T, user, resource, protocol string) *mcp.ClientSession {
	handler, err := sdkauth.NewAuthorizationCodeHandler(&sdkauth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &sdkauth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			RedirectURIs: []string{"http://127.0.0.1:1/callback"}, GrantTypes: []string{"authorization_code"}, ResponseTypes: []string{"code"},
			TokenEndpointAuthMethod: "none", ClientName: "interop",
		}},
		AuthorizationCodeFetcher: func(ctx context.Context, a *sdkauth.AuthorizationArgs) (*sdkauth.AuthorizationResult, error) {
			return signIn(ctx, a.URL+"&login_hint="+user)
		},
	})
	require.NoError(t, err)
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"sure": true}}, nil
		},
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: resource, OAuthHandler: handler}, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// TestOAuthOfTheGoSDK has the Go SDK's own client find the authorization server, register, sign in, call a tool, and get
// more scopes when another takes them.
func TestOAuthOfTheGoSDK(t *testing.T) {
	t.Parallel()
	issuer := startAuthServer(t)
	for _, mounted := range []bool{false, true} {
		for _, path := range []string{"/mcp", "/opaque/mcp"} {
			for _, protocol := range []string{"2026-07-28", "2025-11-25"} {
				t.Run(fmt.Sprint(protocol, path, " mounted ", mounted), func(t *testing.T) {
					t.Parallel()
					session := connectAs(t, "ann", serveProtected(t, issuer, path, mounted), protocol)
					assert.Equal(t, protocol, session.InitializeResult().ProtocolVersion)
					call := func(name string) string {
						result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
						require.NoError(t, err)
						require.Len(t, result.Content, 1)
						return result.Content[0].(*mcp.TextContent).Text
					}
					assert.Equal(t, "ann may tools:read", call("whoami"))
					assert.Equal(t, "ordered: ann may orders tools:read", call("order"))
				})
			}
		}
	}
}

// TestOAuthOfTheTypeScriptSDK does so with the TypeScript SDK's client, which registers with the scopes of the first challenge
// and can have no others at this authorization server: that is what FirstScopes is for.
func TestOAuthOfTheTypeScriptSDK(t *testing.T) {
	t.Parallel()
	issuer := startAuthServer(t)
	for _, mode := range []any{map[string]string{"pin": "2026-07-28"}, "legacy"} {
		for path, want := range map[string]string{"/mcp": "requested scope is not allowed", "/most/mcp": "ordered: ann may orders tools:read"} {
			t.Run(fmt.Sprint(path, mode), func(t *testing.T) {
				t.Parallel()
				spec, err := json.Marshal(map[string]any{"url": serveProtected(t, issuer, path, false), "mode": mode, "tools": []string{"whoami", "order"}})
				require.NoError(t, err)
				cmd := needNode(t).command("oauth.mjs", string(spec))
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				raw, err := cmd.Output()
				require.NoError(t, err, "%s", &stderr)
				var got struct {
					Results, Scopes []string
				}
				require.NoError(t, json.Unmarshal(raw, &got))
				require.Len(t, got.Results, 2, "%s", raw)
				assert.Regexp(t, "ann may .*tools:read", got.Results[0])
				assert.Contains(t, got.Results[1], want, "%s", raw)
			})
		}
	}
}

// TestBoundTokensOfTheTypeScriptSDK has that client bind its tokens to a key, and prove with each request that it has it: also
// where answers and streams are requests of their own.
func TestBoundTokensOfTheTypeScriptSDK(t *testing.T) {
	t.Parallel()
	issuer := startAuthServer(t)
	for _, mode := range []any{map[string]string{"pin": "2026-07-28"}, "legacy"} {
		for _, path := range []string{"/bound/mcp", "/bound/opaque/mcp"} {
			t.Run(fmt.Sprint(path, mode), func(t *testing.T) {
				t.Parallel()
				resource := serveProtected(t, issuer, path, false)
				for _, bound := range []bool{true, false} {
					spec, err := json.Marshal(map[string]any{"url": resource, "mode": mode, "tools": []string{"whoami", "order"}, "bound": bound})
					require.NoError(t, err)
					cmd := needNode(t).command("oauth.mjs", string(spec))
					var stderr bytes.Buffer
					cmd.Stderr = &stderr
					raw, err := cmd.Output()
					if !bound {
						assert.Error(t, err, "a bearer is refused: %s", raw)
						continue
					}
					require.NoError(t, err, "%s", &stderr)
					var got struct{ Results, Kinds []string }
					require.NoError(t, json.Unmarshal(raw, &got))
					assert.Equal(t, "DPoP", got.Kinds[0])
					require.Len(t, got.Results, 2, "%s", raw)
					assert.Regexp(t, "ann may .*tools:read", got.Results[0])
					assert.Contains(t, got.Results[1], "ordered: ann may orders tools:read", "%s", raw)
				}
			})
		}
	}
}

// TestTokensOfTheWrongKind: what is refused, and what the client is told, is the same in both eras and on both servers.
func TestTokensOfTheWrongKind(t *testing.T) {
	t.Parallel()
	issuer := startAuthServer(t)
	for _, mounted := range []bool{false, true} {
		for _, path := range []string{"/mcp", "/opaque/mcp"} {
			resource := serveProtected(t, issuer, path, mounted)
			other := "/opaque"
			if path == "/opaque/mcp" {
				other = ""
			}
			origin := strings.TrimSuffix(resource, path)
			challenge := `Bearer resource_metadata="` + origin + `/.well-known/oauth-protected-resource` + path + `"`
			const invalid = `, error="invalid_token", error_description="the access token is not valid here, or no longer"`
			good := machineToken(t, issuer, "machine", resource, "tools:read")
			soon := machineToken(t, issuer, "short", resource, "tools:read")
			bad := map[string]string{
				"wrong audience": machineToken(t, issuer, "machine", resource+"/opaque", "tools:read"),
				"the other kind": machineToken(t, issuer, "machine", origin+other, "tools:read"),
				"tampered":       good[:len(good)-6] + "AAAAAA",
				"expired":        soon,
			}
			if parts := strings.Split(good, "."); len(parts) == 3 {
				bad["alg none"] = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"at+jwt"}`)) + "." + parts[1] + "."
			}
			require.Eventually(t, func() bool { // it lives for a second
				status, _, _ := ask(t, resource, "2025-11-25", "initialize", soon)
				return status == 401
			}, 10*time.Second, 100*time.Millisecond)
			for _, version := range []string{"2026-07-28", "2025-11-25"} {
				for name, token := range bad {
					status, header, body := ask(t, resource, version, "initialize", token)
					assert.Equal(t, 401, status, name)
					assert.Equal(t, challenge+invalid+`, scope="tools:read"`, header.Get("WWW-Authenticate"), "%s %s %v", name, path, mounted)
					assert.NotContains(t, body, "audience")
				}
				status, header, _ := ask(t, resource, version, "initialize", "")
				assert.Equal(t, 401, status)
				assert.Equal(t, challenge+`, scope="tools:read"`, header.Get("WWW-Authenticate"))
				few := machineToken(t, issuer, "machine", resource, "orders")
				status, header, _ = ask(t, resource, version, "initialize", few)
				assert.Equal(t, 403, status)
				assert.Contains(t, header.Get("WWW-Authenticate"), `error="insufficient_scope", error_description="this takes scopes that the access token does not have", scope="tools:read orders"`)
				broad := machineToken(t, issuer, "machine", resource, "tools")
				status, _, body := ask(t, resource, version, "tools/list", broad)
				assert.Equal(t, 200, status, body)
			}
		}
	}
}

var mcpName = regexp.MustCompile(`}},"(?:name|taskId)":"([^"]*)"`)

// ask sends a request with a token, without a session, and returns what is answered.
func ask(t *testing.T, at, version, method, token string, more ...string) (int, http.Header, string) {
	resp, err := http.DefaultClient.Do(newAsk(t, at, version, method, token, more...))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header, string(body)
}

// newAsk is a request with a token and, if there are more, with parameters and in a session.
func newAsk(t *testing.T, at, version, method, token string, more ...string) *http.Request {
	params := `{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}`
	if len(more) > 0 {
		params = more[0]
	}
	if version == "2026-07-28" {
		if method == "initialize" {
			method, params = "tools/list", "{}"
		}
		extensions := ""
		if strings.Contains(params, `"task`) {
			extensions = `,"extensions":{"io.modelcontextprotocol/tasks":{}}`
		}
		params = strings.Replace(params, "{", `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},`+
			`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}`+extensions+`}},`, 1)
		params = strings.Replace(params, ",}", "}", 1)
	}
	r, err := http.NewRequest(http.MethodPost, at, strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", version)
	if version == "2026-07-28" {
		r.Header.Set("Mcp-Method", method)
		if name := mcpName.FindStringSubmatch(params); name != nil {
			r.Header.Set("Mcp-Name", name[1])
		}
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if len(more) > 1 {
		r.Header.Set("Mcp-Session-Id", more[1])
	}
	return r
}
