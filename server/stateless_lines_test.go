package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// pipe is a client on a stdio connection.
type pipe struct {
	t     testing.TB
	in    *io.PipeWriter
	out   chan rpcMessage
	ended chan error
}

func newPipe(t testing.TB, s *server.Server) *pipe {
	in, write := io.Pipe()
	read, out := io.Pipe()
	p := &pipe{t, write, make(chan rpcMessage, 100), make(chan error, 1)}
	go func() {
		p.ended <- s.ServeStdio(context.Background(), in, out)
		out.Close()
	}()
	go func() {
		defer close(p.out)
		lines := bufio.NewScanner(read)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			p.out <- parseMessage(t, lines.Text())
		}
	}()
	t.Cleanup(func() {
		write.Close()
		defer impatiently(read)()
		for range p.out {
		}
	})
	return p
}

func (p *pipe) send(q *request) {
	p.t.Helper()
	defer impatiently(p.in)()
	_, err := fmt.Fprintln(p.in, q.body())
	require.NoError(p.t, err)
}

func (p *pipe) next() rpcMessage {
	p.t.Helper()
	select {
	case m, ok := <-p.out:
		require.True(p.t, ok, "the connection ended")
		return m
	case <-time.After(time.Minute):
		p.t.Fatal("no message")
	}
	return rpcMessage{}
}

// must returns the next message, which must be of the subscription.
func (p *pipe) must(id, method string) {
	p.t.Helper()
	m := p.next()
	require.Equal(p.t, method, m.Method, m.raw)
	requireSubscription(p.t, id, m)
}

func (p *pipe) cancel(id string) {
	fmt.Fprintf(p.in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"enough"}}`+"\n", id)
}

func newModernStdio(t testing.TB, tools ...saga.Definition) *server.Server {
	if tools == nil {
		tools = statelessTools()
	}
	s, err := server.New(server.Options{Questions: unasked, Keys: newKeys(t), Tools: tools, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return s
}

// The same rules as over HTTP, without headers and without initialize.
func TestStatelessStdio(t *testing.T) {
	s := newModernStdio(t)
	tests := []struct {
		name   string
		change func(*request)
		code   int
		want   string
	}{
		{"discover", func(q *request) { q.method = "server/discover" }, 0, `"supportedVersions":["2026-07-28"]`},
		{"list", func(q *request) { q.method = "tools/list" }, 0, `"resultType":"complete"`},
		{"unknown version", func(q *request) { q.meta[versionMeta] = "2099-01-01" }, -32022, `"data":{"supported":["2026-07-28"],"requested":"2099-01-01"}`},
		{"version with a handshake", func(q *request) { q.meta[versionMeta] = "2025-11-25" }, -32022, `"requested":"2025-11-25"`},
		{"no capabilities", func(q *request) { delete(q.meta, capabilitiesMeta) }, -32602, capabilitiesMeta},
		{"initialize", func(q *request) { q.method = "initialize" }, -32601, "method not found"},
		{"ping", func(q *request) { q.method = "ping" }, -32601, "method not found"},
		{"unknown level", func(q *request) { q.meta[logLevelMeta] = "loud" }, -32602, "logLevel"},
		{"missing capability", func(q *request) { *q = *callTool("ask_name", nil) }, -32021, `{"requiredCapabilities":{"elicitation":{"form":{}}}}`},
		{"params need no headers", func(q *request) { *q = *callTool("headers", object{"region": "eu"}) }, 0, "region=eu"},
		{"unknown resource", func(q *request) { *q = *modernRequest("resources/read", object{"uri": "test://x"}) }, -32602, `"uri":"test://x"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := modernRequest("tools/list", nil)
			test.change(q)
			got := lines(t, s, q.body()+"\n")
			require.Len(t, got, 1)
			m := parseMessage(t, got[0])
			assert.Equal(t, test.code, m.code(), m.raw)
			assert.Contains(t, m.raw, test.want)
			assert.Empty(t, m.Method, "never a request")
		})
	}
}

