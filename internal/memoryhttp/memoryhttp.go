// Package memoryhttp serves HTTP without a network, for tests in virtual time: of a network nobody
// knows whether something is still to come.
package memoryhttp

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Serve has a handler served until the test ends. It is reached through that RoundTripper only.
func Serve(t testing.TB, h http.Handler) (url string, through http.RoundTripper) {
	t.Helper()
	l := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	web := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	web.Start()
	transport := &http.Transport{DialContext: l.dial}
	t.Cleanup(web.Close)
	t.Cleanup(transport.CloseIdleConnections)
	return "http://localhost", transport
}

// listener accepts what is dialled in this process.
type listener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	there, here := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements [net.Listener].
func (*listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
