package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/memoryhttp"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A connection that does not get on is given up, whatever it waits for, and one whose
// header is too long is not read to its end.
func TestConnectionsHaveLimits(t *testing.T) {
	const head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	whole := head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(pingMessage), pingMessage)
	padded := func(n int) string {
		return strings.Replace(whole, "\r\n", "\r\nX: "+strings.Repeat("x", n-len(whole))+"\r\n", 1)
	}
	for name, test := range map[string]struct {
		sent   string
		waits  time.Duration // before it reads
		answer string        // the beginning of what it gets, if anything
		ends   time.Duration // when the connection does
	}{
		"nothing":         {ends: 10 * time.Second},
		"half a header":   {sent: head, ends: 10 * time.Second},
		"half a body":     {sent: head + "Content-Length: 1000\r\n\r\n{", answer: "HTTP/1.1 400", ends: 30 * time.Second},
		"idle":            {sent: whole, answer: "HTTP/1.1 200", ends: 2 * time.Minute},
		"reads in time":   {sent: whole, waits: 3*time.Minute - time.Second, answer: "HTTP/1.1 200", ends: 5*time.Minute - time.Second},
		"does not read":   {sent: whole, waits: 3*time.Minute + time.Second, ends: 3*time.Minute + time.Second},
		"a long header":   {sent: padded(63 << 10), answer: "HTTP/1.1 200", ends: 2 * time.Minute},
		"a longer header": {sent: padded(65 << 10), answer: "HTTP/1.1 431", ends: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := server.New(server.Options{Keys: newKeys(t), Tools: statelessTools(), Logger: slog.New(slog.DiscardHandler)})
				require.NoError(t, err)
				l := new(memoryhttp.Network).Listen()
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- s.Serve(ctx, l) }()
				begun := time.Now()
				client, err := l.Dial(t.Context())
				require.NoError(t, err)
				go io.WriteString(client, test.sent) // the server need not read all of it
				time.Sleep(test.waits)
				in := bufio.NewReader(client)
				answer, _ := in.ReadString('\n')
				assert.True(t, strings.HasPrefix(answer, test.answer), answer)
				assert.Equal(t, test.answer == "", answer == "")
				io.Copy(io.Discard, in)
				assert.Equal(t, test.ends, time.Since(begun).Round(time.Second))
				client.Close()
				stop()
				assert.NoError(t, <-ended)
			})
		})
	}
}

// A client that does not read its answer does not keep a server from stopping.
func TestUnreadAnswersDoNotHoldAStop(t *testing.T) {
	for name, message := range map[string]string{"stateless": pingMessage, "a session": initializeMessage("2025-11-25", everything)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := server.New(server.Options{Keys: newKeys(t), Tools: statelessTools(), Logger: slog.New(slog.DiscardHandler)})
				require.NoError(t, err)
				l := new(memoryhttp.Network).Listen()
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- s.Serve(ctx, l) }()
				client, err := l.Dial(t.Context())
				require.NoError(t, err)
				go fmt.Fprintf(client, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(message), message)
				time.Sleep(time.Second)
				stop()
				stopped := time.Now()
				require.NoError(t, <-ended)
				assert.LessOrEqual(t, time.Since(stopped), 31*time.Second)
				client.Close()
			})
		})
	}
}

// What a server says is for the one who asked: nobody on the way may keep it, and no
// browser guesses what it is.
func TestRepliesAreNotKept(t *testing.T) {
	r := newModern(t)
	c := r.connect("2025-11-25", everything)
	check := func(name string, h http.Header) {
		assert.Contains(t, h.Get("Cache-Control"), "no-store", name)
		assert.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), name)
	}
	for name, q := range map[string]struct {
		method, path, body string
		headers            []string
	}{
		"a result":            {"POST", "/mcp", pingMessage, nil},
		"a token":             {"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"ask_name"}}`, nil},
		"an error":            {"POST", "/mcp", "{", nil},
		"a foreign host":      {"POST", "/mcp", pingMessage, []string{"Host", "evil.example"}},
		"another method":      {"PUT", "/mcp", "", nil},
		"a session":           {"POST", "/mcp", initializeMessage("2025-11-25", everything), nil},
		"no session":          {"GET", "/mcp", "", []string{"Mcp-Session-Id", "nope"}},
		"a modern GET":        {"GET", "/mcp", "", []string{"Mcp-Protocol-Version", "2026-07-28"}},
		"health":              {"GET", "/healthz", "", nil},
		"readiness, its keys": {"GET", "/readyz", "", nil},
	} {
		_, h, body := r.exchange(q.method, q.path, q.body, q.headers...)
		require.NotEmpty(t, body, name)
		check(name, h)
	}
	check("2026-07-28", r.send(callTool("ask_name", nil).with(allCapabilities)).header)
	progress := callTool("progress", nil)
	progress.meta["progressToken"] = 1
	streamed := r.send(progress)
	require.Equal(t, "text/event-stream", streamed.header.Get("Content-Type"))
	check("a stream of 2026-07-28", streamed.header)
	resp := c.request(http.MethodGet, "", nil)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	check("a stream of a session", resp.Header)
	resp.Body.Close()
}

// Whoever has a connection on which a stream was open when the server was told to stop may use it
// once more: it could not be told that the connection ends.
func TestAConnectionIsUsedOnceMoreAfterItsStream(t *testing.T) {
	for name, turn := range map[string]time.Duration{"at once": 0, "a turn later": 3 * time.Second, "a long turn later": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				goOn := make(chan struct{})
				works := tool("works", func(t *plain) (saga.Next, error) {
					t.Progress(1, 2, "begun")
					<-goOn
					return t.Textf("done")
				})
				s, err := server.New(server.Options{Keys: newKeys(t), Tools: []saga.Definition{works}, Logger: slog.New(slog.DiscardHandler)})
				require.NoError(t, err)
				l := new(memoryhttp.Network).Listen()
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- s.Serve(ctx, l) }()
				client, err := l.Dial(t.Context())
				require.NoError(t, err)
				in := bufio.NewReader(client)
				send := func(q *request) *http.Response {
					var whole bytes.Buffer
					require.NoError(t, (&rig{t: t, url: "http://localhost"}).httpRequest(t.Context(), q).Write(&whole))
					go client.Write(whole.Bytes())
					resp, err := http.ReadResponse(in, nil)
					if err != nil {
						return nil
					}
					return resp
				}
				q := callTool("works", nil)
				q.meta["progressToken"] = 1
				first := send(q)
				require.Equal(t, "text/event-stream", first.Header.Get("Content-Type"))
				assert.False(t, first.Close)
				stop()
				time.Sleep(turn)
				close(goOn)
				said, err := io.ReadAll(first.Body)
				require.NoError(t, err)
				assert.Contains(t, string(said), "done")
				time.Sleep(500 * time.Millisecond) // until the proxy has another request
				second := send(modernRequest("tools/list", nil))
				if turn > 5*time.Second { // nobody waits for ever
					assert.Nil(t, second)
				} else if assert.NotNil(t, second) {
					assert.True(t, second.Close, "now it is told")
					_, err = io.Copy(io.Discard, second.Body)
					assert.NoError(t, err)
				}
				assert.NoError(t, <-ended)
				client.Close()
			})
		})
	}
}
