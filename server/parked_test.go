package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// parkedRig are replicas whose store tells of changes, or has to be watched.
func parkedRig(t *testing.T, w *world, watched bool, change ...func(*server.Options)) []*rig {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	_ = watched
	o := server.Options{Ledger: store, Tools: []saga.Definition{roundsTool(w)}}
	for _, f := range change {
		f(&o)
	}
	all := replicas(t, 2, o)
	for _, r := range all {
		server.SetParkAfter(r.srv, parkAfter)
	}
	return all
}

// parkAfter is after how long streams are parked here.
const parkAfter = 200 * time.Millisecond

// parks waits until so many streams are parked.
func (r *rig) parks(n int) {
	r.t.Helper()
	until(r.t, func() bool { return server.Parked(r.srv) == n })
}

// A stream that is parked after each question goes on as if it was not: whichever replica is
// answered, with two questions at once, and in the same connection afterwards.
func TestParkedStreamsGoOn(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-11-25", "2025-06-18"} {
		for _, watched := range []bool{false, true} {
			t.Run(fmt.Sprint(version, " watched ", watched), func(t *testing.T) {
				t.Parallel()
				w := new(world)
				r := parkedRig(t, w, watched)
				c := r[0].connect(version, everything, func(c *legacyClient) {
					c.http = &http.Client{Transport: new(http.Transport)}
					t.Cleanup(c.http.CloseIdleConnections)
				})
				other := *c
				other.http = http.DefaultClient
				used := make(map[string]bool)
				trace := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { used[i.Conn.LocalAddr().String()] = true }})
				traced := func(q *http.Request) { *q = *q.WithContext(trace) }
				s := c.read(c.request("POST", roundsCall(4, 4, "I"), traced))
				var ids []string
				ask := func() sseEvent {
					q := s.wait("elicitation/create")
					require.NotContains(t, ids, string(q.ID), "what was asked is not asked again")
					ids = append(ids, string(q.ID))
					return q
				}
				for round := range 4 {
					at := other.at(r[round%2])
					q := ask()
					r[0].parks(1)
					server.TendParked(r[0].srv, time.Now().Add(16*time.Second)) // as it would be
					if round == 2 {
						second := ask()
						at.reply(second.ID, yesSure)
						time.Sleep(100 * time.Millisecond)
						assert.Equal(t, 1, server.Parked(r[0].srv), "the other question is asked yet")
						at = other.at(r[1])
					}
					at.reply(q.ID, named(fmt.Sprint(round)))
				}
				said, _ := text(t, s.wait("").Result)
				assert.Equal(t, "I 0 1 2 3", said)
				s.end()
				r[0].parks(0)
				resp := c.request("POST", pingMessage, traced)
				assert.Contains(t, readAll(t, resp), `"result":{}`)
				assert.Len(t, used, 1, "the connection is kept")
				assert.NotContains(t, r[0].log.take(), `"ERROR"`)
			})
		}
	}
}

// A parked stream shows that it lives, and a client that wants to hear of progress does.
func TestParkedStreamsLive(t *testing.T) {
	t.Parallel()
	r := parkedRig(t, new(world), false)
	c := r[0].connect("2025-11-25", everything)
	s := c.stream(roundsCall(4, 1, "I"))
	q := s.wait("elicitation/create")
	r[0].parks(1)
	server.TendParked(r[0].srv, time.Now())
	first := s.message()
	assert.Equal(t, "notifications/progress", first.Method)
	assert.NotEqual(t, q.id, first.id)
	c.reply(q.ID, named("x"))
	second := s.wait("notifications/progress")
	assert.NotEqual(t, string(first.Params), string(second.Params))
	said, _ := text(t, s.wait("").Result)
	assert.Equal(t, "I x", said)
}

