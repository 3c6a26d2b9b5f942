package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// listening is an open subscription over HTTP.
type listening struct {
	*eventReader
	close func()
}

func listenFor(id any, filter object) *request {
	q := modernRequest("subscriptions/listen", object{"notifications": filter})
	q.id = id
	return q
}

func (r *rig) listen(q *request) *listening {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	resp, err := r.client().Do(r.httpRequest(ctx, q))
	require.NoError(r.t, err)
	require.Equal(r.t, 200, resp.StatusCode)
	require.Equal(r.t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.Equal(r.t, "no", resp.Header.Get("X-Accel-Buffering"))
	l := &listening{&eventReader{r.t, bufio.NewReader(resp.Body)}, func() {
		cancel()
		resp.Body.Close()
	}}
	r.t.Cleanup(l.close)
	return l
}

// must returns the next message, which must be of the subscription.
func (l *listening) must(id, method string) json.RawMessage {
	l.t.Helper()
	m, ok := l.next()
	require.True(l.t, ok, "the stream ended")
	require.Equal(l.t, method, m.Method, m.raw)
	requireSubscription(l.t, id, m)
	return m.Params
}

func requireSubscription(t testing.TB, id string, m rpcMessage) {
	t.Helper()
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	require.NoError(t, json.Unmarshal(m.Params, &p))
	require.Equal(t, id, string(p.Meta[subscriptionMeta]), "the id in the form in which it came: %s", m.raw)
}

const acknowledged = "notifications/subscriptions/acknowledged"

func TestListen(t *testing.T) {
	r := newModern(t)
	everything := object{
		"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
		"resourceSubscriptions": []string{"test://motto", "test://nope", "test://note/7"}, "taskIds": []string{"t"}, "unknown": true,
	}
	l := r.listen(listenFor(41, everything))
	assert.JSONEq(t, `{"_meta":{"`+subscriptionMeta+`":41},"notifications":{"toolsListChanged":true,"promptsListChanged":true,
		"resourcesListChanged":true,"resourceSubscriptions":["test://motto","test://note/7"]}}`, string(l.must("41", acknowledged)))
	r.srv.ToolsChanged()
	l.must("41", "notifications/tools/list_changed")
	r.srv.PromptsChanged()
	l.must("41", "notifications/prompts/list_changed")
	r.srv.ResourceUpdated("test://blob") // nobody asked
	r.srv.ResourcesChanged()
	l.must("41", "notifications/resources/list_changed")
	r.srv.ResourceUpdated("test://note/7")
	assert.JSONEq(t, `{"_meta":{"`+subscriptionMeta+`":41},"uri":"test://note/7"}`, string(l.must("41", "notifications/resources/updated")))
}

// Two listeners to the same, one to something else, with ids of every form.
func TestListenTwice(t *testing.T) {
	r := newModern(t)
	ids := map[string]any{`"a"`: "a", `7`: 7, `"7"`: "7", `-1`: -1}
	all := map[string]*listening{}
	for raw, id := range ids {
		all[raw] = r.listen(listenFor(id, object{"toolsListChanged": true}))
		all[raw].must(raw, acknowledged)
	}
	prompts := r.listen(listenFor(1, object{"promptsListChanged": true}))
	prompts.must("1", acknowledged)
	nothing := r.listen(listenFor(2, object{}))
	assert.JSONEq(t, `{"_meta":{"`+subscriptionMeta+`":2},"notifications":{}}`, string(nothing.must("2", acknowledged)))
	r.srv.ToolsChanged()
	for raw, l := range all {
		l.must(raw, "notifications/tools/list_changed")
	}
	r.srv.PromptsChanged()
	prompts.must("1", "notifications/prompts/list_changed")
}

// The first message is the acknowledgement, and what changes right after it, or
// even before, is not lost.
func TestListenLosesNothing(t *testing.T) {
	r := newModern(t)
	for range 50 {
		stop := make(chan bool)
		stopped := make(chan bool)
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					r.srv.ToolsChanged()
				}
			}
		}()
		l := r.listen(listenFor(1, object{"toolsListChanged": true}))
		l.must("1", acknowledged)
		close(stop)
		<-stopped
		r.srv.ToolsChanged()
		l.must("1", "notifications/tools/list_changed")
		l.close()
	}
}

