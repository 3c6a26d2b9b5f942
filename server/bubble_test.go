package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
)

// inBubble runs a test that would wait for long, in virtual time. The rigs that it makes are
// reached through memory: of a real network nobody knows whether something is still to come.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		networks.Store(t, new(network))
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

// network connects clients with servers by the names of their hosts.
type network struct{ hosts []*pipes }

// host is where one of the servers listens.
type host string

func (h host) Network() string { return "memory" }
func (h host) String() string  { return string(h) }

// memoryListener accepts what comes for a host.
type memoryListener struct {
	*pipes
	host
}

func (l memoryListener) Addr() net.Addr { return l.host }

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
		return web.URL, http.DefaultClient
	}
	n := found.(*network)
	n.hosts = append(n.hosts, &pipes{conns: make(chan net.Conn), done: make(chan struct{})})
	l := memoryListener{n.hosts[len(n.hosts)-1], host(fmt.Sprintf("localhost:%d", len(n.hosts)))}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		there, here := net.Pipe()
		for i, p := range n.hosts {
			if address != fmt.Sprintf("localhost:%d", i+1) {
				continue
			}
			select {
			case p.conns <- there:
				return here, nil
			case <-p.done:
			case <-ctx.Done():
			}
		}
		return nil, fmt.Errorf("nobody listens at %s", address)
	}}
	web := &httptest.Server{Listener: l, Config: config}
	web.Start()
	t.Cleanup(web.Close)
	t.Cleanup(transport.CloseIdleConnections)
	return web.URL, &http.Client{Transport: transport}
}
