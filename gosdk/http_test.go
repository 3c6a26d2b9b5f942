package gosdk_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
)

// seen is the methods of the requests that got as far as the server.
type seen struct {
	mu      sync.Mutex
	methods []string
}

func (s *seen) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		s.mu.Lock()
		s.methods = append(s.methods, method)
		s.mu.Unlock()
		return next(ctx, method, r)
	}
}

func (s *seen) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.methods = nil }()
	// Nobody waits for notifications, so they may come later.
	return slices.DeleteFunc(s.methods, func(m string) bool { return strings.HasPrefix(m, "notifications/") })
}

// Headers that do not say what the body says decide nothing that the body would not:
// the request is refused.
func TestHeadersAndBodies(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{}, rooms.book())
	seen := new(seen)
	h.sdk.AddReceivingMiddleware(seen.middleware)
	url := h.serve()
	s := newSession(t, url, "", forms)
	seen.take()
	call := func(m object) string { return message(1, "tools/call", object{"name": "book", "_meta": m}) }
	old := meta(forms)
	old["io.modelcontextprotocol/protocolVersion"] = legacy
	standard := []string{"MCP-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", "book"}
	but := func(name, value string) []string { return append(slices.Clone(standard), name, value) }
	for _, c := range []struct {
		name, body string
		headers    []string
		status     int
		code       int64 // 0: the body is not JSON-RPC
	}{
		{"no header", call(meta(forms)), nil, 400, -32020},
		{"initialize, without the header", message(1, "initialize", object{"protocolVersion": legacy, "capabilities": forms, "_meta": meta(forms)}), nil, 400, -32020},
		{"a saga's header", call(meta(forms)), []string{"Mcp-Method", "tools/callSaga"}, 400, -32020},
		{"an older version in the header", call(meta(forms)), but("MCP-Protocol-Version", legacy), 400, -32020},
		{"an older version in the body", call(old), standard, 400, -32020},
		{"no version in the body", call(object{}), standard, 400, -32602},
		{"a version of the future", call(meta(forms)), but("MCP-Protocol-Version", "2099-01-01"), 400, -32020},
		{"no version at all", call(meta(forms)), but("MCP-Protocol-Version", "zzz"), 400, -32020},
		{"an unknown old version", call(object{}), but("MCP-Protocol-Version", "1999-01-01"), 400, 0},
		{"another method in the header", call(meta(forms)), but("Mcp-Method", "tools/list"), 400, -32020},
		{"another tool in the header", call(meta(forms)), but("Mcp-Name", "talk"), 400, -32020},
		{"a batch", "[" + call(meta(forms)) + "]", standard, 400, 0},
		{"a session that is not there", call(object{}), []string{"MCP-Protocol-Version", legacy, "Mcp-Session-Id", "x"}, 404, 0},
		{"the new version in a session", call(meta(forms)), s.headers(), 400, -32022},
		{"a saga's method with the new header only", message(1, "tools/callSaga", object{"name": "book"}), but("Mcp-Method", "tools/callSaga"), 400, -32602},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, _, body := post(t, httpClient, url, c.body, c.headers...)
			assert.Equal(t, c.status, status, body)
			assert.Equal(t, c.code, last(body).Get("error.code").Int(), body)
		})
	}
	for _, version := range []string{modern, "2026-07-29", "2099-01-01"} {
		status, _, body := do(t, httpClient, http.MethodGet, url, "", append(s.headers(), "MCP-Protocol-Version", version)...)
		assert.Equal(t, 405, status, "there are no sessions any more: %s", body)
	}
	assert.Empty(t, seen.take(), "nothing of it has got to the server")
	status, _, body := post(t, httpClient, url, call(meta(forms)), append(standard, "Mcp-Session-Id", s.id)...)
	assert.Equal(t, 200, status)
	assert.Equal(t, "input_required", last(body).Get("result.resultType").String(), "a session has no meaning in MCP 2026-07-28: %s", body)
}

// The SDK's checks are made on all ways.
func TestChecksOfTheSDK(t *testing.T) {
	h := mount(t, gosdk.Options{}, talk(1))
	url := h.serve()
	bodies := map[string][]string{
		message(1, "tools/callSaga", object{"name": "talk"}):                                  nil,
		message(1, "tools/call", object{"name": "talk", "_meta": meta(forms)}):                {"MCP-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", "talk"},
		message(1, "initialize", object{"protocolVersion": legacy, "capabilities": object{}}): nil,
	}
	for body, headers := range bodies {
		status, _, got := post(t, httpClient, url, body, headers...)
		assert.Equal(t, 200, status, got)
		status, _, _ = post(t, httpClient, url, body, append(headers, "Content-Type", "text/plain")...)
		assert.Equal(t, 415, status)
		status, _, _ = post(t, httpClient, url, body, append(headers, "Accept", "text/html")...)
		assert.Equal(t, 400, status)

		r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		require.NoError(t, err)
		r.Host = "rebound.example"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w, err := httpClient.Do(r)
		require.NoError(t, err)
		w.Body.Close()
		assert.Equal(t, 403, w.StatusCode)
	}
}

