package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// methods lists what came before the response.
func (r response) methods() []string {
	var m []string
	for _, b := range r.before {
		m = append(m, b.Method)
	}
	return m
}

func TestStatelessProgress(t *testing.T) {
	r := newModern(t)
	quiet := r.send(callTool("progress", nil))
	assert.Equal(t, "application/json", quiet.header.Get("Content-Type"), "nobody asked for progress")

	for _, token := range []any{"p1", 7, -1, ""} {
		q := callTool("progress", nil)
		q.meta["progressToken"] = token
		got := r.send(q)
		assert.Equal(t, 200, got.status)
		assert.Equal(t, "text/event-stream", got.header.Get("Content-Type"))
		assert.Equal(t, "no", got.header.Get("X-Accel-Buffering"))
		assert.Equal(t, "no-cache, no-store", got.header.Get("Cache-Control"))
		assert.Equal(t, "done", got.result(t).text())
		raw, err := json.Marshal(token)
		require.NoError(t, err)
		var all []float64
		for _, m := range got.before {
			assert.Equal(t, "notifications/progress", m.Method)
			assert.Nil(t, m.ID, "never a request")
			var p struct {
				ProgressToken   json.RawMessage
				Progress, Total float64
			}
			require.NoError(t, json.Unmarshal(m.Params, &p))
			assert.Equal(t, string(raw), string(p.ProgressToken), "as it came")
			assert.Equal(t, 100.0, p.Total)
			all = append(all, p.Progress)
		}
		assert.Equal(t, []float64{0, 50, 100}, all, "it only grows")
	}
}

// A tool that reports without end does not flood its client.
func TestStatelessProgressRate(t *testing.T) {
	const n = 100_000
	busy := tool("busy", func(t *plain) (saga.Next, error) {
		for i := range n + 1 {
			t.Progress(float64(i), n, "")
		}
		return t.Textf("done")
	})
	r := newRig(t, server.Options{Tools: []saga.Definition{busy}})
	q := callTool("busy", nil)
	q.meta["progressToken"] = 1
	got := r.send(q)
	assert.Less(t, len(got.before), 1000)
	assert.Contains(t, got.before[len(got.before)-1].raw, `"progress":100000,`)
}

func TestStatelessLogging(t *testing.T) {
	r := newModern(t)
	levels := []string{"debug", "info", "warning", "emergency"}
	tests := []struct {
		level string
		want  []string
	}{
		{"", nil}, {"debug", levels}, {"info", levels[1:]}, {"notice", levels[2:]}, {"warning", levels[2:]},
		{"error", levels[3:]}, {"critical", levels[3:]}, {"alert", levels[3:]}, {"emergency", levels[3:]},
	}
	for _, test := range tests {
		q := callTool("log", nil)
		if test.level != "" {
			q.meta[logLevelMeta] = test.level
		}
		got := r.send(q)
		var said []string
		for _, m := range got.before {
			assert.Equal(t, "notifications/message", m.Method)
			var p struct {
				Level, Logger string
				Data          struct{ Says string }
			}
			require.NoError(t, json.Unmarshal(m.Params, &p))
			assert.Equal(t, p.Level, p.Data.Says)
			assert.Equal(t, "log", p.Logger)
			said = append(said, p.Level)
		}
		assert.Equal(t, test.want, said, test.level)
		assert.Equal(t, "logged", got.result(t).text())
	}
}

// What a tool says after its answer, or after its client went, goes nowhere.
func TestStatelessSilenceAfterTheAnswer(t *testing.T) {
	var late sync.WaitGroup
	chatty := tool("chatty", func(t *plain) (saga.Next, error) {
		turn := *t
		late.Go(func() {
			for i := range 1000 {
				turn.Log(slog.LevelError, i)
				turn.Progress(float64(i), 0, "late")
			}
		})
		return t.Textf("done")
	})
	r := newRig(t, server.Options{Tools: []saga.Definition{chatty}})
	q := callTool("chatty", nil)
	q.meta["progressToken"], q.meta[logLevelMeta] = 1, "debug"
	for range 20 {
		assert.Equal(t, "done", r.send(q).result(t).text(), "the response is the last message")
	}
	late.Wait()
}

