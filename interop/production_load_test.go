package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
)

// travellers is how many of a load's users travel at once.
const travellers = 6

// load is users who make trips, and what they count.
type load struct {
	s    *site
	next atomic.Int32 // names trips
	// killing: a replica dies.
	killing atomic.Bool

	mu      sync.Mutex
	ends    map[string]int  // trips by how they ended
	asked   int             // questions
	methods shown           // requests that were answered
	again   int             // requests that were sent again, or calls that were given up, when a replica had died
	secrets map[string]bool // what only users and tools may know
}

func newLoad(s *site) *load {
	return &load{s: s, ends: map[string]int{}, methods: shown{}, secrets: map[string]bool{}}
}

func (l *load) count(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// secret notes what must be in no log, audit, metric or trace.
func (l *load) secret(s string) string {
	l.count(func() { l.secrets[s] = true })
	return s
}

// RoundTrip implements http.RoundTripper: it shown messages, and notes tokens.
func (l *load) RoundTrip(r *http.Request) (*http.Response, error) {
	var m struct {
		Method string
		Params struct{ RequestState, SagaToken string }
	}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		_ = json.Unmarshal(body, &m)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && r.URL.Path == "/mcp" && response.StatusCode < 300 {
		if m.Method != "" && !strings.HasPrefix(m.Method, "notifications/") {
			l.count(func() { l.methods[m.Method]++ })
		}
		for _, token := range []string{m.Params.RequestState, m.Params.SagaToken, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), r.Header.Get("Mcp-Session-Id")} {
			if token != "" {
				l.secret(token)
			}
		}
	}
	return response, err
}

// wish is what a user wants of a trip.
type wish struct {
	name                string // of how it ends
	travellers          int
	decision            *client.ElicitResult
	questions           int
	effects, failed, un []string
}

var (
	held   = []string{"hold-hotel", "hold-flight", "hold-money"}
	wishes = []wish{
		{"booked", 1, client.Accept(map[string]any{"pay": "deposit"}), 2, append(held[:3:3], "take-money", "confirm-hotel", "confirm-flight"), nil, nil},
		{"declined", 1, client.Decline(), 2, held, nil, held},
		{"sold out", 9, nil, 1, held[:1], held[1:2], held[:1]},
	}
)

// oauthAs is how the Go SDK's client signs in as a user when it is asked to.
func oauthAs(t *testing.T, user string) *sdkauth.AuthorizationCodeHandler {
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
	return handler
}

// signedIn connects the Go SDK's client of a user who signs in, and returns the session and the access token.
func (l *load) signedIn(t *testing.T, user, protocol string, elicit func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error)) (*mcp.ClientSession, string) {
	oauth := oauthAs(t, user)
	c := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, &mcp.ClientOptions{ElicitationHandler: elicit})
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: l.s.url + "/mcp", OAuthHandler: oauth, HTTPClient: &http.Client{Transport: l}},
		&mcp.ClientSessionOptions{ProtocolVersion: protocol})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	source, err := oauth.TokenSource(t.Context())
	require.NoError(t, err)
	token, err := source.Token()
	require.NoError(t, err)
	return session, l.secret(token.AccessToken)
}

// city names a trip as no other.
func (l *load) city() string { return l.secret(fmt.Sprintf("Xanadu%dtown", l.next.Add(1))) }

// travels makes trips with package client until ctx ends.
func (l *load) travels(ctx context.Context, t *testing.T, token, protocol string) {
	options := client.Options{Protocol: protocol, OnRetry: func(error) {
		l.count(func() { l.again++ })
	}}
	if protocol == "2025-11-25" {
		options.Sessions, options.Timeout = legacy.Open, 10*time.Second // an answer may be lost with a replica
	}
	c := client.New(&client.HTTP{URL: l.s.url + "/mcp", Bearer: token, RoundTripper: l}, options)
	defer func() { assert.NoError(t, c.Close()) }()
	for n := 0; ctx.Err() == nil; n++ {
		w, city, asked := wishes[n%len(wishes)], l.city(), map[string]bool{}
		result, err := c.Call(context.WithoutCancel(ctx), "trip", map[string]any{"from": "Oslo", "account": l.secret("account of " + city)}, client.Handlers{
			Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
				if !asked[r.Message] { // else a replica has died, and another asks again
					asked[r.Message] = true
					l.count(func() { l.asked++ })
				}
				time.Sleep(20 * time.Millisecond) // which users need longer for
				if strings.HasPrefix(r.Message, "Where") {
					return client.Accept(map[string]any{"city": city, "arrival": arrival.Format(time.DateOnly), "nights": 1, "travellers": w.travellers}), nil
				}
				return w.decision, nil
			},
		})
		if err != nil && options.Sessions != nil && l.killing.Load() { // such a client sends no call again
			l.count(func() { l.again++ })
			continue
		}
		if !assert.NoError(t, err, "%s of a trip by %s", w.name, protocol) || !assert.Equal(t, w.name != "booked", result.IsError, result.Content.Text()) {
			return
		}
		l.count(func() { l.ends[w.name]++ })
	}
}
