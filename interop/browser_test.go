package interop

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/cors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// needBrowser starts Chromium without a window, for which every name is this
// machine, or skips the test.
func needBrowser(t *testing.T) context.Context {
	t.Helper()
	path := needProgram(t, "chromium")
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.WSURLReadTimeout(time.Minute), chromedp.Headless, chromedp.NoFirstRun, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("host-resolver-rules", "MAP * 127.0.0.1"), chromedp.Flag("no-proxy-server", true),
	}
	for _, flag := range []string{"disable-gpu", "disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // it does not work as root
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx))
	return ctx
}

// Pages of allowed origins use a server, in each protocol, and read what they need.
// Pages of others get nothing, and the server does nothing for them.
func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	browser := needBrowser(t)
	site := httptest.NewServer(http.FileServer(http.Dir("testdata")))
	t.Cleanup(site.Close)
	_, port, err := net.SplitHostPort(site.Listener.Addr().String())
	require.NoError(t, err)
	allowed, other := "http://app.example:"+port, "http://other.example:"+port
	// do runs a function of testdata/page.js in a page, with the server's address.
	do := func(t *testing.T, origin, url, function string) string {
		t.Helper()
		require.NoError(t, chromedp.Do(browser, chromedp.Navigate(origin+"/page.html")))
		got, err := chromedp.Run(browser, chromedp.Evaluate[string](`Promise.resolve(`+function+`("`+url+`")).then(String, String)`, chromedp.EvalAwaitPromise))
		require.NoError(t, err)
		return got
	}

	var counted atomic.Int32
	count := saga.Flow[struct{}, string]{Info: saga.Info{Name: "count"}, Run: func(*saga.Run, struct{}) (string, error) {
		counted.Add(1)
		return "counted", nil
	}}
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	discard := slog.New(slog.DiscardHandler)
	tools := []saga.Definition{complextool.Tool, count}
	servers := map[string]func(*testing.T) http.Handler{
		"our server": func(t *testing.T) http.Handler {
			s, err := server.New(server.Options{Tools: tools, Keys: keys, AllowedOrigins: []string{allowed}, Logger: discard})
			require.NoError(t, err)
			t.Cleanup(s.Close)
			return s.Handler()
		},
		"the Go SDK's": func(t *testing.T) http.Handler {
			s := mcp.NewServer(&mcp.Implementation{Name: "pages", Version: "1"}, nil)
			m, err := gosdk.Mount(s, gosdk.Options{Keys: keys, Logger: discard}, tools...)
			require.NoError(t, err)
			t.Cleanup(func() { _ = m.Shutdown(context.Background()) })
			mux := http.NewServeMux()
			mux.Handle("/mcp", gosdk.NewHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
			h, err := forPages(mux, allowed)
			require.NoError(t, err)
			return h
		},
	}
	for name, newServer := range servers {
		t.Run(name, func(t *testing.T) {
			hs := httptest.NewServer(newServer(t))
			t.Cleanup(hs.Close)
			url := hs.URL + "/mcp"
			const done = "Deployment to production initiated successfully based on confirmation."
			assert.Equal(t, done, do(t, allowed, url, "saga"))
			assert.Equal(t, "listed", do(t, allowed, url, "modern"))
			assert.Equal(t, done+" 204 404", do(t, allowed, url, "session"))
			assert.Equal(t, "nothing", do(t, allowed, url, "cookies"))
			assert.Contains(t, do(t, allowed, url, "refusal"), "404 ")

			assert.Equal(t, "nothing, nothing, nothing, opaque 0, opaque 0, nothing", do(t, other, url, "foreign"))
			assert.Zero(t, counted.Load())
			assert.Contains(t, do(t, other, url, "session"), "TypeError")
		})
	}
	t.Run("the id of a refused request", func(t *testing.T) {
		hs := httptest.NewServer(servers["our server"](t))
		t.Cleanup(hs.Close)
		assert.Contains(t, do(t, allowed, hs.URL+"/mcp", "refusal"), `404 {"jsonrpc":"2.0","id":7,"error":`)
	})
}

// forPages lets the pages of an origin use a server on the Go SDK.
func forPages(h http.Handler, origin string) (http.Handler, error) {
	protection := http.NewCrossOriginProtection()
	if err := protection.AddTrustedOrigin(origin); err != nil {
		return nil, err
	}
	return cors.New(cors.Options{
		AllowedOrigins: []string{origin}, // never none: that would be all
		AllowedMethods: []string{http.MethodPost, http.MethodGet, http.MethodDelete},
		AllowedHeaders: []string{"*"},
		ExposedHeaders: []string{"Mcp-Session-Id", "WWW-Authenticate"},
	}).Handler(protection.Handler(h)), nil
}