func TestStatelessStdioEightRounds(t *testing.T) {
	keys := newKeys(t)
	turn := func(q *request) modernResult { // each on another server
		s, err := server.New(server.Options{Keys: keys, Tools: statelessTools(), Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		got := lines(t, s, q.body()+"\n")
		require.Len(t, got, 1)
		return parseMessage(t, got[0]).result(t)
	}
	got := turn(callTool("rounds", nil).with(allCapabilities))
	rounds := 0
	for ; got.ResultType == "input_required"; rounds++ {
		responses := object{}
		for key := range got.InputRequests {
			responses[key] = accept("name", key)
		}
		got = turn(callTool("rounds", nil).with(allCapabilities).answering(got.RequestState, responses))
	}
	assert.Equal(t, 8, rounds)
	assert.Equal(t, "[q1 q2 q3 q4 q5 q6 q7 q8 q9]", got.text())
}

func TestStatelessStdioNotifications(t *testing.T) {
	q := callTool("progress", nil)
	q.meta["progressToken"] = "p"
	l := callTool("log", nil)
	l.id, l.meta[logLevelMeta] = 2, "warning"
	got := lines(t, newModernStdio(t), q.body()+"\n")
	require.Len(t, got, 4)
	assert.Contains(t, got[0], `"progressToken":"p","progress":0,"total":100`)
	assert.Contains(t, got[3], `"id":1,"result"`)
	got = lines(t, newModernStdio(t), l.body()+"\n")
	require.Len(t, got, 3)
	assert.Contains(t, got[0], `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"log","data":{"says":"warning"}}}`)
}

// A cancelled request is stopped and gets neither answer nor notification; others
// in flight are not touched.
func TestStatelessStdioCancellation(t *testing.T) {
	waits, entered, left := waiting()
	p := newPipe(t, newModernStdio(t, append(statelessTools(), waits)...))
	q := callTool("waits", nil)
	q.id, q.meta["progressToken"] = "w", 1
	p.send(q)
	assert.Equal(t, "notifications/progress", p.next().Method)
	<-entered
	other := callTool("hello", nil)
	p.send(other)
	assert.Equal(t, "1", string(p.next().ID), "many are in flight at once")
	p.cancel(`"nobody"`)
	p.cancel(`"w"`)
	assert.ErrorIs(t, <-left, context.Canceled)
	other.id = 2
	p.send(other)
	assert.Equal(t, "2", string(p.next().ID))
	p.in.Close()
	assert.NoError(t, <-p.ended)
	_, more := <-p.out
	assert.False(t, more)
}

// Subscriptions share the channel. Each gets its own copy, under its own id, and
// any number of them leaves requests their places.
func TestStatelessStdioListen(t *testing.T) {
	s := newModernStdio(t)
	p := newPipe(t, s)
	for _, id := range []any{1, "1"} {
		p.send(listenFor(id, object{"toolsListChanged": true}))
	}
	seen := map[string]int{}
	count := func(n int) {
		for range n {
			m := p.next()
			for _, id := range []string{`1`, `"1"`} {
				if strings.Contains(m.raw, `"`+subscriptionMeta+`":`+id) {
					seen[m.Method+" "+id]++
				}
			}
		}
	}
	count(2)
	s.ToolsChanged()
	count(2)
	assert.Equal(t, map[string]int{
		acknowledged + ` 1`: 1, acknowledged + ` "1"`: 1,
		`notifications/tools/list_changed 1`: 1, `notifications/tools/list_changed "1"`: 1,
	}, seen)

	again := listenFor(1, object{})
	p.send(again)
	assert.Equal(t, -32600, p.next().code(), "its id is taken")

	p.cancel("1")
	hello := callTool("hello", nil)
	hello.id = "sync"
	p.send(hello)
	assert.Equal(t, `"sync"`, string(p.next().ID), "nothing is said to the cancelled one")
	s.ToolsChanged()
	p.must(`"1"`, "notifications/tools/list_changed")
	p.send(listenFor(1, object{"promptsListChanged": true}))
	p.must("1", acknowledged)

	for i := range 100 {
		p.send(listenFor(100+i, object{}))
		p.must(fmt.Sprint(100+i), acknowledged)
		p.cancel(fmt.Sprint(100 + i))
	}
	for i := range 100 {
		p.send(listenFor(300+i, object{}))
		p.must(fmt.Sprint(300+i), acknowledged)
	}
	p.send(hello)
	assert.Equal(t, `"sync"`, string(p.next().ID), "subscriptions take no places of requests")

	// The end of the input is the end of all, with a goodbye for each.
	p.in.Close()
	goodbyes := 0
	for m := range p.out {
		if m.Result != nil {
			goodbyes++
			assert.Contains(t, m.raw, `"resultType":"complete"`)
			assert.Contains(t, m.raw, `"`+subscriptionMeta+`":`+string(m.ID)+`}`)
		} else {
			assert.Equal(t, "notifications/cancelled", m.Method)
		}
	}
	assert.Equal(t, 102, goodbyes)
	assert.NoError(t, <-p.ended)
}

func TestStatelessStdioListenEndsWithTheServer(t *testing.T) {
	s := newModernStdio(t)
	p := newPipe(t, s)
	p.send(listenFor("x", object{"toolsListChanged": true}))
	p.must(`"x"`, acknowledged)
	s.CloseStreams()
	p.must(`"x"`, "notifications/cancelled")
	assert.Equal(t, `"x"`, string(p.next().ID))
	p.send(listenFor("y", object{}))
	p.must(`"y"`, acknowledged)
	p.must(`"y"`, "notifications/cancelled")
	assert.Equal(t, `"y"`, string(p.next().ID))
}

// A listener whose client does not read does not keep the process from ending.
func TestStatelessStdioStuckClient(t *testing.T) {
	t.Parallel()
	in, write := io.Pipe()
	_, out := io.Pipe() // nobody reads
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- newModernStdio(t).ServeStdio(ctx, in, out) }()
	fmt.Fprintln(write, listenFor(1, object{"toolsListChanged": true}).body())
	time.Sleep(50 * time.Millisecond)
	stop()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("still serving")
	}
	out.CloseWithError(io.ErrClosedPipe) // lets the stuck write end
	write.Close()
}

// Bad lines between good ones do not matter in this era either.
func TestStatelessStdioBadLines(t *testing.T) {
	s := newModernStdio(t)
	for _, bad := range []string{"hello", "[]", `{"jsonrpc":"2.0","id":null,"method":"x"}`, strings.Repeat("x", 2<<20), `{"jsonrpc":"2.0","id":5,"result":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`} {
		var out bytes.Buffer
		require.NoError(t, s.ServeStdio(t.Context(), strings.NewReader(bad+"\n"+callTool("hello", nil).body()+"\n"), &out))
		assert.Contains(t, out.String(), "Hello!", "%.30s", bad)
	}
}

// Some clients write each slash as \/, which means the same.
func TestEscapedSlashes(t *testing.T) {
	s := new(seats)
	r := newRig(t, server.Options{Ledger: inMemory(t), Tools: []saga.Definition{s.tool()}})
	q := callTool("seat", nil).with(object{"elicitation": object{}})
	got := lines(t, r.srv, strings.ReplaceAll(q.body(), "/", `\/`)+"\n")
	require.Len(t, got, 1)
	assert.Equal(t, "input_required", parseMessage(t, got[0]).result(t).ResultType)
}
