package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// growing gives each request a scope that is later than those before.
type growing struct {
	mu   sync.Mutex
	last []byte
	seen []string // by turns and the code in them
}

func (g *growing) authenticate(r *http.Request) (saga.Caller, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last = append(g.last, 'x')
	c, _ := users(r)
	c.Client, c.Scopes, c.Claims = "app", []string{"read", string(g.last)}, map[string]string{"team": "blue"}
	return c, nil
}

func (g *growing) note(t *testing.T, c saga.Caller) {
	assert.Equal(t, saga.Caller{Issuer: "test", Subject: "ann", Client: "app", Scopes: c.Scopes, Claims: map[string]string{"team": "blue"}}, c)
	if assert.True(t, c.HasScope("read")) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.seen = append(g.seen, c.Scopes[1])
	}
}

// All code of a saga knows who calls, and with which scopes: those of the request that a turn belongs to. Turns that the
// server takes by itself, also another one, have those of the request that brought the answer.
func TestEveryTurnKnowsWhoCalls(t *testing.T) {
	for _, way := range guardedWays {
		t.Run(way.what, func(t *testing.T) {
			t.Parallel()
			scopes := new(growing)
			g := newGuarded(t, func(o *server.Options) {
				o.Authenticate = scopes.authenticate
				for i, tool := range o.Tools {
					if f, ok := tool.(saga.Flow[struct{}, string]); ok {
						run := f.Run
						f.Run = func(r *saga.Run, in struct{}) (string, error) {
							scopes.note(t, r.Caller())
							return run(r, in)
						}
						o.Tools[i] = f
					}
				}
				o.Hooks = []server.Hooks{{
					Turn: func(ctx context.Context, i *server.TurnInfo, next next) error {
						assert.Equal(t, i.Request.Caller, saga.CallerOf(ctx))
						scopes.note(t, i.Request.Caller)
						return next(ctx)
					},
					Effect: func(ctx context.Context, e *server.EffectInfo, next next) error {
						assert.Equal(t, e.Turn.Request.Caller, saga.CallerOf(ctx))
						return next(ctx)
					},
				}}
			})
			way.take(t, g, g.here.srv.Close)
			scopes.mu.Lock()
			defer scopes.mu.Unlock()
			seen := scopes.seen
			require.GreaterOrEqual(t, len(seen), 2)
			assert.IsNonDecreasing(t, seen)
			assert.Greater(t, seen[len(seen)-1], seen[0], "the answer came with other scopes")
		})
	}
}

// What Authenticate says of a refusal is what HTTP gets, whatever is asked for and by which protocol.
func TestAuthenticationErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		status    int
		challenge string
	}{
		"any":           {errors.New("secret"), 401, "Bearer"},
		"no challenge":  {&server.AuthError{Err: errors.New("secret")}, 401, "Bearer"},
		"challenge":     {&server.AuthError{Status: 401, Challenge: `Bearer error="invalid_token"`, Err: errors.New("secret")}, 401, `Bearer error="invalid_token"`},
		"scopes":        {&server.AuthError{Status: 403, Challenge: `Bearer error="insufficient_scope"`}, 403, `Bearer error="insufficient_scope"`},
		"no permission": {&server.AuthError{Status: 403}, 403, ""},
		"busy":          {server.TryAgain("busy", 3*time.Second), 503, ""},
		"wrapped":       {errors.Join(errors.New("secret"), &server.AuthError{Status: 403, Challenge: "DPoP"}), 403, "DPoP"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, server.Options{Ledger: inMemory(t), Questions: server.Questions{PageURL: "http://127.0.0.1/ask"}, Authenticate: func(*http.Request) (saga.Caller, error) {
				return saga.Caller{}, c.err
			}})
			const session, events = "Mcp-Session-Id", "text/event-stream"
			for what, q := range map[string]*http.Request{
				"2026-07-28":  r.httpRequest(t.Context(), callTool("complex_tool", nil)),
				"saga":        newRequest(t, r, "POST", "/mcp", transcript(t)[0][0]),
				"initialize":  newRequest(t, r, "POST", "/mcp", initializeMessage("2025-11-25", "{}")),
				"in session":  newRequest(t, r, "POST", "/mcp", pingMessage, session, "x"),
				"batch":       newRequest(t, r, "POST", "/mcp", "["+pingMessage+"]", session, "x"),
				"stream":      newRequest(t, r, "GET", "/mcp", "", session, "x", "Accept", events, "Last-Event-ID", "x"),
				"end":         newRequest(t, r, "DELETE", "/mcp", "", session, "x"),
				"not message": newRequest(t, r, "POST", "/mcp", "{"),
				"page":        newRequest(t, r, "GET", "/ask/waiting", ""),
			} {
				resp, err := r.client().Do(q)
				require.NoError(t, err)
				body := readAll(t, resp)
				assert.Equal(t, c.status, resp.StatusCode, what)
				assert.Equal(t, c.challenge, resp.Header.Get("WWW-Authenticate"), what)
				assert.NotContains(t, body, "secret")
				if c.status == 503 && what != "page" {
					assert.Equal(t, "3", resp.Header.Get("Retry-After"), what)
				}
			}
		})
	}
}

func newRequest(t *testing.T, r *rig, method, path, body string, header ...string) *http.Request {
	q, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	require.NoError(t, err)
	q.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	return q
}

// A caller of whom there is more to keep than rows have room for is refused, and so is one whose scopes are nobody's.
func TestCallersThatAreNone(t *testing.T) {
	for name, who := range map[string]saga.Caller{
		"nobody's scopes": {Scopes: []string{"tools"}},
		"many scopes":     {Subject: "ann", Scopes: make([]string, 101)},
		"long claims":     {Subject: "ann", Claims: map[string]string{"name": strings.Repeat("x", 4<<10)}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, server.Options{Authenticate: func(*http.Request) (saga.Caller, error) { return who, nil }})
			status, _ := r.do("POST", "/mcp", pingMessage, nil)
			assert.Equal(t, 403, status)
			assert.Contains(t, r.log.take(), "a caller has ")
		})
	}
}