// A tool's change is heard by listeners; its progress and its log are not.
func TestListenHearsOnlyChanges(t *testing.T) {
	var srv *server.Server
	change := tool("change", func(t *plain) (saga.Next, error) {
		t.Log(slog.Level(20), "no")
		t.Progress(1, 1, "no")
		srv.ToolsChanged()
		return t.Textf("changed")
	})
	r := newRig(t, server.Options{Tools: []saga.Definition{change}})
	srv = r.srv
	q := listenFor(1, object{"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": []string{"test://motto"}})
	q.meta[logLevelMeta], q.meta["progressToken"] = "debug", 9
	l := r.listen(q)
	assert.JSONEq(t, `{"_meta":{"`+subscriptionMeta+`":1},"notifications":{"toolsListChanged":true}}`, string(l.must("1", acknowledged)), "only what is served")
	call := callTool("change", nil)
	call.meta[logLevelMeta], call.meta["progressToken"] = "debug", 9
	assert.Equal(t, []string{"notifications/message", "notifications/progress"}, r.send(call).methods())
	l.must("1", "notifications/tools/list_changed")
}

func TestListenRefusals(t *testing.T) {
	r := newModern(t)
	for _, bad := range []any{nil, 7, []int{}, object{"toolsListChanged": "yes"}, object{"resourceSubscriptions": "x"}, object{"resourceSubscriptions": make([]string, 1001)}} {
		q := modernRequest("subscriptions/listen", nil)
		if bad != nil {
			q.params["notifications"] = bad
		}
		got := r.send(q)
		assert.Equal(t, 400, got.status)
		assert.Equal(t, -32602, got.code(), got.raw)
	}
}

func TestListenKeepsAlive(t *testing.T) {
	s, err := server.New(server.Options{Keys: newKeys(t), Tools: statelessTools()})
	require.NoError(t, err)
	server.SetKeepAlive(s, 10*time.Millisecond)
	url, _ := serve(t, s)
	r := &rig{t: t, url: url, srv: s}
	resp, err := r.client().Do(r.httpRequest(t.Context(), listenFor(1, object{"toolsListChanged": true})))
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	comments := 0
	for comments < 3 && lines.Scan() {
		if strings.HasPrefix(lines.Text(), ":") {
			comments++
		}
	}
	assert.Equal(t, 3, comments)
}

// A server that stops says goodbye to its listeners, in both of the ways that the
// specification asks for, and does not wait for them.
func TestListenEndsWithTheServer(t *testing.T) {
	t.Parallel()
	s, err := server.New(server.Options{Keys: newKeys(t), Tools: statelessTools()})
	require.NoError(t, err)
	url, stop := serve(t, s)
	r := &rig{t: t, url: url, srv: s}
	var open []*listening
	for i := range 5 {
		l := r.listen(listenFor(i, object{"toolsListChanged": true}))
		l.must(fmt.Sprint(i), acknowledged)
		open = append(open, l)
	}
	s.ToolsChanged()
	start := time.Now()
	require.NoError(t, stop())
	assert.Less(t, time.Since(start), 5*time.Second)
	for i, l := range open {
		id := fmt.Sprint(i)
		l.must(id, "notifications/tools/list_changed")
		assert.JSONEq(t, `{"_meta":{"`+subscriptionMeta+`":`+id+`},"requestId":`+id+`}`, string(l.must(id, "notifications/cancelled")))
		m, ok := l.next()
		require.True(t, ok)
		assert.Equal(t, id, string(m.ID))
		result := m.result(t)
		assert.Equal(t, "complete", result.ResultType)
		assert.Equal(t, id, string(result.Meta[subscriptionMeta]))
		assert.Contains(t, result.Meta, "io.modelcontextprotocol/serverInfo")
		_, more := l.next()
		assert.False(t, more, "the response is the last message")
	}
}

// Streams have a limit, and one that is closed makes room.
func TestListenLimit(t *testing.T) {
	r := newModern(t)
	var open []*listening
	for i := range 1024 {
		l := r.listen(listenFor(i, object{}))
		l.must(fmt.Sprint(i), acknowledged)
		open = append(open, l)
	}
	got := r.send(listenFor(1, object{}))
	assert.Equal(t, 503, got.status)
	assert.Equal(t, "1", got.header.Get("Retry-After"))
	assert.Equal(t, -32603, got.code())
	assert.Equal(t, 200, r.send(callTool("hello", nil)).status, "other requests are served")
	open[0].close()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		resp, err := r.client().Do(r.httpRequest(ctx, listenFor(1, object{})))
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		if resp.StatusCode != 200 {
			io.Copy(io.Discard, resp.Body)
		}
		return resp.StatusCode == 200
	}, time.Minute, 10*time.Millisecond)
	for _, l := range open {
		l.close()
	}
}

