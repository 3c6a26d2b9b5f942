package postgres_test

import (
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
)

// A proxy is a bad network between programs and a server.
type proxy struct {
	listener net.Listener
	server   string
	requests atomic.Int64 // how often something was sent to the server

	mu    sync.Mutex
	fault fault
	over  chan struct{} // closed when the fault is over
	conns map[net.Conn]struct{}
	all   sync.WaitGroup
}

// fault is what happens to what is sent from now on.
type fault int

const (
	none          fault = iota
	losesRequests       // the connection ends instead of the next request
	losesAnswers        // the connection ends instead of the next answer
	holdsAnswers        // answers do not come, and the connection stays as long as the fault
	delaysAnswers       // answers come when the fault is over
	refuses             // as losesRequests, and no connection can be made
)

func newProxy(t testing.TB, server *postgrestest.Server) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, server: filepath.Join(server.Dir, ".s.PGSQL.5432"), over: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.all.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.becomes(none)
		p.mu.Lock()
		for c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.all.Wait()
	})
	return p
}

func (p *proxy) url(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", p.listener.Addr(), database)
}

// becomes has the network fail, or work again.
func (p *proxy) becomes(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.over)
	p.over = make(chan struct{})
}

// is returns what fails now, and what is closed when that is over.
func (p *proxy) is() (fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.over
}

// sends waits until something is sent to the server, after it was sent this much before.
func (p *proxy) sends(t testing.TB, before int64) {
	t.Helper()
	require.Eventually(t, func() bool { return p.requests.Load() > before }, long, time.Millisecond)
}

func (p *proxy) accept() {
	for {
		here, err := p.listener.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("unix", p.server)
		if f, _ := p.is(); err != nil || f == refuses {
			_ = here.Close()
			if err == nil {
				_ = there.Close()
			}
			continue
		}
		p.mu.Lock()
		p.conns[here], p.conns[there] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.all.Go(func() { p.pass(there, here, losesRequests, refuses) })
		p.all.Go(func() { p.pass(here, there, losesAnswers, holdsAnswers) })
	}
}

// pass sends one direction's bytes on, unless one of two faults is there.
func (p *proxy) pass(to, from net.Conn, lost, other fault) {
	defer func() {
		_, _ = to.Close(), from.Close()
		p.mu.Lock()
		delete(p.conns, from)
		p.mu.Unlock()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		switch f, over := p.is(); {
		case f == holdsAnswers && other == holdsAnswers:
			<-over
			return
		case f == lost, f == other:
			return
		case f == delaysAnswers && lost == losesAnswers:
			<-over
		}
		if lost == losesRequests {
			p.requests.Add(1)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
