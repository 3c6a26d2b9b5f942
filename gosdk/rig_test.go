package gosdk_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/internal/leaktest"
	"github.com/mcpsaga/mcpsaga/saga"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// httpClient is that of tests which write requests by hand.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// The revisions that the SDK serves each in a way of its own.
const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

// object is JSON as tests write it.
type object = map[string]any

// host is an SDK server with sagas on it.
type host struct {
	t       testing.TB
	sdk     *mcp.Server
	mounted *gosdk.Mounted
	log     *logBuffer
}

// logBuffer is what was logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newKeys(t testing.TB) *codec.Keyset {
	t.Helper()
	k, err := codec.NewKeyset()
	require.NoError(t, err)
	return k
}

func newSDK(o *mcp.ServerOptions) *mcp.Server {
	return mcp.NewServer(&mcp.Implementation{Name: "host", Version: "1"}, o)
}

func mount(t testing.TB, o gosdk.Options, sagas ...saga.Definition) *host {
	t.Helper()
	return mountOn(t, newSDK(nil), o, sagas...)
}

func mountOn(t testing.TB, s *mcp.Server, o gosdk.Options, sagas ...saga.Definition) *host {
	t.Helper()
	h := &host{t: t, sdk: s, log: new(logBuffer)}
	if o.Keys == nil {
		o.Keys = newKeys(t)
	}
	o.Logger = slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	h.mounted, err = gosdk.Mount(s, o, sagas...)
	require.NoError(t, err)
	return h
}

// shutDown calls Shutdown, which must come to its end.
func (h *host) shutDown() {
	h.t.Helper()
	patience, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(h.t, h.mounted.Shutdown(patience))
}

// connect connects the SDK's client.
func (h *host) connect(version string, o *mcp.ClientOptions) *mcp.ClientSession {
	h.t.Helper()
	return h.client(version, mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, o))
}