// A client that takes no event streams gets the response alone.
func TestStatelessAcceptsJSONOnly(t *testing.T) {
	r := newModern(t)
	q := callTool("progress", nil)
	q.meta["progressToken"] = 1
	q.header.Set("Accept", "application/json")
	got := r.send(q)
	assert.Equal(t, "application/json", got.header.Get("Content-Type"))
	assert.Equal(t, "done", got.result(t).text())
	q = modernRequest("subscriptions/listen", object{"notifications": object{"toolsListChanged": true}})
	q.header.Set("Accept", "application/json")
	assert.Equal(t, 406, r.send(q).status)
	q.header.Set("Accept", "*/*")
	q.header.Del("Accept")
}

// An error that comes after a notification comes on the stream; one that comes
// before has its own status, though notifications were asked for.
func TestStatelessLateErrors(t *testing.T) {
	early := asking("early", all(askName), askName)
	lateError := asking("late", func(t *plain) []steps.Request {
		t.Log(slog.LevelInfo, "before")
		return []steps.Request{askName}
	}, askName)
	r := newRig(t, server.Options{Questions: unasked, Tools: []saga.Definition{early, lateError}})
	for _, name := range []string{"early", "late"} {
		q := callTool(name, nil)
		q.meta[logLevelMeta] = "debug"
		got := r.send(q)
		assert.Equal(t, -32021, got.code())
		assert.Equal(t, map[string]int{"early": 400, "late": 200}[name], got.status)
	}
}

// waiting is a tool that waits to be cancelled, and says that it was.
func waiting() (saga.Definition, chan bool, chan error) {
	entered, left := make(chan bool, 10), make(chan error, 10)
	return tool("waits", func(t *plain) (saga.Next, error) {
		t.Progress(1, 2, "")
		entered <- true
		<-t.Done()
		left <- t.Err()
		return nil, t.Err()
	}), entered, left
}

// leave sends a request, and goes away once the tool was entered. It returns how the exchange has ended.
func (r *rig) leave(q *request, streaming bool, entered <-chan bool) error {
	if streaming {
		q.meta["progressToken"] = 1
	}
	ctx, disconnect := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	req := r.httpRequest(ctx, q)
	go func() {
		resp, err := r.client().Do(req)
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		done <- err
	}()
	<-entered
	disconnect()
	return <-done
}

