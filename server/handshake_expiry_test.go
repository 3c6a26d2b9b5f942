package server_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/server"
)

// bubble is a server without a network, for tests of time.
type bubble struct {
	t       *testing.T
	handler http.Handler
	srv     *server.Server
	keys    *codec.Keyset
	session string
}

func newBubble(t *testing.T, o server.Options) *bubble {
	if o.Keys == nil {
		o.Keys = newKeys(t)
	}
	o.Logger = slog.New(slog.DiscardHandler)
	if o.Tools == nil {
		o.Tools = legacyDefinitions()
	}
	s, err := server.New(o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	b := &bubble{t: t, handler: s.Handler(), srv: s, keys: o.Keys}
	resp := b.do(http.MethodPost, initializeMessage("2025-11-25", everything))
	b.session = resp.Header().Get("Mcp-Session-Id")
	require.NotEmpty(t, b.session)
	return b
}

func (b *bubble) do(method, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Mcp-Session-Id", b.session)
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w
}

// get reads the stream that belongs to no request for a second.
func (b *bubble) get() string {
	ctx, leave := context.WithTimeout(b.t.Context(), time.Second)
	defer leave()
	r := httptest.NewRequestWithContext(ctx, "GET", "http://localhost/mcp", nil)
	r.Header.Set("Mcp-Session-Id", b.session)
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	assert.Equal(b.t, 200, w.Code)
	return w.Body.String()
}

// What a session has in memory goes when it was not used for long. The session stays.
func TestHandshakeIdleSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, server.Options{SessionIdle: time.Hour})
		updated := func() bool {
			b.srv.ResourceUpdated("static://one")
			return strings.Contains(b.get(), "notifications/resources/updated")
		}
		assert.Equal(t, 200, b.do("POST", `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"static://one"}}`).Code)
		for range 5 {
			time.Sleep(59 * time.Minute)
			assert.Equal(t, 200, b.do("POST", listTools).Code)
		}
		assert.True(t, updated())
		time.Sleep(time.Hour + time.Second)
		assert.Equal(t, 200, b.do("POST", listTools).Code)
		assert.False(t, updated())
	})
}

// Whatever came last, a session ends when its time is over: no request keeps it for longer.
func TestHandshakeSessionsExpireAfterAnyRequest(t *testing.T) {
	for name, last := range map[string]func(*bubble){
		"a call":         func(b *bubble) { b.do("POST", toolCall(1, "sum", `{}`)) },
		"a notification": func(b *bubble) { b.do("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`) },
		"a saga method": func(b *bubble) {
			b.do("POST", strings.Replace(toolCall(1, "sum", `{}`), "tools/call", "tools/callSaga", 1))
		},
		"a saga method, refused": func(b *bubble) {
			b.do("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/resumeSaga","params":{}}`)
		},
		"a response":       func(b *bubble) { b.do("POST", `{"jsonrpc":"2.0","id":1,"result":{}}`) },
		"a batch, refused": func(b *bubble) { b.do("POST", "["+pingMessage+"]") },
		"a level": func(b *bubble) {
			b.do("POST", `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`)
		},
		"a stream that the client leaves": func(b *bubble) { b.get() },
		"a stream that it does not leave": func(b *bubble) {
			go func() {
				r := httptest.NewRequestWithContext(b.t.Context(), "GET", "http://localhost/mcp", nil)
				r.Header.Set("Mcp-Session-Id", b.session)
				b.handler.ServeHTTP(httptest.NewRecorder(), r)
			}()
			synctest.Wait()
		},
		"a stream, refused": func(b *bubble) {
			r := httptest.NewRequest("GET", "http://localhost/mcp", nil)
			r.Header.Set("Mcp-Session-Id", b.session)
			r.Header.Set("Accept", "application/json")
			w := httptest.NewRecorder()
			b.handler.ServeHTTP(w, r)
			assert.Equal(b.t, 406, w.Code)
		},
	} {
		t.Run(name, func(t *testing.T) {
			// A minute more is for clocks that differ.
			for after, want := range map[time.Duration]int{2*time.Minute - time.Second: 204, 2*time.Minute + time.Second: 404} {
				synctest.Test(t, func(t *testing.T) {
					start := time.Now()
					b := newBubble(t, server.Options{SessionTTL: time.Minute})
					last(b)
					time.Sleep(time.Until(start.Add(after)))
					assert.Equal(t, want, b.do("DELETE", "").Code)
				})
			}
		})
	}
}

// A server that stops opens no session any more: nobody would end it.
func TestHandshakeNoSessionAfterTheEnd(t *testing.T) {
	r := newRig(t, server.Options{})
	r.srv.Close()
	status, header, body := r.exchange("POST", "/mcp", initializeMessage("2025-11-25", everything))
	assert.Equal(t, 503, status, body)
	assert.Equal(t, "60", header.Get("Retry-After"))
	assert.Empty(t, header.Get("Mcp-Session-Id"))
}

// A session whose time is over ends when its calls have ended: until then they can be
// answered and cancelled, and nothing new begins.
func TestHandshakeBusySessionsDoNotExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		b := newBubble(t, server.Options{SessionTTL: time.Minute, TurnTimeout: 3 * time.Hour, Tools: legacyDefinitions(g.tool())})
		done := make(chan string)
		go func() { done <- b.do("POST", toolCall(1, "gate", `{}`)).Body.String() }()
		time.Sleep(2 * time.Hour)
		assert.Equal(t, 404, b.do("POST", listTools).Code)
		assert.Equal(t, 404, b.do("POST", toolCall(2, "sum", `{}`)).Code)
		assert.Equal(t, 202, b.do("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`).Code)
		g.leave <- true
		assert.Contains(t, <-done, "left")
		synctest.Wait()
		assert.Equal(t, 404, b.do("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`).Code)
	})
	t.Run("by batches", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			b := newBubble(t, server.Options{SessionTTL: time.Minute, TurnTimeout: 3 * time.Hour, Tools: legacyDefinitions(g.tool())})
			b.session = b.do("POST", initializeMessage("2025-03-26", everything)).Header().Get("Mcp-Session-Id")
			done := make(chan string)
			go func() { done <- b.do("POST", toolCall(1, "gate", `{}`)).Body.String() }()
			time.Sleep(2 * time.Hour)
			assert.Equal(t, 404, b.do("POST", "["+pingMessage+"]").Code)
			assert.Equal(t, 202, b.do("POST", `[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]`).Code)
			g.leave <- true
			assert.NotContains(t, <-done, "left")
		})
	})
	t.Run("asked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t, server.Options{SessionTTL: time.Minute})
			w := httptest.NewRecorder()
			done := make(chan bool)
			go func() {
				r := httptest.NewRequest("POST", "http://localhost/mcp", strings.NewReader(toolCall(1, "ask", `{"what":"form"}`)))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Mcp-Session-Id", b.session)
				b.handler.ServeHTTP(w, r)
				close(done)
			}()
			time.Sleep(5*time.Minute + time.Second)
			synctest.Wait()
			id := regexp.MustCompile(`"id":(\d+),"method":"elicitation/create"`).FindStringSubmatch(w.Body.String())
			require.NotNil(t, id)
			assert.Equal(t, 202, b.do("POST", `{"jsonrpc":"2.0","id":`+id[1]+`,"result":`+accepted(`{"name":"n"}`)+`}`).Code)
			<-done
			assert.Contains(t, w.Body.String(), `form: `)
		})
	})
}
