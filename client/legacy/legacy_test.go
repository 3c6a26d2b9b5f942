//lint:file-ignore SA1019 What the SDK calls deprecated is what these revisions have.

package legacy_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
	"github.com/mcpsaga/mcpsaga/internal/leaktest"
	"github.com/mcpsaga/mcpsaga/internal/memoryhttp"
	"github.com/mcpsaga/mcpsaga/steps"
)

// asServer has the test binary be a server on its standard input and output.
const asServer = "MCPSAGA_LEGACY_TEST_SERVER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(asServer); mode != "" {
		if mode == "several" {
			_ = newSeveral().ServeStdio(context.Background(), os.Stdin, os.Stdout)
			os.Exit(0)
		}
		if mode == "tasks" {
			s, stop := newTaskServer()
			defer stop()
			_ = s.ServeStdio(context.Background(), os.Stdin, os.Stdout)
			os.Exit(0)
		}
		flood(mode)
		if mode != "1" {
			noteStart(os.Getenv("STARTS"))
		}
		if mode == "brittle" {
			answerOnce()
		}
		if newServer().Run(context.Background(), &mcp.StdioTransport{}) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Tests wait most of the time. -parallel changes it.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	// The SDK's server keeps a session whose last words have crossed its end.
	leaktest.Main(m, goleak.IgnoreAnyFunction("github.com/modelcontextprotocol/go-sdk/mcp.(*streamableServerConn).Read"))
}

// newServer is one of the official SDK whose tools ask by requests of their own.
func newServer() *mcp.Server {
	options := &mcp.ServerOptions{}
	if os.Getenv(asServer) == "older" {
		options.SupportedProtocolVersions = []string{"2025-11-25"}
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "older", Version: "1"}, options)
	type none struct{}
	mcp.AddTool(s, &mcp.Tool{Name: "deploy", Description: "asks everything"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct {
		What string `json:"what"`
	}) (*mcp.CallToolResult, any, error) {
		_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1, Total: 2, Message: "asking"})
		ctx, stop := context.WithTimeout(ctx, 10*time.Second) // the SDK's server does not notice that a client has gone
		defer stop()
		where, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Mode: "form", Message: "Where?", RequestedSchema: map[string]any{
			"type": "object", "properties": map[string]any{"where": map[string]any{"type": "string"}}, "required": []string{"where"},
		}})
		if err != nil {
			return nil, nil, err
		}
		if where.Action != "accept" {
			return nil, nil, errors.New("the user said " + where.Action)
		}
		advice, err := r.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 10, Messages: []*mcp.SamplingMessage{
			{Role: "user", Content: &mcp.TextContent{Text: "Is it safe?"}},
		}})
		if err != nil {
			return nil, nil, err
		}
		roots, err := r.Session.ListRoots(ctx, nil)
		if err != nil {
			return nil, nil, err
		}
		text := where.Content["where"].(string) + ", " + advice.Content.(*mcp.TextContent).Text + ", " + roots.Roots[0].URI
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "stay"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		ctx, stop := context.WithTimeout(ctx, 10*time.Second) // a cancellation may come too late
		defer stop()
		<-ctx.Done()
		return nil, nil, ctx.Err()
	})
	mcp.AddTool(s, &mcp.Tool{Name: "nag"}, func(ctx context.Context, r *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		ctx, stop := context.WithTimeout(ctx, 10*time.Second)
		defer stop()
		for ctx.Err() == nil {
			if _, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Mode: "form", Message: "Well?", RequestedSchema: map[string]any{"type": "object"}}); err != nil {
				return nil, nil, err
			}
		}
		return nil, nil, ctx.Err()
	})
	mcp.AddTool(s, &mcp.Tool{Name: "pid"}, func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strconv.Itoa(os.Getpid())}}}, nil, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "refused", Arguments: []*mcp.PromptArgument{{Name: "code"}}}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		code, err := strconv.ParseInt(r.Params.Arguments["code"], 10, 64)
		return nil, cmp.Or[error](err, &jsonrpc.Error{Code: code, Message: "wants a licence", Data: json.RawMessage(`"here"`)})
	})
	s.AddPrompt(&mcp.Prompt{Name: "greet"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Hello."}}}}, nil
	})
	s.AddResource(&mcp.Resource{Name: "motd", URI: "text://motd"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "text://motd", Text: "Be well."}}}, nil
	})
	return s
}

// transports lead to the same server over everything that older servers are reached by.
func transports(t *testing.T) map[string]client.Transport {
	serve := func(h http.Handler) string {
		running := httptest.NewServer(h)
		t.Cleanup(running.Close)
		return running.URL
	}
	get := func(*http.Request) *mcp.Server { return newServer() }
	self, err := os.Executable()
	require.NoError(t, err)
	guarded := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("X-Extra") != "1" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
	return map[string]client.Transport{
		"Streamable HTTP":    &client.HTTP{URL: serve(guarded(mcp.NewStreamableHTTPHandler(get, nil))), Bearer: "secret", Header: http.Header{"x-extra": {"1"}}},
		"plain JSON answers": &client.HTTP{URL: serve(mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{JSONResponse: true}))},
		"stdio":              &client.Stdio{Command: self, Env: append(os.Environ(), asServer+"=1"), Stderr: io.Discard},
	}
}

