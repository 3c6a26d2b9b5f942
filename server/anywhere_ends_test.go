package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A call is cancelled at any replica: it is undone, its question taken back, and not answered.
func TestCancelAtAnyReplica(t *testing.T) {
	for r := range 3 {
		w := new(world)
		a := newAnywhere(t, roundsTool(w))
		c := a.rigs[0].connect("2025-11-25", everything)
		s := c.stream(roundsCall(7, 1, "I"))
		asked := s.wait("elicitation/create")
		c.at(a.rigs[r]).post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}`).Body.Close()
		c.at(a.rigs[r]).post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`).Body.Close()
		assert.Contains(t, string(s.wait("notifications/cancelled").Params), string(asked.ID))
		s.end()
		until(t, func() bool { return w.was() == "+ -" })
	}
}

// The end of a session ends its calls, wherever they are: also those that no replica follows any more, as the
// client's connection has broken, or the replica is gone. Other sessions of the same caller go on, and so do calls
// that the client can make again.
func TestSessionEndsWithItsCalls(t *testing.T) {
	for _, test := range []struct {
		name   string
		at     int // the replica where the session ends
		broken time.Duration
		gone   bool
	}{
		{"here", 0, 0, false},
		{"elsewhere", 1, 0, false},
		{"here, broken", 0, 300 * time.Millisecond, false},
		{"here, broken for a minute", 0, time.Minute, false},
		{"elsewhere, broken", 1, 300 * time.Millisecond, false},
		{"elsewhere, broken for a minute", 1, time.Minute, false},
		{"elsewhere, the replica is gone", 1, time.Minute, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := new(world)
				a := newAnywhere(t, roundsTool(w))
				c := a.rigs[0].connect("2025-11-25", everything)
				other := a.rigs[0].connect("2025-11-25", everything)
				stays := other.stream(roundsCall(7, 1, "I"))
				asked := stays.wait("elicitation/create")
				keyed := methodCall(9, "tools/call", `{"name":"rounds","arguments":{"rounds":1},"_meta":{"io.github.mcpsaga/idempotencyKey":"key"}}`)
				for _, call := range []string{roundsCall(1, 1, "I"), roundsCall(2, 1, "I"), roundsCall(3, 1, "I"), keyed} {
					s := c.stream(call)
					s.wait("elicitation/create")
					if test.broken > 0 {
						s.close()
					}
				}
				time.Sleep(test.broken)
				if test.gone {
					a.rigs[0].srv.Close()
				}
				assert.Equal(t, "+ + + + +", w.was())
				assert.Equal(t, 204, c.at(a.rigs[test.at]).request("DELETE", "", nil).StatusCode)
				time.Sleep(5 * time.Second)
				assert.Equal(t, "+ + + + + - - -", w.was())
				other.at(a.rigs[2]).reply(asked.ID, named("x"))
				said, _ := text(t, other.at(a.rigs[2]).get(asked.id).wait("").Result)
				assert.Equal(t, "I x", said)
			})
		})
	}
}

// A client that ends its session need not wait for the response.
func TestSessionEndsWhileItsClientLeaves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := new(world)
		a := newAnywhere(t, roundsTool(w))
		c := a.rigs[0].connect("2025-11-25", everything)
		s := c.stream(roundsCall(1, 1, "I"))
		s.wait("elicitation/create")
		s.close()
		time.Sleep(time.Minute)
		left, leave := context.WithCancel(t.Context())
		leave()
		r := httptest.NewRequestWithContext(left, http.MethodDelete, "http://localhost/mcp", nil)
		r.Header.Set("Mcp-Session-Id", c.session)
		a.rigs[1].srv.Handler().ServeHTTP(httptest.NewRecorder(), r)
		time.Sleep(5 * time.Second)
		assert.Equal(t, "+ -", w.was())
		again := c.at(a.rigs[2]).request(http.MethodDelete, "", nil)
		assert.Equal(t, 404, again.StatusCode, readAll(t, again))
	})
}

// A replica that stops ends streams without an answer where the client reads on elsewhere. Clients
// of earlier revisions do not: what they answer elsewhere is waited for.
func TestReplicaStops(t *testing.T) {
	w := new(world)
	model := saga.Machine[empty, string]{
		Info:  saga.Info{Name: "model", Asks: []steps.Question{legacySample}},
		Start: func(t *saga.Turn[empty, string]) (saga.Next, error) { return t.Ask("asked", legacySample) },
		Steps: saga.Steps[empty, string]{"asked": func(t *saga.Turn[empty, string]) (saga.Next, error) { return t.Textf("done") }},
	}
	a := newAnywhere(t, roundsTool(w), model)
	c := a.rigs[0].connect("2025-11-25", everything)
	s := c.stream(roundsCall(7, 1, "I"))
	asked := s.wait("elicitation/create")
	var older []*legacyClient
	var streams []*sseReader
	var questions []sseEvent
	for _, version := range []string{"2025-06-18", "2024-11-05"} {
		one := a.rigs[0].connect(version, everything)
		older, streams = append(older, one), append(streams, one.stream(toolCall(7, "model", "{}")))
		questions = append(questions, streams[len(streams)-1].wait("sampling/createMessage"))
	}
	a.rigs[0].srv.CloseStreams()
	m, err := s.next()
	require.NoError(t, err)
	assert.Equal(t, "1000", m.retry)
	assert.Empty(t, m.data)
	s.end()
	for i := range older {
		older[i].at(a.rigs[1]).reply(questions[i].ID, `{"role":"assistant","content":{"type":"text","text":"Yes."},"model":"m"}`)
		said, _ := text(t, streams[i].wait("").Result)
		assert.Equal(t, "done", said)
	}
	a.rigs[0].srv.Close()
	s = c.at(a.rigs[1]).get(asked.id)
	s.wait("elicitation/create")
	c.at(a.rigs[2]).reply(asked.ID, named("x"))
	said, _ := text(t, s.wait("").Result)
	assert.Equal(t, "I x", said)
	assert.Equal(t, "+", w.was())
}
