// Package memoryhttp serves HTTP without a network, for tests in virtual time: of a network no one
// knows whether something is still to come.
package memoryhttp

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// Network connects who dials with who listens in this process. The zero value has no listeners.
type Network struct {
	listeners sync.Map // by their addresses
	ports     atomic.Int32
}

// Listen returns a listener at the next address: localhost:1 is the first.
func (n *Network) Listen() *Listener {
	l := &Listener{conns: make(chan net.Conn)}
	l.address = net.UnixAddr{Name: fmt.Sprintf("localhost:%d", n.ports.Add(1)), Net: "memory"}
	l.open, l.close = context.WithCancel(context.Background())
	n.listeners.Store(l.address.Name, l)
	return l
}

// Serve has a server serve until the test ends, and returns a transport to all servers of the network.
func (n *Network) Serve(t testing.TB, config *http.Server) (url string, through http.RoundTripper) {
	t.Helper()
	web := &httptest.Server{Listener: n.Listen(), Config: config}
	web.Start()
	transport := &http.Transport{DialContext: n.Dial}
	t.Cleanup(web.Close)
	t.Cleanup(transport.CloseIdleConnections)
	return web.URL, transport
}

// Dial connects to the listener at an address, as [net.Dialer.DialContext] does.
func (n *Network) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	l, ok := n.listeners.Load(address)
	if !ok {
		return nil, fmt.Errorf("nobody listens at %s", address)
	}
	return l.(*Listener).Dial(ctx)
}

// Serve has a handler served until the test ends. It is reached through that RoundTripper only.
func Serve(t testing.TB, h http.Handler) (url string, through http.RoundTripper) {
	t.Helper()
	return new(Network).Serve(t, &http.Server{Handler: h})
}

// Listener accepts what is dialled in this process.
type Listener struct {
	address net.UnixAddr
	conns   chan net.Conn
	open    context.Context
	close   context.CancelFunc
}

// Dial connects to the listener.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	there, here := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.open.Done():
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.open.Done():
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.close()
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &l.address }