func handlers(asked *[]string) client.Handlers {
	note := func(r *client.Request, what string) { *asked = append(*asked, r.StepID+": "+what) }
	return client.Handlers{
		Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
			note(r, r.Message)
			return client.Accept(map[string]any{"where": "here"}), nil
		},
		Sample: func(_ context.Context, r *client.Request) (*steps.SampleResult, error) {
			note(r, r.Sample.Messages[0].Content.Text())
			return client.Reply("m", "Yes"), nil
		},
		Roots: func(_ context.Context, r *client.Request) ([]steps.Root, error) {
			note(r, "")
			return []steps.Root{{URI: "file:///w", Name: "w"}}, nil
		},
	}
}

func TestOlderServers(t *testing.T) {
	t.Parallel()
	for name, transport := range transports(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := client.New(transport, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open, MaxRounds: 5})
			defer c.Close()
			tools, err := c.Tools(t.Context())
			require.NoError(t, err)
			assert.Len(t, tools, 4)

			var asked []string
			var progress []client.Progress
			h := handlers(&asked)
			h.OnProgress = func(p client.Progress) { progress = append(progress, p) }
			result, err := c.Call(t.Context(), "deploy", map[string]any{"what": "it"}, h)
			require.NoError(t, err)
			assert.Equal(t, "here, Yes, file:///w", result.Content.Text())
			assert.Equal(t, []string{"elicitation-1: Where?", "sampling-1: Is it safe?", "roots-1: "}, asked)
			assert.Equal(t, []client.Progress{{Done: 1, Total: 2, Message: "asking"}}, progress)

			prompt, err := c.GetPrompt(t.Context(), "greet", nil, client.Handlers{})
			require.NoError(t, err)
			assert.Len(t, prompt.Messages, 1)
			read, err := c.ReadResource(t.Context(), "text://motd", client.Handlers{})
			require.NoError(t, err)
			assert.Equal(t, "Be well.", read.Contents[0].Text)
			prompts, err := c.Prompts(t.Context())
			require.NoError(t, err)
			assert.Len(t, prompts, 2)

			// What ends a call ends it in this protocol.
			h.Elicit = func(context.Context, *client.Request) (*client.ElicitResult, error) { return nil, client.ErrPause }
			_, err = c.Call(t.Context(), "deploy", map[string]any{"what": "it"}, h)
			require.ErrorIs(t, err, client.ErrPause)
			require.ErrorContains(t, err, "cannot go on later")
			var stopped *client.InterruptedError
			require.ErrorAs(t, err, &stopped)
			assert.Zero(t, stopped.Position.Round)

			// What a client cannot answer its server knows.
			_, err = c.Call(t.Context(), "deploy", map[string]any{"what": "it"}, client.Handlers{})
			require.NoError(t, err, "the tool says so itself")

			_, err = c.Call(t.Context(), "nag", nil, handlers(&asked))
			require.ErrorAs(t, err, new(*client.LimitError))

			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // enough for it to be sent: else the connection breaks
			defer cancel()
			_, err = c.Call(ctx, "stay", nil, client.Handlers{})
			require.ErrorIs(t, err, context.DeadlineExceeded)

			_, err = c.Call(t.Context(), "no such tool", nil, client.Handlers{})
			var refused *client.Error
			require.ErrorAs(t, err, &refused)
			assert.EqualValues(t, -32602, refused.Code)
		})
	}
}

// A client finds out by itself that a server is older.
func TestOlderServersAreFound(t *testing.T) {
	t.Parallel()
	for name, transport := range transports(t) {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "stdio") {
				t.Skip("this server speaks 2026-07-28 over stdio, as TestNegotiation in package client has it")
			}
			var asked []string
			c := client.New(transport, client.Options{Sessions: legacy.Open})
			defer c.Close()
			result, err := c.Call(t.Context(), "deploy", map[string]any{"what": "it"}, handlers(&asked))
			require.NoError(t, err)
			assert.Equal(t, "here, Yes, file:///w", result.Content.Text())
		})
	}
	gone := client.New(&client.HTTP{URL: "http://127.0.0.1:1/"}, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open, Retries: -1})
	defer gone.Close()
	_, err := gone.Tools(t.Context())
	require.ErrorAs(t, err, new(*client.TransportError))
	open := client.New(&client.HTTP{URL: "http://example.com/", Bearer: "b"}, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open})
	defer open.Close()
	_, err = open.Tools(t.Context())
	require.ErrorContains(t, err, "in the clear")
	none := client.New(&client.HTTP{URL: "http://127.0.0.1:1/"}, client.Options{Protocol: "2025-11-25"})
	_, err = none.Tools(t.Context())
	require.ErrorContains(t, err, "Options.Sessions")
}