// Bodies are bounded on all ways, whatever their length is said to be.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	h := mount(t, gosdk.Options{}, talk(1))
	url := h.serveWith(&mcp.StreamableHTTPOptions{MaxRequestBodyBytes: 4096})
	s := newSession(t, url, "", forms)
	for name, headers := range map[string][]string{
		"stranger": nil, "session": s.headers(), "stateless": {"MCP-Protocol-Version", modern, "Mcp-Method", "tools/callSaga"},
	} {
		for _, announced := range []bool{true, false} {
			for size, want := range map[int]int{4000: 200, 4097: 413, 1 << 20: 413} {
				params := object{"name": "talk", "pad": ""}
				if name == "stateless" {
					params["_meta"] = meta(forms)
				}
				body := message(1, "tools/callSaga", params)
				body = strings.Replace(body, `"pad":""`, `"pad":"`+strings.Repeat("x", size-len(body))+`"`, 1)
				var reader io.Reader = strings.NewReader(body)
				if !announced {
					reader = io.MultiReader(reader)
				}
				r := httptest.NewRequest(http.MethodPost, url, reader)
				r.RequestURI = ""
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Accept", "application/json, text/event-stream")
				for i := 0; i < len(headers); i += 2 {
					r.Header.Set(headers[i], headers[i+1])
				}
				w, err := httpClient.Do(r)
				if want == 413 && err != nil {
					continue // the connection was closed while the rest was sent
				}
				require.NoError(t, err)
				w.Body.Close()
				assert.Equal(t, want, w.StatusCode, "%s %d", name, size)
			}
		}
	}
	unlimited := h.serveWith(&mcp.StreamableHTTPOptions{MaxRequestBodyBytes: -1})
	status, _, body := post(t, httpClient, unlimited, message(1, "tools/callSaga", object{"name": "talk", "pad": strings.Repeat("x", 5<<20)}))
	assert.Equal(t, 200, status, body)
	status, _, _ = post(t, httpClient, h.serve(), message(1, "tools/callSaga", object{"name": "talk", "pad": strings.Repeat("x", 5<<20)}))
	assert.Equal(t, 413, status, "the SDK's own limit")
}

// counted is an event store that counts what is stored.
type counted struct {
	*mcp.MemoryEventStore
	stored atomic.Int32
}

func (c *counted) Append(ctx context.Context, session, stream string, data []byte) error {
	c.stored.Add(1)
	return c.MemoryEventStore.Append(ctx, session, stream, data)
}

// Nothing is stored for those who have no session in which they could come back.
func TestEventsAreStoredForSessions(t *testing.T) {
	h := mount(t, gosdk.Options{}, talk(1))
	store := &counted{MemoryEventStore: mcp.NewMemoryEventStore(nil)}
	url := h.serveWith(&mcp.StreamableHTTPOptions{EventStore: store})
	status, _, body := post(t, httpClient, url, message(1, "tools/callSaga", object{"name": "talk"}))
	require.Equal(t, 200, status, body)
	assert.Zero(t, store.stored.Load(), body)
	s := newSession(t, url, "", forms)
	s.do(http.MethodPost, message(1, "tools/list", nil))
	assert.NotZero(t, store.stored.Load(), "the store is used")
}

// endless is a body that does not end by itself.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	if e.read > 1<<26 {
		return 0, io.EOF
	}
	for i := range b {
		b[i] = ' '
	}
	e.read += len(b)
	return len(b), nil
}

// No more of a body is kept than may be.
func TestEndlessBodies(t *testing.T) {
	h := mount(t, gosdk.Options{}, talk(1))
	for limit, most := range map[int64]int{0: 6 << 20, 4096: 3 * 4096} {
		handler := gosdk.NewHTTPHandler(func(*http.Request) *mcp.Server { return h.sdk }, &mcp.StreamableHTTPOptions{MaxRequestBodyBytes: limit})
		body := new(endless)
		r := httptest.NewRequest(http.MethodPost, "/", body)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		assert.Equal(t, 413, w.Code)
		assert.Less(t, body.read, most)
	}
}

// FuzzStranger: a request without a session leaves nothing behind, unless it opens
// one.
func FuzzStranger(f *testing.F) {
	for _, body := range []string{
		message(1, "tools/call", object{"name": "talk"}),
		message(1, "tools/callSaga", object{"name": "talk"}),
		message(1, "tools/call", object{"name": "talk", "_meta": meta(forms)}),
		message(1, "initialize", object{"protocolVersion": legacy, "capabilities": object{}}),
		`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","method":"tools/call","params":{"name":"talk"}}`,
		`{"jsonrpc":"2.0","id":1,"m\u0065thod":"tools/call","method":"tools/callSaga","params":{"name":"talk"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}},"params":{"name":"talk"}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"talk"}},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"talk"}}]`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"talk"}}{"method":"tools/callSaga"}`,
	} {
		f.Add(body, "", "")
		f.Add(body, legacy, "tools/callSaga")
		f.Add(body, modern, "tools/call")
	}
	h := mount(f, gosdk.Options{}, talk(1))
	seen := new(seen)
	h.sdk.AddReceivingMiddleware(seen.middleware)
	handler := gosdk.NewHTTPHandler(func(*http.Request) *mcp.Server { return h.sdk }, nil)
	f.Fuzz(func(t *testing.T, body, version, method string) {
		if version >= modern && (strings.Contains(body, `listen`) || strings.Contains(body, `\`)) {
			t.Skip("a subscription lasts until the client has gone")
		}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("MCP-Protocol-Version", version)
		r.Header.Set("Mcp-Method", method)
		r.Header.Set("Mcp-Name", "talk")
		w := httptest.NewRecorder()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		handler.ServeHTTP(w, r.WithContext(ctx))
		if ctx.Err() != nil {
			t.Fatalf("no answer: %q %q %q", body, version, method)
		}
		got := seen.take()
		for ss := range h.sdk.Sessions() {
			ss.Close()
			if !slices.Contains(got, "initialize") || version >= modern {
				t.Fatalf("a session: %q %q", got, body)
			}
		}
		if w.Header().Get("Mcp-Session-Id") != "" && !slices.Contains(got, "initialize") {
			t.Fatalf("the name of a session: %q %q", got, body)
		}
	})
}