// One caller cannot take all streams: not a principal, and not somebody without
// credentials who can be told from others.
func TestListenLimitOfOneCaller(t *testing.T) {
	options := server.Options{Tools: statelessTools(), MaxStreams: 5, MaxStreamsPerPrincipal: 3}
	from := func(name string) func(*request) *request {
		return func(q *request) *request {
			q.header.Set("Test-User", name)
			return q
		}
	}
	for name, distinguish := range map[string]func(*server.Options){
		"principals": func(o *server.Options) {
			o.Authenticate = func(r *http.Request) (saga.Caller, error) {
				return saga.Caller{Subject: r.Header.Get("Test-User")}, nil
			}
		},
		"anonymous": func(o *server.Options) {
			o.CallerKey = func(r *http.Request) string { return r.Header.Get("Test-User") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := options
			distinguish(&o)
			r := newRig(t, o)
			ann, bob := from("ann"), from("bob")
			var open []*listening
			for i := range 3 {
				l := r.listen(ann(listenFor(i, object{})))
				l.must(fmt.Sprint(i), acknowledged)
				open = append(open, l)
			}
			got := r.send(ann(listenFor(9, object{})))
			assert.Equal(t, 429, got.status)
			assert.Equal(t, -32600, got.code())
			assert.Contains(t, got.raw, "this caller has too many subscriptions open")
			for i := range 2 {
				l := r.listen(bob(listenFor(i, object{})))
				l.must(fmt.Sprint(i), acknowledged)
				open = append(open, l)
			}
			assert.Equal(t, 503, r.send(bob(listenFor(9, object{}))).status, "there is a limit for all as well")
			open[0].close()
			until(t, func() bool {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				resp, err := r.client().Do(r.httpRequest(ctx, ann(listenFor(1, object{}))))
				require.NoError(t, err)
				defer resp.Body.Close()
				if resp.StatusCode != 200 {
					io.Copy(io.Discard, resp.Body)
				}
				return resp.StatusCode == 200
			})
			for _, l := range open {
				l.close()
			}
		})
	}
}

// A subscription holds its URIs for as long as it lasts: they have a limit altogether,
// and each is held once.
func TestListenURIsAreBounded(t *testing.T) {
	r := newModern(t)
	uris := func(n int) object {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("test://note/%0988d", i))
		}
		return object{"resourceSubscriptions": all}
	}
	l := r.listen(listenFor(1, uris(131))) // 131 000 bytes
	l.must("1", acknowledged)
	got := r.send(listenFor(1, uris(132)))
	assert.Equal(t, 400, got.status)
	assert.Contains(t, got.raw, "too many URIs: 1000 with 131072 bytes altogether may be there")
	short := func(n int) object {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("test://note/%d", i))
		}
		return object{"resourceSubscriptions": all}
	}
	r.listen(listenFor(3, short(1000))).must("3", acknowledged)
	assert.Contains(t, r.send(listenFor(4, short(1001))).raw, "too many URIs: 1000 with")
	twice := r.listen(listenFor(2, object{"resourceSubscriptions": []string{"test://note/1", "test://note/1"}}))
	assert.Contains(t, string(twice.must("2", acknowledged)), `"resourceSubscriptions":["test://note/1"]`)

	c := r.connect("2025-11-25", "{}")
	subscribe := func(i int) string {
		return c.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://note/%0988d"}}`, i))
	}
	for i := range 131 {
		require.Contains(t, subscribe(i), `"result"`)
	}
	assert.Contains(t, subscribe(131), "too many subscriptions")
	assert.Contains(t, subscribe(7), `"result"`, "one that is there already needs no room")
	assert.Contains(t, c.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"test://note/%0988d"}}`, 7)), `"result"`)
	assert.Contains(t, subscribe(131), `"result"`)

	c = r.connect("2025-11-25", "{}")
	for i := range 1001 {
		got := c.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://note/%d"}}`, i))
		require.Equal(t, i < 1000, strings.Contains(got, `"result"`), "%d: %s", i, got)
	}
}
