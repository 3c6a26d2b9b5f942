package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A client that has a session cancels a saga method's request there, as any other of
// its requests; nobody else does.
func TestSagaMethodsAreCancelledInTheirSession(t *testing.T) {
	held := map[saga.Key]bool{}
	tool, entered := holding(held)
	r := newRig(t, server.Options{Tools: []saga.Definition{tool}, Authenticate: who, TurnTimeout: time.Minute})
	ann, other, bob := r.connect("2025-11-25", everything, as("ann")), r.connect("2025-11-25", everything, as("ann")), r.connect("2025-11-25", everything, as("bob"))
	begin := func(ctx context.Context, user, session string) <-chan string {
		answer := make(chan string, 1)
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/mcp", strings.NewReader(callRoom))
		require.NoError(t, err)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Who", user)
		q.Header.Set("Mcp-Session-Id", session)
		go func() {
			resp, err := r.client().Do(q)
			if err != nil {
				answer <- err.Error()
				return
			}
			answer <- readAll(t, resp)
		}()
		<-entered
		return answer
	}
	cancel := func(c *legacyClient) {
		require.Equal(t, http.StatusAccepted, c.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`).StatusCode)
	}
	goesOn := func(answer <-chan string) {
		t.Helper()
		select {
		case body := <-answer:
			require.Fail(t, "cancelled by somebody else", body)
		case <-time.After(30 * time.Millisecond):
		}
	}
	answer := begin(t.Context(), "ann", ann.session)
	cancel(other)
	cancel(bob)
	goesOn(answer)
	cancel(ann)
	assert.Contains(t, <-answer, "the client cancelled the request")
	assert.Empty(t, held, "its client has no token to cancel it")
	answer = begin(t.Context(), "ann", ann.session)
	cancel(ann)
	assert.Contains(t, <-answer, "the client cancelled the request", "the id is free again")

	// Whoever names a session of somebody else is not of it.
	ctx, leave := context.WithCancel(t.Context())
	answer = begin(ctx, "bob", ann.session)
	cancel(ann)
	goesOn(answer)
	leave()
	assert.Contains(t, <-answer, "canceled")
	until(t, func() bool { return strings.Count(r.log.take(), "turn cancelled") > 0 })
}

// A saga method keeps the session that it names from ending while it is served, if it is its
// client's own.
func TestSagaMethodsUseTheirOwnSessionOnly(t *testing.T) {
	for user, want := range map[string]int{"": http.StatusNoContent, "bob": http.StatusNotFound} {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			b := newBubble(t, server.Options{SessionTTL: time.Minute, TurnTimeout: 3 * time.Hour, Tools: []saga.Definition{g.tool()}, Authenticate: who})
			done := make(chan string)
			go func() {
				r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(strings.Replace(callRoom, "room", "gate", 1)))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Mcp-Session-Id", b.session)
				r.Header.Set("Who", user)
				w := httptest.NewRecorder()
				b.handler.ServeHTTP(w, r)
				done <- w.Body.String()
			}()
			time.Sleep(time.Hour)
			assert.Equal(t, want, b.do("DELETE", "").Code, user)
			g.leave <- true
			assert.Contains(t, <-done, "left", "the call does not depend on it")
		})
	}
}
