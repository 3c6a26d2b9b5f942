package server_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/memoryhttp"
)

// inBubble runs a test that would wait for long, in virtual time. The rigs that it makes are
// reached through memory: of a real network nobody knows whether something is still to come.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		networks.Store(t, new(memoryhttp.Network))
		t.Cleanup(func() { networks.Delete(t) })
		test(t)
	})
}

// inAnyTime runs a test in virtual time, and, if somebody asked, over a real
// network as well.
func inAnyTime(t *testing.T, test func(t *testing.T)) {
	t.Parallel()
	t.Run("virtual", func(t *testing.T) { inBubble(t, test) })
	t.Run("real", func(t *testing.T) {
		longtests.OnlyIfWanted(t, "waits for timeouts")
		t.Parallel()
		test(t)
	})
}

// networks are those of the tests in bubbles, by their *testing.T.
var networks sync.Map

// serveWeb has a handler served until the test ends, and returns a client for it and for what else
// the test serves.
func serveWeb(t testing.TB, h http.Handler, change ...func(*http.Server)) (url string, client *http.Client) {
	t.Helper()
	config := &http.Server{Handler: h}
	for _, f := range change {
		f(config)
	}
	found, ok := networks.Load(t)
	if !ok {
		web := httptest.NewUnstartedServer(h)
		web.Config = config
		web.Start()
		t.Cleanup(web.Close)
		// The default client has connections closed wherever a parallel test ends a server.
		client := web.Client()
		client.Timeout = patience // for streams as well
		return web.URL, client
	}
	url, through := found.(*memoryhttp.Network).Serve(t, config)
	return url, &http.Client{Transport: through}
}