func (h *host) client(version string, c *mcp.Client) *mcp.ClientSession {
	h.t.Helper()
	there, here := mcp.NewInMemoryTransports()
	ss, err := h.sdk.Connect(context.Background(), there, nil)
	require.NoError(h.t, err)
	cs, err := c.Connect(context.Background(), here, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(h.t, err)
	h.t.Cleanup(func() {
		cs.Close()
		_ = ss.Wait()
	})
	require.Equal(h.t, version, cs.InitializeResult().ProtocolVersion)
	return cs
}

// serve serves the host over HTTP, for clients of all revisions.
func (h *host) serve(wrap ...func(http.Handler) http.Handler) string {
	h.t.Helper()
	return h.serveWith(nil, wrap...)
}

func (h *host) serveWith(o *mcp.StreamableHTTPOptions, wrap ...func(http.Handler) http.Handler) string {
	h.t.Helper()
	handler := gosdk.NewHTTPHandler(func(*http.Request) *mcp.Server { return h.sdk }, o)
	for _, f := range wrap {
		handler = f(handler)
	}
	return h.serveHandler(handler)
}

func (h *host) serveHandler(handler http.Handler) string {
	h.t.Helper()
	web := httptest.NewServer(handler)
	h.t.Cleanup(func() {
		h.shutDown() // whoever is left has gone; the SDK keeps sessions until they are closed
		web.CloseClientConnections()
		for ss := range h.sdk.Sessions() {
			ss.Close()
		}
		web.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return web.URL
}

// connectHTTP connects the SDK's client over HTTP.
func (h *host) connectHTTP(url, version string, o *mcp.ClientOptions) *mcp.ClientSession {
	h.t.Helper()
	return h.clientHTTP(url, version, mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, o))
}

func (h *host) clientHTTP(url, version string, c *mcp.Client) *mcp.ClientSession {
	h.t.Helper()
	cs, err := c.Connect(context.Background(),
		&mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(h.t, err)
	h.t.Cleanup(func() { cs.Close() })
	require.Equal(h.t, version, cs.InitializeResult().ProtocolVersion)
	return cs
}

// message writes a JSON-RPC message; without an id it is a notification.
func message(id any, method string, params any) string {
	m := object{"jsonrpc": "2.0", "method": method}
	if id != nil {
		m["id"] = id
	}
	if params != nil {
		m["params"] = params
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic(err) // tests only put in what encodes
	}
	return string(raw)
}

// meta is what requests of MCP 2026-07-28 say about themselves.
func meta(capabilities object) object {
	return object{"io.modelcontextprotocol/protocolVersion": modern, "io.modelcontextprotocol/clientCapabilities": capabilities}
}

var forms = object{"elicitation": object{"form": object{}}}

// wire is a client that writes and reads lines, on what would be standard input
// and output.
type wire struct {
	t     testing.TB
	lines chan string
	in    *io.PipeWriter
	ss    *mcp.ServerSession
	next  int
}

func (h *host) wire() *wire {
	h.t.Helper()
	in, write := io.Pipe()
	read, out := io.Pipe()
	ss, err := h.sdk.Connect(context.Background(), &mcp.IOTransport{Reader: in, Writer: out}, nil)
	require.NoError(h.t, err)
	w := &wire{t: h.t, lines: make(chan string, 1000), in: write, ss: ss}
	go func() {
		defer close(w.lines)
		s := bufio.NewScanner(read)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			w.lines <- s.Text()
		}
	}()
	h.t.Cleanup(func() { w.hangUp() })
	return w
}

// hangUp ends the connection and waits until the server is done with it.
func (w *wire) hangUp() {
	w.in.Close()
	_ = w.ss.Wait()
}

// greet does the handshake of older revisions.
func (w *wire) greet(version string, capabilities object) jsontest.Value {
	w.t.Helper()
	r := w.ask("initialize", object{"protocolVersion": version, "capabilities": capabilities, "clientInfo": object{"name": "wire", "version": "1"}})
	w.send(message(nil, "notifications/initialized", nil))
	return r
}

func (w *wire) send(line string) {
	w.t.Helper()
	_, err := fmt.Fprintln(w.in, line)
	require.NoError(w.t, err)
}

// read waits for a line.
func (w *wire) read() jsontest.Value {
	w.t.Helper()
	select {
	case line, ok := <-w.lines:
		require.True(w.t, ok, "the server has hung up")
		return jsontest.Parse(line)
	case <-time.After(time.Minute):
		require.FailNow(w.t, "the server says nothing")
	}
	return jsontest.Value{}
}

// begin sends a request without waiting.
func (w *wire) begin(method string, params object) (id int) {
	w.t.Helper()
	w.next++
	w.send(message(w.next, method, params))
	return w.next
}

// ask sends a request and returns the next message, which must be its response.
func (w *wire) ask(method string, params object) jsontest.Value {
	w.t.Helper()
	id := w.begin(method, params)
	r := w.read()
	require.Equal(w.t, int64(id), r.Get("id").Int(), r.Raw)
	require.False(w.t, r.Get("method").Exists(), "a request of the server's instead of a response: %s", r.Raw)
	return r
}

// result waits for the response to a request, whatever comes before.
func (w *wire) result(id int) jsontest.Value {
	w.t.Helper()
	for {
		if r := w.read(); !r.Get("method").Exists() && r.Get("id").Int() == int64(id) {
			return r
		}
	}
}

// silent makes sure that nothing was said until now: what is said to a ping is all.
func (w *wire) silent() {
	w.t.Helper()
	r := w.ask("ping", nil)
	require.True(w.t, r.Get("result").Exists(), r.Raw)
}

// answer responds to a request of the server's.
func (w *wire) answer(request jsontest.Value, result string) {
	w.t.Helper()
	require.True(w.t, request.Get("method").Exists(), "a response instead of a request: %s", request.Raw)
	w.send(`{"jsonrpc":"2.0","id":` + request.Get("id").Raw + `,"result":` + result + `}`)
}

// post sends a body as it stands. Header names and values alternate.
func post(t testing.TB, c *http.Client, url, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	return do(t, c, http.MethodPost, url, body, headers...)
}

func do(t testing.TB, c *http.Client, method, url, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	w, err := c.Do(r)
	require.NoError(t, err)
	defer w.Body.Close()
	raw, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	return w.StatusCode, w.Header, string(raw)
}

// last is the last message of a response, be it a stream or not.
func last(body string) jsontest.Value {
	lines := strings.Split(strings.TrimSpace(body), "\n")
	return jsontest.Parse(strings.TrimPrefix(lines[len(lines)-1], "data: "))
}

// text is the text of a result.
func text(t testing.TB, r *mcp.CallToolResult) string {
	t.Helper()
	require.Len(t, r.Content, 1)
	c, ok := r.Content[0].(*mcp.TextContent)
	require.True(t, ok)
	return c.Text
}