// Who is refused is told why.
func TestWhyThereIsNoSession(t *testing.T) {
	for status, says := range map[int]string{
		http.StatusNotFound: "is not an MCP endpoint", http.StatusMethodNotAllowed: "is not an MCP endpoint",
		http.StatusUnauthorized: "Unauthorized", http.StatusForbidden: "Forbidden", http.StatusServiceUnavailable: "Service Unavailable",
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		_, err := legacy.Open(t.Context(), client.SessionConfig{Transport: &client.HTTP{URL: web.URL}})
		web.Close()
		var lost *client.TransportError
		require.ErrorAs(t, err, &lost)
		require.ErrorContains(t, err, says)
		if status < http.StatusInternalServerError {
			assert.Equal(t, status, lost.Status)
		}
	}
}

// Some servers ask who calls when a session is open already. They are not asked again with the same credentials.
func TestWhoIsRefusedInASession(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		s := newServer()
		handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
		var refused atomic.Int32
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), "tools/list") {
				refused.Add(1)
				w.WriteHeader(status)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			handler.ServeHTTP(w, r)
		}))
		c := client.New(&client.HTTP{URL: web.URL}, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open})
		_, err := c.Tools(t.Context())
		var lost *client.TransportError
		require.ErrorAs(t, err, &lost)
		assert.Equal(t, status, lost.Status)
		assert.EqualValues(t, 1, refused.Load())
		require.NoError(t, c.Close())
		web.Close()
	}
}

// A stream that cannot be had just now, as servers are replaced, is asked for again.
func TestStreamsAreAskedForAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Int32
		events := func(w http.ResponseWriter, text string) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, text)
		}
		url, through := memoryhttp.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Mcp-Session-Id", "s")
			var m struct {
				Method string
				ID     json.RawMessage
			}
			_ = json.NewDecoder(r.Body).Decode(&m)
			switch {
			case r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "":
				w.WriteHeader(http.StatusMethodNotAllowed)
			case r.Method == http.MethodGet && int(refused.Load()) < len(transient):
				w.WriteHeader(transient[refused.Add(1)-1])
			case r.Method == http.MethodGet:
				id := strings.TrimPrefix(r.Header.Get("Last-Event-ID"), "of")
				events(w, "id: of"+id+"b\ndata: {\"jsonrpc\":\"2.0\",\"id\":"+id+",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"there\"}]}}\n\n")
			case m.Method == "initialize":
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":""}}}`, m.ID)
			case m.Method == "tools/call":
				events(w, "id: of"+string(m.ID)+"\nretry: 10\ndata: \n\n")
			default:
				w.WriteHeader(http.StatusAccepted)
			}
		}))
		s, err := legacy.Open(t.Context(), client.SessionConfig{Transport: &client.HTTP{URL: url, RoundTripper: through}})
		require.NoError(t, err)
		defer s.Close()
		result, err := s.Request(t.Context(), "tools/call", json.RawMessage(`{"name":"x","arguments":{}}`))
		require.NoError(t, err)
		assert.Contains(t, string(result), "there")
		assert.EqualValues(t, len(transient), refused.Load())
	})
}

// transient are statuses that pass.
var transient = []int{http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusTooManyRequests, http.StatusInternalServerError}

// A server need not have a stream outside of calls, whatever its gateway answers in its place.
func TestServersWithoutAStreamOutsideOfCalls(t *testing.T) {
	t.Parallel()
	for _, status := range append(transient, http.StatusGatewayTimeout, http.StatusNotFound) {
		s := newServer()
		handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.WriteHeader(status)
				return
			}
			handler.ServeHTTP(w, r)
		}))
		c := client.New(&client.HTTP{URL: web.URL}, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open, Timeout: 5 * time.Second})
		tools, err := c.Tools(t.Context())
		require.NoError(t, err, status)
		assert.NotEmpty(t, tools)
		require.NoError(t, c.Close())
		web.Close()
	}
}

// A server may forget a session that is kept for the next call. As it has not taken that call, it is made in another session.
func TestSessionsThatServersForget(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	replaced := func() http.Handler {
		s := newServer()
		mcp.AddTool(s, &mcp.Tool{Name: "count"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			calls.Add(1)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "counted"}}}, nil, nil
		})
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	}
	var now atomic.Pointer[http.Handler]
	replace := func() { h := replaced(); now.Store(&h) }
	replace()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*now.Load()).ServeHTTP(w, r) }))
	t.Cleanup(web.Close)
	c := client.New(&client.HTTP{URL: web.URL}, client.Options{Protocol: "2025-11-25", Sessions: legacy.Open})
	defer c.Close()
	for n := range 3 {
		result, err := c.Call(t.Context(), "count", nil, client.Handlers{})
		require.NoError(t, err)
		assert.Equal(t, "counted", result.Content.Text())
		assert.EqualValues(t, n+1, calls.Load())
		replace()
	}
}
