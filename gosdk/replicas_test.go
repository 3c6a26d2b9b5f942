package gosdk_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// balanced is three SDK servers with the same keys and ledger behind an address. Requests go to
// each in turn; took returns how many each has had since the last call.
func balanced(t *testing.T, sagas ...saga.Definition) (address string, took func() []int) {
	t.Helper()
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	keys := newKeys(t)
	var to []*url.URL
	for range 3 {
		u, err := url.Parse(mount(t, gosdk.Options{Keys: keys, Ledger: store}, sagas...).serve())
		require.NoError(t, err)
		to = append(to, u)
	}
	var n atomic.Int64
	var taken [3]atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one := int(n.Add(1)) % 3
		taken[one].Add(1)
		p := &httputil.ReverseProxy{FlushInterval: -1, Transport: httpClient.Transport, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to[one]) },
			ErrorHandler: func(http.ResponseWriter, *http.Request, error) {}}
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	return front.URL, func() (counts []int) {
		for i := range taken {
			counts = append(counts, int(taken[i].Swap(0)))
		}
		return counts
	}
}

// Behind a load balancer that knows no sessions, what needs none works on SDK servers:
// the saga methods, MCP 2026-07-28, and its tasks.
func TestReplicasWithoutSessions(t *testing.T) {
	address, took := balanced(t, talk(3), later(saga.TasksRequired))
	t.Run("the saga proposal", func(t *testing.T) {
		send := func(method string, params object) jsontest.Value {
			status, _, body := post(t, httpClient, address, message(1, method, params))
			require.Equal(t, http.StatusOK, status, body)
			return last(body)
		}
		r := send("tools/callSaga", object{"name": "talk"})
		for _, word := range []string{"a", "b", "c"} {
			step := r.Get("result.steps.0.stepId").String()
			require.NotEmpty(t, step, r.Raw)
			r = send("tools/resumeSaga", object{"sagaToken": r.Get("result.sagaToken").String(), "completedSteps": []object{
				{"stepId": step, "result": object{"action": "accept", "content": object{"word": word}}}}})
		}
		assert.Contains(t, r.Raw, "a b c")
		assert.NotContains(t, took(), 0)
	})
	modernRequest := func(t *testing.T, method, name string, params, capabilities object) jsontest.Value {
		status, _, body := post(t, httpClient, address, message(1, method, withMeta(params, meta(capabilities))),
			"MCP-Protocol-Version", modern, "Mcp-Method", method, "Mcp-Name", name)
		require.Equal(t, http.StatusOK, status, body)
		return last(body)
	}
	t.Run("MCP 2026-07-28", func(t *testing.T) {
		h := &host{t: t}
		words := []string{"a", "b", "c"}
		cs := h.connectHTTP(address, modern, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			word := words[0]
			words = words[1:]
			return &mcp.ElicitResult{Action: "accept", Content: object{"word": word}}, nil
		}})
		r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "talk"})
		require.NoError(t, err)
		assert.Equal(t, "a b c", text(t, r))
		assert.NotContains(t, took(), 0)
	})
	t.Run("tasks", func(t *testing.T) {
		task := modernRequest(t, "tools/call", "later", object{"name": "later"}, withTasks).Get("result.taskId").String()
		require.NotEmpty(t, task)
		status := func() string {
			return modernRequest(t, "tasks/get", task, object{"taskId": task}, withTasks).Get("result.status").String()
		}
		require.Eventually(t, func() bool { return status() == "input_required" }, time.Minute, 10*time.Millisecond)
		modernRequest(t, "tasks/update", task, object{"taskId": task, "inputResponses": object{"agreed": object{"action": "accept", "content": object{"agreed": true}}}}, withTasks)
		require.Eventually(t, func() bool { return status() == "completed" }, time.Minute, 10*time.Millisecond)
		assert.NotContains(t, took(), 0)
	})
}

// What the SDK keeps of a session is in one process: elsewhere there is no such session. So
// older clients fail at the first request that another replica gets.
func TestReplicasLoseSessionsOfTheSDK(t *testing.T) {
	address, _ := balanced(t, talk(1))
	status, header, body := post(t, httpClient, address, initialization)
	require.Equal(t, http.StatusOK, status, body)
	session := header.Get("Mcp-Session-Id")
	require.NotEmpty(t, session)
	for range 2 { // those that have not opened it
		status, _, body = post(t, httpClient, address, message(nil, "notifications/initialized", nil), "Mcp-Session-Id", session)
		assert.Equal(t, http.StatusNotFound, status)
		assert.Contains(t, body, "session not found")
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil)
	_, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: address, MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: legacy})
	assert.Error(t, err)
}

const initialization = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`

// With Stateless the SDK needs no sessions, and older clients are served by any replica: but
// none can be asked.
func TestStatelessReplicasOfTheSDKAskNobody(t *testing.T) {
	h := mount(t, gosdk.Options{Questions: server.Questions{NoRelay: true}}, talk(1), greeting())
	address := h.serveHandler(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return h.sdk }, &mcp.StreamableHTTPOptions{Stateless: true}))
	status, header, body := post(t, httpClient, address, initialization)
	require.Equal(t, http.StatusOK, status, body)
	session := header.Get("Mcp-Session-Id")
	call := func(name string) jsontest.Value {
		headers := []string{"Mcp-Protocol-Version", legacy}
		if session != "" {
			headers = append(headers, "Mcp-Session-Id", session)
		}
		status, _, body := post(t, httpClient, address, message(2, "tools/call", object{"name": name}), headers...)
		require.Equal(t, http.StatusOK, status, body)
		return last(body)
	}
	assert.Equal(t, "Hello.", call("greeting").Get("result.content.0.text").String())
	r := call("talk")
	assert.True(t, r.Get("result.isError").Bool(), r.Raw)
	assert.Contains(t, r.Get("result.content.0.text").String(), "this client has not declared elicitation.form")
}

// greeting asks nothing.
func greeting() saga.Definition {
	return saga.Flow[none, string]{Info: saga.Info{Name: "greeting"}, Run: func(*saga.Run, none) (string, error) { return "Hello.", nil }}
}
