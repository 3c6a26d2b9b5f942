package comparison_test

//lint:file-ignore SA1019 Sampling is deprecated since 2026-07-28, and in use.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/gosdk/comparison"
	"github.com/mcpsaga/mcpsaga/gosdk/comparison/byflow"
	"github.com/mcpsaga/mcpsaga/gosdk/comparison/bymachine"
	"github.com/mcpsaga/mcpsaga/gosdk/comparison/bysdk"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// version is one of the three versions of the tool.
type version struct {
	name, file string
	serve      func(t *testing.T, c *comparison.Calendar) (url string)
}

var versions = []version{
	{"by hand with the Go SDK", "bysdk/bysdk.go", func(t *testing.T, c *comparison.Calendar) string {
		return serveSDK(t, func(s *mcp.Server) { bysdk.AddTo(s, c) })
	}},
	{"machine", "bymachine/bymachine.go", func(t *testing.T, c *comparison.Calendar) string { return serve(t, bymachine.New(c)) }},
	{"flow", "byflow/byflow.go", func(t *testing.T, c *comparison.Calendar) string { return serve(t, byflow.New(c)) }},
}

// users are those who may call the servers, by their access tokens.
var users = map[string]string{"token-of-ada": "ada", "token-of-eve": "eve"}

// serveSDK serves a tool with the Go SDK, to callers who say who they are. Clients
// of MCP 2026-07-28 need a handler that is Stateless, those of older revisions one
// that is not, if they are to be asked.
func serveSDK(t *testing.T, add func(*mcp.Server)) string {
	s := mcp.NewServer(&mcp.Implementation{Name: "deploy", Version: "1"}, nil)
	add(s)
	get := func(*http.Request) *mcp.Server { return s }
	stateless := mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true})
	stateful := mcp.NewStreamableHTTPHandler(get, nil)
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		if users[token] == "" {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: users[token], Expiration: time.Now().Add(time.Hour)}, nil
	}
	mux := http.NewServeMux()
	mux.Handle("/", auth.RequireBearerToken(verify, nil)(stateless))
	mux.Handle(older, auth.RequireBearerToken(verify, nil)(stateful))
	hs := httptest.NewServer(mux)
	t.Cleanup(hs.Close)
	return hs.URL
}

// older is the path of the Go SDK's handler for clients of older revisions.
const older = "/older"

// serve does the same with package server.
func serve(t *testing.T, tool saga.Definition) string {
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{
		Keys: keys, Tools: []saga.Definition{tool}, Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(r *http.Request) (saga.Caller, error) {
			for token, user := range users {
				if r.Header.Get("Authorization") == "Bearer "+token {
					return saga.Caller{Issuer: "test", Subject: user}, nil
				}
			}
			return saga.Caller{}, errors.New("no such token")
		},
	})
	require.NoError(t, err)
	hs := httptest.NewServer(s.Handler())
	t.Cleanup(hs.Close)
	return hs.URL + server.Endpoint
}

// user is who sits before the client, a client of the Go SDK.
type user struct {
	name     string // ada, unless set
	protocol string // 2026-07-28, unless set
	// manual: rounds are taken one by one, and nothing is checked on the way.
	manual bool
	// accept answers forms, by the name of their field; what is missing is declined.
	accept map[string]any
	asked  []string
}

// RoundTrip implements http.RoundTripper.
func (u *user) RoundTrip(r *http.Request) (*http.Response, error) {
	name := u.name
	if name == "" {
		name = "ada"
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer token-of-"+name)
	return http.DefaultTransport.RoundTrip(r)
}

func (u *user) session(t *testing.T, url string) *mcp.ClientSession {
	protocol := u.protocol
	if protocol == "" {
		protocol = "2026-07-28"
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			u.asked = append(u.asked, r.Params.Message)
			for field := range r.Params.RequestedSchema.(map[string]any)["properties"].(map[string]any) {
				if v, ok := u.accept[field]; ok {
					return accept(field, v), nil
				}
			}
			return &mcp.ElicitResult{Action: "decline"}, nil
		},
		CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			u.asked = append(u.asked, r.Params.Messages[0].Content.(*mcp.TextContent).Text)
			return &mcp.CreateMessageResult{Role: "assistant", Model: "m", Content: &mcp.TextContent{Text: "Yes."}}, nil
		},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: u.manual},
	})
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: u}},
		&mcp.ClientSessionOptions{ProtocolVersion: protocol})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	require.Equal(t, protocol, session.InitializeResult().ProtocolVersion)
	return session
}

func accept(field string, v any) *mcp.ElicitResult {
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{field: v}}
}

// call calls the tool and answers what it asks until the end.
func (u *user) call(t *testing.T, url string) (*mcp.CallToolResult, error) {
	return u.session(t, url).CallTool(t.Context(), &mcp.CallToolParams{Name: "deploy", Arguments: map[string]any{"version": "v2"}})
}

// round takes one round by hand: the first, or one that answers the question id.
func (u *user) round(t *testing.T, url, state, id string, answer mcp.InputResponse) (*mcp.CallToolResult, error) {
	u.manual = true
	p := &mcp.CallToolParams{Name: "deploy", Arguments: map[string]any{"version": "v2"}, RequestState: state}
	if answer != nil {
		p.InputResponses = mcp.InputResponseMap{id: answer}
	}
	return u.session(t, url).CallTool(t.Context(), p)
}

// must takes a round that has to work.
func (u *user) must(t *testing.T, url, state, id string, answer mcp.InputResponse) *mcp.CallToolResult {
	t.Helper()
	r, err := u.round(t, url, state, id, answer)
	require.NoError(t, err)
	return r
}

func text(r *mcp.CallToolResult) string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].(*mcp.TextContent).Text
}

// recorder is a test whose failures are recorded.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Failed() bool              { return len(r.errors) > 0 }
func (r *recorder) Errorf(s string, a ...any) { r.errors = append(r.errors, fmt.Sprintf(s, a...)) }
func (r *recorder) Logf(string, ...any)       {}
func (r *recorder) Fatalf(s string, a ...any) { r.Errorf(s, a...); runtime.Goexit() }

// reported runs a test and returns the failures that it reports.
func reported(t *testing.T, test func(testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { defer close(done); test(r) }()
	<-done
	require.NotEmpty(t, r.errors, "the mistake was not found")
	return strings.Join(r.errors, "\n")
}
