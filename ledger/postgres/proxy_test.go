package postgres_test

import (
	"fmt"
	"io"
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
	conns map[net.Conn]struct{}
	all   sync.WaitGroup
}

// fault is what happens to what is sent from now on.
type fault int

const (
	none          fault = iota
	losesRequests       // the connection ends instead of the next request
	losesAnswers        // the connection ends instead of the next answer
	holdsAnswers        // answers do not come, and the connection stays
	delaysAnswers       // answers come late
	refuses             // as losesRequests, and nobody can connect
)

func newProxy(t testing.TB, server *postgrestest.Server) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, server: filepath.Join(server.Dir, ".s.PGSQL.5432"), conns: map[net.Conn]struct{}{}}
	p.all.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
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

// calms waits until nothing is sent to the server any more.
func (p *proxy) calms(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool {
		before := p.requests.Load()
		time.Sleep(200 * time.Millisecond)
		return p.requests.Load() == before
	}, 30*time.Second, time.Millisecond)
}

// becomes has the network fail, or work again.
func (p *proxy) becomes(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

func (p *proxy) is() fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

func (p *proxy) accept() {
	for {
		here, err := p.listener.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("unix", p.server)
		if err != nil || p.is() == refuses {
			_ = here.Close()
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
		switch f := p.is(); {
		case f == holdsAnswers && other == holdsAnswers:
			_, _ = io.Copy(io.Discard, from)
			return
		case f == lost, f == other:
			return
		case f == delaysAnswers && lost == losesAnswers:
			time.Sleep(300 * time.Millisecond)
		}
		if lost == losesRequests {
			p.requests.Add(1)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
