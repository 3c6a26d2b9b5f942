package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// waitingRig are replicas whose store tells of changes, or has to be watched.
func waitingRig(t *testing.T, w *world, watched bool, change ...func(*server.Options)) []*rig {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	if watched {
		store = struct{ ledger.Store }{store}
	}
	o := server.Options{Ledger: store, Tools: []saga.Definition{roundsTool(w)}}
	for _, f := range change {
		f(&o)
	}
	return replicas(t, 2, o)
}

// A stream that waits for answers carries what comes of them: whichever replica is answered, with
// two questions at once, and its connection is used again afterwards.
func TestWaitingStreamsGoOn(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-11-25", "2025-06-18"} {
		for _, watched := range []bool{false, true} {
			t.Run(fmt.Sprint(version, " watched ", watched), func(t *testing.T) {
				t.Parallel()
				w := new(world)
				r := waitingRig(t, w, watched)
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
					if round == 2 {
						second := ask()
						at.reply(second.ID, yesSure)
						at = other.at(r[1])
					}
					at.reply(q.ID, named(fmt.Sprint(round)))
				}
				said, _ := text(t, s.wait("").Result)
				assert.Equal(t, "I 0 1 2 3", said)
				s.end()
				resp := c.request("POST", pingMessage, traced)
				assert.Contains(t, readAll(t, resp), `"result":{}`)
				assert.Len(t, used, 1, "the connection is kept")
				assert.NotContains(t, r[0].log.take(), `"ERROR"`)
			})
		}
	}
}

// What ends a call ends it while it waits.
func TestWaitingStreamsEnd(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"cancelled", "cancelled elsewhere", "session ended", "session ended elsewhere"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := new(world)
			r := waitingRig(t, w, false)
			c := r[0].connect("2025-11-25", everything)
			s := c.stream(roundsCall(4, 1, "I"))
			s.wait("elicitation/create")
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
				if how == "session ended elsewhere" && e.Result != nil { // the end of the call may be heard of first
					said, bad := text(t, e.Result)
					require.True(t, bad)
					require.Contains(t, said, "Cancelled")
					continue
				}
				require.Nil(t, e.Result)
			}
			until(t, func() bool { return w.was() == "+ -" })
		})
	}
}

// A client that has lost its stream, or whose server stops, reads on elsewhere.
func TestWaitingStreamsMove(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"lost", "taken over", "stopped"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := waitingRig(t, new(world), false)
			c := r[0].connect("2025-11-25", everything)
			s := c.stream(roundsCall(4, 1, "I"))
			q := s.wait("elicitation/create")
			switch how {
			case "lost":
				s.close()
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
			assert.Equal(t, string(q.ID), string(moved.wait("elicitation/create").ID))
			c.at(r[1]).reply(q.ID, named("x"))
			said, _ := text(t, moved.wait("").Result)
			assert.Equal(t, "I x", said)
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
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { h.ServeHTTP(wrapped{w, written}, q) }))
	t.Cleanup(web.Close)
	return web.URL
}

// Streams go through writers that are not net/http's own, HTTP/2 and TLS.
func TestWaitingStreamsThroughOthers(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"middleware", "HTTP/2", "TLS"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := waitingRig(t, new(world), false)
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
				c.reply(q.ID, named(fmt.Sprint(i)))
			}
			said, _ := text(t, s.wait("").Result)
			assert.Equal(t, "I 0 1", said)
			s.end()
			assert.Equal(t, kind == "middleware", written.Load() > 0)
		})
	}
}
