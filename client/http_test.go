package client_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/internal/memoryhttp"
	"github.com/mcpsaga/mcpsaga/internal/porttest"
)

func TestResumeIsRepeatedAfterALoss(t *testing.T) {
	t.Parallel()
	half := func(w http.ResponseWriter, _ asked) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"jsonrpc":`))
	}
	for name, loss := range map[string]reply{
		"connection cut":      cut,
		"response cut":        half,
		"bad gateway":         body(502, "text/html", "<html>"),
		"service unavailable": body(503, "text/plain", ""),
		"gateway timeout":     body(504, "", ""),
		"too many requests":   body(429, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"slow down"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, result(askTarget), loss, loss, result(deployed))
			var who people
			_, err := s.client(t).Call(t.Context(), "complex_tool", nil, who.handlers())
			require.NoError(t, err)
			assert.Equal(t, 1, who.elicited, "an answered step is not asked again")
			require.Len(t, s.got(), 4)
			assert.Equal(t, string(s.got()[1].Params), string(s.got()[3].Params), "the same turn")
		})
	}
}

func TestCallIsNotRepeatedAfterALoss(t *testing.T) {
	t.Parallel()
	for name, loss := range map[string]reply{"cut": cut, "unavailable": body(503, "text/plain", "")} {
		t.Run(name, func(t *testing.T) {
			s := play(t, loss)
			_, err := s.client(t).Call(t.Context(), "complex_tool", nil, client.Handlers{})
			var lost *client.TransportError
			require.ErrorAs(t, err, &lost)
			assert.True(t, lost.Sent)
			assert.Len(t, s.got(), 1)
			assert.Empty(t, interrupted(t, err).Token)
		})
	}
}

func TestCallIsRepeatedWhenNobodyListens(t *testing.T) {
	t.Parallel()
	address := porttest.Reserve(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request asked
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&request))
		result(deployed)(w, request)
	}))
	defer server.Close()
	start := sync.OnceFunc(func() {
		l, err := net.Listen("tcp", address)
		if assert.NoError(t, err) {
			_ = server.Listener.Close()
			server.Listener = l
			server.Start()
		}
	})
	tries := 0
	c := client.New(&client.HTTP{URL: "http://" + address, RoundTripper: roundTripper(func(r *http.Request) (*http.Response, error) {
		tries++
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			start() // now that nobody was there
		}
		return resp, err
	})}, client.Options{Protocol: "saga"})
	defer c.Close()
	_, err := c.Call(t.Context(), "x", nil, client.Handlers{})
	require.NoError(t, err)
	assert.Equal(t, 2, tries)
}

// roundTripper is a function as an [http.RoundTripper].
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRetriesEnd(t *testing.T) {
	t.Parallel()
	s := play(t, result(askTarget), cut, cut, cut)
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "saga", Retries: 2})
	t.Cleanup(func() { _ = c.Close() })
	var who people
	_, err := c.Call(t.Context(), "complex_tool", nil, who.handlers())
	var lost *client.TransportError
	require.ErrorAs(t, err, &lost)
	position := interrupted(t, err)
	assert.Len(t, position.Answers, 1)
	assert.Len(t, s.got(), 4)

	s.then(result(deployed))
	_, err = c.Resume(t.Context(), position, who.handlers())
	require.NoError(t, err)
	assert.Equal(t, 1, who.elicited)
}

// Somebody has answered, and waits: a later turn is tried for as long as there is time.
func TestLaterTurnsAreTriedForLonger(t *testing.T) {
	t.Parallel()
	s := play(t, result(askTarget), cut, cut, cut, cut, cut, cut, cut, cut, result(deployed))
	var told []error
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "saga",
		RetryPause: time.Millisecond,
		OnRetry:    func(err error) { told = append(told, err) },
	})
	t.Cleanup(func() { _ = c.Close() })
	var who people
	_, err := c.Call(t.Context(), "complex_tool", nil, who.handlers())
	require.NoError(t, err)
	require.Len(t, told, 8, "one that is a first turn would be tried six times again")
	require.ErrorAs(t, told[0], new(*client.TransportError))

	first := play(t, cut)
	_, err = first.client(t).Call(t.Context(), "complex_tool", nil, who.handlers())
	require.Error(t, err)
	assert.Len(t, first.got(), 1)
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wait := func(seconds string) reply {
			return func(w http.ResponseWriter, _ asked) {
				w.Header().Set("Retry-After", seconds)
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}
		s := playAtOnce(t, result(askTarget), wait("1"), result(deployed))
		var who people
		start := time.Now()
		_, err := s.client(t).Call(t.Context(), "complex_tool", nil, who.handlers())
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(start), time.Second)

		s = playAtOnce(t, result(askTarget), wait("3600"))
		_, err = s.client(t).Call(t.Context(), "complex_tool", nil, who.handlers())
		var lost *client.TransportError
		require.ErrorAs(t, err, &lost, "a server cannot make the client wait for an hour")
		assert.Equal(t, time.Hour, lost.RetryAfter)
		assert.Equal(t, 503, lost.Status)
	})
}

func TestServerErrorsAreNotRetried(t *testing.T) {
	t.Parallel()
	s := play(t, result(askTarget), refuse(-32602, "Invalid or expired token"))
	var who people
	_, err := s.client(t).Call(t.Context(), "complex_tool", nil, who.handlers())
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, int64(-32602), refused.Code)
	assert.JSONEq(t, `{"k":1}`, string(refused.Data))
	assert.Len(t, s.got(), 2)
}

func TestMalformedResponses(t *testing.T) {
	t.Parallel()
	const kind = "application/json"
	for name, bad := range map[string]reply{
		"html":         body(200, "text/html", "<html>"),
		"event stream": body(200, "text/event-stream", "data: {}\n\n"),
		"not JSON":     body(200, kind, "{"),
		"batch":        body(200, kind, `[]`),
		"other id":     body(200, kind, `{"jsonrpc":"2.0","id":77,"result":{"content":[]}}`),
		"string id":    body(200, kind, `{"jsonrpc":"2.0","id":"1","result":{"content":[]}}`),
		"no id":        body(200, kind, `{"jsonrpc":"2.0","result":{"content":[]}}`),
		"no version":   body(200, kind, `{"id":1,"result":{"content":[]}}`),
		"both":         body(200, kind, `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`),
		"neither":      body(200, kind, `{"jsonrpc":"2.0","id":1}`),
		"huge":         body(200, kind, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"x":"`+strings.Repeat("x", 1<<16)+`"}}`),
		"redirect": func(w http.ResponseWriter, _ asked) {
			w.Header().Set("Location", "http://example.com/")
			w.WriteHeader(307)
		},
		"redirect to get": func(w http.ResponseWriter, _ asked) { w.Header().Set("Location", "/"); w.WriteHeader(302) },
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, bad)
			c := client.New(&client.HTTP{URL: s.URL, MaxResponse: 1 << 16}, client.Options{Protocol: "saga"})
			t.Cleanup(func() { _ = c.Close() })
			_, err := c.Call(t.Context(), "x", nil, client.Handlers{})
			var wrong *client.ProtocolError
			require.ErrorAs(t, err, &wrong)
			assert.Len(t, s.got(), 1)
			t.Log(err)
		})
	}
}