// What ends a call ends it while its stream is parked.
func TestParkedStreamsEnd(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancelled", "cancelled elsewhere", "session ended", "session ended elsewhere"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := new(world)
			r := parkedRig(t, w, false)
			c := r[0].connect("2025-11-25", everything)
			s := c.stream(roundsCall(4, 1, "I"))
			s.wait("elicitation/create")
			r[0].parks(1)
			switch how {
			case "cancelled":
				c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
			case "cancelled elsewhere":
				c.at(r[1]).post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
			case "session ended":
				readAll(t, c.request("DELETE", "", nil))
			case "session ended elsewhere":
				readAll(t, c.at(r[1]).request("DELETE", "", nil))
			}
			for {
				e, err := s.next()
				if err != nil {
					break
				}
				require.NotEqual(t, "elicitation/create", e.Method)
				require.Nil(t, e.Result)
			}
			until(t, func() bool { return w.was() == "+ -" })
			r[0].parks(0)
		})
	}
}

// A client that has lost a parked stream, or whose server stops, reads on elsewhere.
func TestParkedStreamsMove(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"lost", "taken over", "stopped"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := parkedRig(t, new(world), false)
			c := r[0].connect("2025-11-25", everything)
			s := c.stream(roundsCall(4, 1, "I"))
			q := s.wait("elicitation/create")
			r[0].parks(1)
			switch how {
			case "lost":
				s.close()
				until(t, func() bool { // the second sign of life meets a closed connection
					server.TendParked(r[0].srv, time.Now().Add(time.Hour))
					return server.Parked(r[0].srv) == 0
				})
			case "stopped":
				r[0].srv.CloseStreams()
				e, err := s.next()
				require.NoError(t, err)
				assert.Equal(t, "1000", e.retry)
				s.end()
			}
			moved := c.at(r[1]).get(q.id)
			if how == "taken over" {
				s.end()
			}
			r[0].parks(0)
			assert.Equal(t, string(q.ID), string(moved.wait("elicitation/create").ID))
			r[1].parks(1)
			c.at(r[1]).reply(q.ID, named("x"))
			said, _ := text(t, moved.wait("").Result)
			assert.Equal(t, "I x", said)
		})
	}
}

// When there are too many parked streams, the client that waits longest comes back later; and
// sessions whose streams are parked leave room for others.
func TestParkedStreamsGiveWay(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"all", "principal", "not parked"} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			r := parkedRig(t, new(world), false, func(o *server.Options) {
				if limit != "principal" {
					o.MaxSessions = 1
				} else {
					o.MaxSessionsPerPrincipal = 1
				}
				o.Authenticate = who
			})
			room := 2
			if limit == "not parked" {
				r[0].url, room = throughMiddleware(t, r[0].srv.Handler(), nil), 1
			}
			var clients []*legacyClient
			var streams []*sseReader
			var asked []sseEvent
			for i := range room + 1 {
				c := r[0].connect("2025-11-25", everything, as("ann"))
				s := c.stream(roundsCall(4, 1, fmt.Sprint(i)))
				clients, streams, asked = append(clients, c), append(streams, s), append(asked, s.wait("elicitation/create"))
				if limit != "not parked" {
					r[0].parks(min(i+1, room))
				}
			}
			e, err := streams[0].next()
			for err == nil && e.retry == "" {
				e, err = streams[0].next()
			}
			require.NoError(t, err)
			streams[0].end()
			if limit != "not parked" {
				r[0].parks(room) // the last one is, too, and can give way
			}
			streams[0] = clients[0].get(asked[0].id)
			if limit == "not parked" { // which has made the other one give way
				assert.NotNil(t, streams[0].wait("elicitation/create").ID)
				streams[room] = clients[room].get(asked[room].id)
			}
			for _, i := range []int{room, 0} {
				clients[i].reply(asked[i].ID, named("x"))
			}
			if limit == "not parked" {
				streams[0] = clients[0].get(asked[0].id)
			}
			for _, i := range []int{room, 0} {
				s := streams[i]
				var m sseEvent
				for m.Result == nil {
					m = s.message()
				}
				said, _ := text(t, m.Result)
				assert.Equal(t, fmt.Sprint(i, " x"), said)
			}
		})
	}
}

// wrapped is a writer as middleware has them.
type wrapped struct {
	http.ResponseWriter
	written *atomic.Int64
}

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w wrapped) Write(b []byte) (int, error) {
	w.written.Add(int64(len(b)))
	return w.ResponseWriter.Write(b)
}