func TestStatelessDisconnectCancels(t *testing.T) {
	waits, entered, left := waiting()
	r := newRig(t, server.Options{Tools: []saga.Definition{waits}})
	for _, streaming := range []bool{false, true} {
		assert.Error(t, r.leave(callTool("waits", nil), streaming, entered))
		assert.ErrorIs(t, <-left, context.Canceled)
	}
	// A cancellation that is POSTed is taken note of, and cancels nothing.
	status, body := r.do("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		func(q *http.Request) { q.Header.Set("Mcp-Protocol-Version", "2026-07-28") })
	assert.Equal(t, 202, status)
	assert.Empty(t, body)
}

// Progress does not extend the time that a turn has.
func TestStatelessTurnTimeout(t *testing.T) {
	ticks := tool("ticks", func(t *plain) (saga.Next, error) {
		for i := 0; ; i++ {
			t.Progress(float64(i), 0, "")
			select {
			case <-t.Done():
				return nil, t.Err()
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	r := newRig(t, server.Options{Tools: []saga.Definition{ticks}, TurnTimeout: 50 * time.Millisecond})
	q := callTool("ticks", nil)
	q.meta["progressToken"] = 1
	got := r.send(q)
	assert.Equal(t, -32603, got.code())
	assert.Contains(t, got.raw, "too long")
}

// serve runs a server as an operator would, with all its timeouts.
func serve(t *testing.T, s *server.Server) (url string, stop func() error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	return "http://" + l.Addr().String(), stop
}

// The time to read a request is not the time to answer it.
func TestTurnsOutliveTheReadTimeout(t *testing.T) {
	inAnyTime(t, func(t *testing.T) {
		const limit = 2 * time.Second
		slow := tool("slow", func(t *plain) (saga.Next, error) {
			select {
			case <-t.Done():
				return nil, t.Err()
			case <-time.After(limit + limit/4):
				return t.Textf("done")
			}
		})
		r := newRig(t, server.Options{Tools: []saga.Definition{slow}}, func(web *http.Server) {
			web.ReadTimeout, web.IdleTimeout = limit, time.Minute
		})
		assert.Equal(t, "done", r.send(callTool("slow", nil)).result(t).text())
		assert.Contains(t, r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"slow"}}`), "done")
	})
}

// Nor is the time to write a response that of a stream.
func TestStreamsOutliveTheTimeouts(t *testing.T) {
	inAnyTime(t, func(t *testing.T) {
		const limit = 2 * time.Second
		r := newRig(t, server.Options{Tools: statelessTools()}, func(web *http.Server) {
			web.ReadTimeout, web.WriteTimeout, web.IdleTimeout = limit, limit, limit
		})
		l := r.listen(listenFor(1, object{"toolsListChanged": true}))
		l.must("1", acknowledged)
		for range 2 {
			time.Sleep(limit + limit/4)
			r.srv.ToolsChanged()
			l.must("1", "notifications/tools/list_changed")
		}
		l.close()
	})
}

// Clients that send a byte now and then take connections, not the server.
func TestStatelessSlowSenders(t *testing.T) {
	t.Parallel()
	n := 1000
	if testing.Short() {
		n = 100
	}
	s, err := server.New(server.Options{Keys: newKeys(t), Tools: statelessTools()})
	require.NoError(t, err)
	url, _ := serve(t, s)
	addr := strings.TrimPrefix(url, "http://")
	begin := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\n"
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i], err = net.Dial("tcp", addr)
		require.NoError(t, err)
		defer conns[i].Close()
		text := begin
		if i%2 == 0 { // half of them are in the body already
			text += "Content-Length: 500000\r\n\r\n{"
		}
		_, err = io.WriteString(conns[i], text)
		require.NoError(t, err)
	}
	r := &rig{t: t, url: url, srv: s}
	for round := range 3 {
		time.Sleep(200 * time.Millisecond)
		for i, c := range conns {
			// Inside a header's name, or inside the JSON's white space.
			c.Write([]byte{"X "[(i+1)%2]})
		}
		for range 20 {
			start := time.Now()
			assert.Equal(t, "Hello!", r.send(callTool("hello", nil)).result(t).text())
			assert.Less(t, time.Since(start), 5*time.Second, "round %d", round)
		}
	}
}

// A client that does not read its stream is given up, and its tool with it.
func TestStatelessSlowReader(t *testing.T) {
	t.Parallel()
	left := make(chan error, 1)
	floods := tool("floods", func(t *plain) (saga.Next, error) {
		big := strings.Repeat("x", 1<<20)
		for t.Err() == nil {
			t.Log(slog.LevelError, big)
		}
		left <- t.Err()
		return nil, t.Err()
	})
	r := newRig(t, server.Options{Tools: []saga.Definition{floods}})
	server.SetEventTimeout(r.srv, time.Second)
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	q := callTool("floods", nil)
	q.meta[logLevelMeta] = "debug"
	body := q.body()
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: floods\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	_, err = bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	select {
	case err := <-left:
		assert.ErrorIs(t, err, context.Canceled)
	case <-time.After(time.Minute):
		t.Fatal("the tool still writes to a client that does not read")
	}
}
