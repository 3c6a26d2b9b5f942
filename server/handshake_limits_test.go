package server_test

import (
	"bufio"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What is in memory of sessions is bounded: of those not in use, the one unused for the
// longest gives way, and goes on by its id.
func TestHandshakeSessionLimits(t *testing.T) {
	r := newRig(t, server.Options{Authenticate: who, MaxSessions: 4, MaxSessionsPerPrincipal: 2, Tools: legacyDefinitions()})
	first := r.connect("2025-11-25", everything, as("ann"))
	second := r.connect("2025-11-25", everything, as("ann"))
	third := r.connect("2025-11-25", everything, as("ann"))
	s := first.stream(toolCall(1, "complex_tool", `{}`))
	form := s.wait("elicitation/create")
	second.setLevel("error")
	third.setLevel("error") // takes the place of the second, as the first is in use
	assert.NotContains(t, third.hears(), "notifications/message")
	assert.Contains(t, second.hears(), "notifications/message", "its level was in memory")
	first.reply(form.ID, `{"action":"decline"}`)
	s.wait("")

	var busy []*legacyClient
	for range 2 {
		c := r.connect("2025-11-25", everything, as("bob"))
		c.stream(toolCall(1, "complex_tool", `{}`)).wait("elicitation/create")
		busy = append(busy, c)
	}
	c := r.connect("2025-11-25", everything, as("bob"))
	resp := c.post(toolCall(1, "sum", `{}`))
	assert.Contains(t, readAll(t, resp), "too many sessions")
	assert.Equal(t, 503, resp.StatusCode)
	assert.Equal(t, "60", resp.Header.Get("Retry-After"))
	assert.Contains(t, c.ask(listTools), `"tools"`, "what needs no memory is served")
	assert.Equal(t, 202, c.post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`).StatusCode)
	assert.Contains(t, busy[0].ask(toolCall(2, "sum", `{}`)), `"sum":3`)
}

// setLevel has the session changed, and so kept in memory.
func (c *legacyClient) setLevel(level string) {
	c.t.Helper()
	assert.Contains(c.t, c.ask(`{"jsonrpc":"2.0","id":90,"method":"logging/setLevel","params":{"level":"`+level+`"}}`), `"result":{}`)
}

// hears returns what a call that logs something is answered with.
func (c *legacyClient) hears() string {
	c.t.Helper()
	return readAll(c.t, c.post(toolCall(91, "flood", `{"n":1}`)))
}

// Callers without credentials that can be told apart have the limits of one each; those that
// cannot share what there is. Nobody's calls are ended for others.
func TestSessionLimitsOfAnonymousCallers(t *testing.T) {
	r := newRig(t, server.Options{
		MaxSessions: 5, MaxSessionsPerPrincipal: 2, Tools: legacyDefinitions(),
		CallerKey: func(r *http.Request) string { return r.Header.Get("Who") },
	})
	wait := func(change ...func(*legacyClient)) (s *sseReader, status int) {
		resp := r.connect("2025-11-25", everything, change...).post(toolCall(1, "complex_tool", `{}`))
		if resp.StatusCode != 200 {
			readAll(t, resp)
			return nil, resp.StatusCode
		}
		s = &sseReader{t: t, body: resp.Body, in: bufio.NewReader(resp.Body)}
		t.Cleanup(s.close)
		s.wait("elicitation/create")
		return s, 200
	}
	for i, want := range []int{200, 200, 503} {
		_, status := wait(as("bob"))
		assert.Equal(t, want, status, i)
	}
	for i, want := range []int{200, 200, 200, 503} {
		_, status := wait()
		assert.Equal(t, want, status, "%d: there is a limit for all as well", i)
	}
	_, status := wait(as("ann"))
	assert.Equal(t, 503, status)
}

// Requests of one session are served at the same time, up to a limit.
func TestHandshakeManyAtOnce(t *testing.T) {
	g := newGate()
	r := newRig(t, server.Options{Tools: legacyDefinitions(g.tool())})
	c := r.connect("2025-11-25", everything)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			assert.Contains(t, readAll(t, c.post(toolCall(i, "gate", `{}`))), "left") // as JSON or as a stream
		})
	}
	for range 100 {
		<-g.entered
	}
	assert.Contains(t, c.ask(toolCall(100, "gate", `{}`)), "too many requests")
	assert.Contains(t, c.ask(toolCall(3, "gate", `{}`)), "in use")
	for range 100 {
		g.leave <- true
	}
	all.Wait()
	assert.Contains(t, c.ask(toolCall(100, "sum", `{}`)), `"sum":3`)
}

// As many calls of one caller wait as its limits say, in one session and in several, whichever
// revision its clients speak.
func TestWaitingCallsAreBounded(t *testing.T) {
	t.Parallel()
	thinks := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "thinks", Asks: []steps.Question{legacySample}},
		Run:  func(r *saga.Run, _ struct{}) (string, error) { return "thought", r.AskAll(legacySample) },
	}
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := waitingRig(t, new(world), false, func(o *server.Options) {
				o.Authenticate, o.MaxSessionsPerPrincipal, o.Tools = who, 1, []saga.Definition{thinks}
			})[0]
			waiting := 0
			call := func(c *legacyClient, id int) {
				resp := c.post(toolCall(id, "thinks", `{}`))
				if resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Type") == "text/event-stream" {
					c.read(resp).wait("sampling/createMessage")
					waiting++
					return
				}
				assert.Contains(t, readAll(t, resp), "too many")
			}
			first := r.connect(version, everything, as("ann"))
			for i := range 4 {
				call(first, 1+i)
				call(r.connect(version, everything, as("ann")), 1)
				call(first, 10+i)
			}
			assert.Equal(t, 2, waiting)
			call(r.connect(version, everything, as("bob")), 1)
			assert.Equal(t, 3, waiting, "others are served")
		})
	}
}
