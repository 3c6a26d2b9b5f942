package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

const pingMessage = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func TestHTTPRefusals(t *testing.T) {
	r := newRig(t, server.Options{MaxBody: 1000, AllowedHosts: []string{"saga.example"}, AllowedOrigins: []string{"https://app.example"}})
	header := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	host := func(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }
	tests := []struct {
		name, method, body string
		change             func(*http.Request)
		status             int
		want               string
	}{
		{"own host", "POST", pingMessage, nil, 200, `"result":{}`},
		{"localhost", "POST", pingMessage, host("localhost:99"), 200, `"result":{}`},
		{"loopback of IPv6", "POST", pingMessage, host("[::1]:99"), 200, `"result":{}`},
		{"allowed host", "POST", pingMessage, host("Saga.Example:443"), 200, `"result":{}`},
		{"foreign host", "POST", pingMessage, host("evil.example"), 403, "host not allowed"},
		{"host that begins well", "POST", pingMessage, host("localhost.evil.example"), 403, "host not allowed"},
		{"allowed origin", "POST", pingMessage, header("Origin", "https://app.example"), 200, `"result":{}`},
		{"local origin", "POST", pingMessage, header("Origin", "http://localhost:5173"), 200, `"result":{}`},
		{"foreign origin", "POST", pingMessage, header("Origin", "https://evil.example"), 403, "origin not allowed"},
		{"origin with another scheme", "POST", pingMessage, header("Origin", "http://app.example"), 403, "origin not allowed"},
		{"origin null", "POST", pingMessage, header("Origin", "null"), 403, "origin not allowed"},
		{"empty origin", "POST", pingMessage, header("Origin", ""), 403, "origin not allowed"},
		{"two origins", "POST", pingMessage, header("Origin", "https://app.example", "https://evil.example"), 403, "origin not allowed"},
		{"foreign origin on GET", "GET", "", header("Origin", "https://evil.example"), 403, "origin not allowed"},
		{"GET", "GET", "", nil, 405, "only POST"},
		{"DELETE", "DELETE", "", nil, 405, "only POST"},
		{"charset is fine", "POST", pingMessage, header("Content-Type", "application/json; charset=utf-8"), 200, `"result":{}`},
		{"no content type", "POST", pingMessage, header("Content-Type"), 415, "application/json"},
		{"form", "POST", pingMessage, header("Content-Type", "application/x-www-form-urlencoded"), 415, "application/json"},
		{"text (no preflight by browsers)", "POST", pingMessage, header("Content-Type", "text/plain"), 415, "application/json"},
		{"too large", "POST", strings.Repeat(" ", 1001), nil, 413, "too large"},
		{"empty", "POST", "", nil, 400, `"code":-32700`},
		{"not JSON", "POST", "{", nil, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700`},
		{"invalid UTF-8", "POST", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", nil, 400, `"code":-32700`},
		{"two messages", "POST", pingMessage + pingMessage, nil, 400, `"code":-32700`},
		{"a name twice", "POST", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, nil, 400, "twice"},
		{"batch", "POST", "[" + pingMessage + "]", nil, 400, "batches are not supported"},
		{"number", "POST", "7", nil, 400, `"code":-32600`},
		{"null", "POST", "null", nil, 400, `"code":-32600`},
		{"wrong version", "POST", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, nil, 400, `"id":1,"error":{"code":-32600`},
		{"no version", "POST", `{"id":1,"method":"ping"}`, nil, 400, `"code":-32600`},
		{"id null", "POST", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 400, "the id must be"},
		{"id a fraction", "POST", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, nil, 400, "the id must be"},
		{"id an object", "POST", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, nil, 400, "the id must be"},
		{"id too large", "POST", `{"jsonrpc":"2.0","id":9223372036854775808,"method":"ping"}`, nil, 400, "the id must be"},
		{"no method", "POST", `{"jsonrpc":"2.0","id":1}`, nil, 400, `\"method\" must be a string`},
		{"method not a string", "POST", `{"jsonrpc":"2.0","id":1,"method":7}`, nil, 400, `\"method\" must be a string`},
		{"params an array", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, nil, 400, `\"params\" must be an object`},
		{"a response", "POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, 400, "needs a session"},
		{"notification", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 202, ""},
		{"method names are case-sensitive", "POST", `{"jsonrpc":"2.0","id":1,"method":"Ping"}`, nil, 200, `"code":-32601`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status, body := r.do(test.method, "/mcp", test.body, test.change)
			assert.Equal(t, test.status, status, body)
			if test.want == "" {
				assert.Empty(t, body)
			} else {
				assert.Contains(t, body, test.want)
			}
		})
	}
	status, _ := r.do("POST", "/", pingMessage, nil)
	assert.Equal(t, 404, status)
}

func TestAuthentication(t *testing.T) {
	r := newRig(t, server.Options{Authenticate: func(*http.Request) (saga.Caller, error) {
		return saga.Caller{}, errors.New("token from 1999")
	}})
	status, body := r.do("POST", "/mcp", pingMessage, nil)
	assert.Equal(t, 401, status)
	assert.NotContains(t, body, "1999")
	assert.Contains(t, r.log.take(), "1999")
}

func TestPrincipalsAreNotConfused(t *testing.T) {
	keys := newKeys(t)
	as := func(p saga.Caller) *rig {
		return newRig(t, server.Options{Keys: keys, Authenticate: func(*http.Request) (saga.Caller, error) { return p, nil }})
	}
	people := []saga.Caller{{}, {Issuer: "a", Subject: "bc"}, {Issuer: "ab", Subject: "c"}, {Subject: "abc"}, {Issuer: "a", Subject: "b", Client: "c"},
		// Each differs from the last by one field only.
		{Issuer: "a", Subject: "b", Client: "d"}, {Issuer: "a", Subject: "c", Client: "d"}, {Issuer: "b", Subject: "c", Client: "d"}}
	for i, owner := range people {
		token := as(owner).firstToken()
		for j, user := range people {
			assert.Equal(t, i != j, as(user).resume(token) == refusal, "%+v used by %+v", owner, user)
		}
	}
}

func TestGracefulStop(t *testing.T) {
	t.Parallel()
	type none struct{}
	entered, leave := make(chan bool), make(chan bool)
	tool := saga.Machine[none, none]{Info: saga.Info{Name: "slow"}, Start: func(t *saga.Turn[none, none]) (saga.Next, error) {
		entered <- true
		<-leave
		return t.Textf("done")
	}}
	s, err := server.New(server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool}})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()

	body := make(chan string, 1)
	go func() {
		resp, err := http.Post("http://"+l.Addr().String()+"/mcp", "application/json",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"slow"}}`))
		if err != nil {
			body <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		body <- string(b)
	}()
	<-entered
	stop()
	select {
	case err := <-ended:
		t.Fatalf("the server stopped with a turn under way: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	leave <- true
	assert.Contains(t, <-body, "done")
	assert.NoError(t, <-ended)
	_, err = net.Dial("tcp", l.Addr().String())
	assert.Error(t, err, "the port is free again")
}

func TestHealth(t *testing.T) {
	r := newRig(t, server.Options{})
	status, body := r.do("GET", "/healthz", "", nil)
	assert.Equal(t, 200, status)
	assert.Equal(t, `{"status":"ok"}`, body)
	status, body = r.do("GET", "/readyz", "", nil)
	assert.Equal(t, 200, status)
	assert.Regexp(t, `^\{"status":"ready","keys":\[\{"id":"[0-9a-f]{8}","primary":true\}\]\}$`, body)
	status, _ = r.do("POST", "/healthz", "", nil)
	assert.Equal(t, 405, status)
}

// A client that sends its request a byte at a time holds up nobody else.
func TestSlowClientsDoNotBlock(t *testing.T) {
	t.Parallel()
	r := newRig(t, server.Options{})
	addr := strings.TrimPrefix(r.url, "http://")
	for range 100 {
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Write([]byte("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 500000\r\n\r\n{"))
		require.NoError(t, err)
	}
	start := time.Now()
	assert.Contains(t, r.post(pingMessage), `"result":{}`)
	assert.Less(t, time.Since(start), 5*time.Second)
}