// throughMiddleware serves with a writer that is not net/http's own, and returns where.
func throughMiddleware(t *testing.T, h http.Handler, written *atomic.Int64) (url string) {
	if written == nil {
		written = new(atomic.Int64)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { h.ServeHTTP(wrapped{w, written}, q) }))
	t.Cleanup(web.Close)
	return web.URL
}

// Connections that cannot be taken from net/http stay there, and are served all the same.
func TestUnparkedStreams(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"middleware", "HTTP/2", "TLS"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := parkedRig(t, new(world), false)
			var written atomic.Int64
			web := httptest.NewUnstartedServer(r[0].srv.Handler())
			t.Cleanup(web.Close)
			web.EnableHTTP2 = kind == "HTTP/2"
			web.StartTLS()
			r[0].url = web.URL
			if kind == "middleware" {
				r[0].url = throughMiddleware(t, r[0].srv.Handler(), &written)
			}
			c := r[0].connect("2025-11-25", everything, func(c *legacyClient) { c.http = web.Client() })
			s := c.stream(roundsCall(4, 2, "I"))
			for i := range 2 {
				q := s.wait("elicitation/create")
				if kind == "TLS" {
					r[0].parks(1)
				} else {
					time.Sleep(parkAfter + 100*time.Millisecond)
					assert.Zero(t, server.Parked(r[0].srv))
				}
				c.reply(q.ID, named(fmt.Sprint(i)))
			}
			said, _ := text(t, s.wait("").Result)
			assert.Equal(t, "I 0 1", said)
			s.end()
			assert.Equal(t, kind == "middleware", written.Load() > 0)
		})
	}
}

// Hooks see a call whose stream is parked end without an error.
func TestParkedStreamsAndHooks(t *testing.T) {
	t.Parallel()
	var failed, ended atomic.Int64
	r := parkedRig(t, new(world), false, func(o *server.Options) {
		o.Hooks = []server.Hooks{{Request: func(ctx context.Context, info *server.RequestInfo, next func(context.Context) error) error {
			err := next(ctx)
			if info.Method == "tools/call" {
				ended.Add(1)
				if err != nil {
					failed.Add(1)
				}
			}
			return err
		}}}
	})
	c := r[0].connect("2025-11-25", everything)
	s := c.stream(roundsCall(4, 1, "I"))
	q := s.wait("elicitation/create")
	until(t, func() bool { return ended.Load() == 1 })
	r[0].parks(1)
	assert.Zero(t, failed.Load())
	c.reply(q.ID, named("x"))
	s.wait("")
}

// Clients that do not read what a server has to say when it stops do not hold it up one after the
// other.
func TestParkedStreamsThatNobodyReads(t *testing.T) {
	t.Parallel()
	r := parkedRig(t, new(world), false)
	l := &stuckListener{}
	at := httptest.NewUnstartedServer(r[0].srv.Handler())
	l.Listener, at.Listener = at.Listener, l
	at.Start()
	t.Cleanup(at.Close)
	r[0].url = at.URL
	const clients = 8
	for range clients {
		c := r[0].connect("2025-11-25", everything)
		c.stream(roundsCall(4, 1, "I")).wait("elicitation/create")
	}
	r[0].parks(clients)
	l.stuck.Store(true)
	began := time.Now()
	r[0].srv.CloseStreams()
	assert.Less(t, time.Since(began), clients/2*time.Second)
	assert.Zero(t, server.Parked(r[0].srv))
}

// stuckListener has connections whose other ends do not read once it is stuck.
type stuckListener struct {
	net.Listener
	stuck atomic.Bool
}

func (l *stuckListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &stuckConn{Conn: c, stuck: &l.stuck}, err
}

type stuckConn struct {
	net.Conn
	stuck *atomic.Bool
	until atomic.Pointer[time.Time]
}

func (c *stuckConn) SetWriteDeadline(t time.Time) error {
	c.until.Store(&t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *stuckConn) Write(b []byte) (int, error) {
	if !c.stuck.Load() {
		return c.Conn.Write(b)
	}
	if until := c.until.Load(); until != nil {
		time.Sleep(time.Until(*until))
	}
	return 0, os.ErrDeadlineExceeded
}