func TestStatusesSayWhatToDo(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{401: "bearer token", 403: "does not allow", 404: "path of the URL", 413: "larger than", 500: "Internal"} {
		s := play(t, body(status, "text/plain", ""))
		_, err := s.client(t).Call(t.Context(), "x", nil, client.Handlers{})
		require.ErrorContains(t, err, want)
		assert.Len(t, s.got(), 1)
	}
	// An error of JSON-RPC says more than the status.
	s := play(t, body(400, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`))
	_, err := s.client(t).Call(t.Context(), "x", nil, client.Handlers{})
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
}

func TestSlowServersAreGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		release := make(chan struct{})
		url, through := memoryhttp.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			select {
			case <-r.Context().Done():
			case <-release:
			}
		}))
		defer close(release)
		c := client.New(&client.HTTP{URL: url, RoundTripper: through}, client.Options{Protocol: "saga", Timeout: 2 * time.Second})
		defer c.Close()
		require.ErrorIs(t, reach(t.Context(), c), client.ErrTimeout)
		assert.EqualValues(t, 1, calls.Load())

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Millisecond, func() { cancel(client.ErrPause) })
		require.ErrorIs(t, reach(ctx, c), client.ErrPause)
	})
}

// reach makes a small request.
func reach(ctx context.Context, c *client.Client) error {
	_, err := c.Tools(ctx)
	return err
}

func TestHTTPFieldsAreChecked(t *testing.T) {
	t.Parallel()
	for _, h := range []*client.HTTP{
		{}, {URL: "ftp://host/"}, {URL: "http://"}, {URL: "::"},
		{URL: "http://example.com/mcp", Bearer: "secret"},
	} {
		c := client.New(h, client.Options{Protocol: "saga"})
		err := reach(t.Context(), c)
		var lost *client.TransportError
		require.ErrorAs(t, err, &lost)
		assert.False(t, lost.Sent)
		assert.NotContains(t, err.Error(), "secret")
		require.NoError(t, c.Close())
	}
}

// A token that was read with its line's end is refused at once: to net/http it is like a network that fails.
func TestHTTPTokensWithLineBreaksAreRefused(t *testing.T) {
	t.Parallel()
	for _, h := range []*client.HTTP{
		{Bearer: "secret\n"}, {Bearer: "sec\x00ret"}, {Header: http.Header{"X-Key": {"secret\r\n"}}},
	} {
		h.URL = "https://127.0.0.1:1/mcp"
		_, err := h.Client()
		require.ErrorContains(t, err, "line break")
		assert.NotContains(t, err.Error(), "secret")
		c := client.New(h, client.Options{Protocol: "saga", Retries: 100})
		require.ErrorContains(t, reach(t.Context(), c), "line break")
		require.NoError(t, c.Close())
	}
}

func TestHTTPRedirectsToOthersAreRefused(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		var others atomic.Int32
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { others.Add(1) }))
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, status)
		}))
		c := client.New(&client.HTTP{URL: server.URL, Bearer: "b", Header: http.Header{"X-Api-Key": {"k"}}}, client.Options{Protocol: "saga"})
		var refused *client.ProtocolError
		assert.ErrorAs(t, reach(t.Context(), c), &refused, "%d", status)
		assert.Zero(t, others.Load(), "%d", status)
		require.NoError(t, c.Close())
		server.Close()
		other.Close()
	}
}

func TestHTTPHeaders(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/mcp", http.StatusPermanentRedirect)
			return
		}
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
		assert.Contains(t, r.Header.Get("Accept"), "application/json")
		assert.Contains(t, r.Header.Get("Accept"), "text/event-stream")
		assert.Equal(t, "Bearer b", r.Header.Get("Authorization"))
		assert.Equal(t, "1", r.Header.Get("X-Extra"))
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`))
	}))
	defer server.Close()
	c := client.New(&client.HTTP{URL: server.URL, Bearer: "b", Header: http.Header{"x-extra": {"1"}}}, client.Options{Protocol: "saga"})
	defer c.Close()
	require.NoError(t, reach(t.Context(), c))
}
