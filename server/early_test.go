package server_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

const behind = `"error":{"code":-31503,"message":"this server's clock is behind the saga: send the same request again","data":{"retryable":true}}`

// A clock that was set back, or another replica's that is ahead, ends no saga: what it
// has done would stay done.
func TestTokensOfTheFutureAreTakenLater(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	now := &clock{now: noon}
	held := map[saga.Key]bool{}
	r := newRig(t, server.Options{Now: now.Now, Tools: []saga.Definition{roomTool(1, held)}})
	setBack := func(t *testing.T) {
		now.set(noon.Add(-time.Hour))
		t.Cleanup(func() { now.set(noon); clear(held); r.log.take() })
	}
	start := func(t *testing.T) string {
		token := parse(t, r.post(callRoom)).Result.SagaToken
		require.Len(t, held, 1)
		return token
	}
	t.Run("saga", func(t *testing.T) {
		token := start(t)
		setBack(t)
		for _, answers := range []string{sure, `,"completedSteps":[]`} {
			status, body := r.do(http.MethodPost, "/mcp", roomMessage("resumeSaga", token, answers), nil)
			assert.Equal(t, http.StatusServiceUnavailable, status)
			assert.Contains(t, body, behind)
			assert.Len(t, held, 1, "nothing is lost")
			log := r.log.take()
			assert.Contains(t, log, "look at the clocks of the replicas: issued at 2026-11-21 12:00:00")
			assert.Contains(t, log, `"tool":"room"`)
		}
		now.set(noon.Add(-time.Minute)) // as far as clocks may differ
		assert.Contains(t, r.post(roomMessage("resumeSaga", token, sure)), "yours")
	})
	t.Run("saga on stdio", func(t *testing.T) {
		token := start(t)
		setBack(t)
		var out bytes.Buffer
		require.NoError(t, r.srv.ServeStdio(t.Context(), strings.NewReader(roomMessage("resumeSaga", token, sure)+"\n"), &out))
		assert.Contains(t, out.String(), behind)
		assert.Len(t, held, 1)
	})
	t.Run("cancelled", func(t *testing.T) {
		token := start(t)
		setBack(t)
		body := r.post(roomMessage("cancelSaga", token, ""))
		assert.Equal(t, []string{"room"}, undone(t, body))
		assert.Contains(t, body, "Cancelled.")
		assert.Empty(t, held)
	})
	t.Run("cancelled after a lost turn", func(t *testing.T) {
		token := start(t)
		setBack(t)
		assert.Contains(t, r.post(roomMessage("cancelSaga", token, sure)), "yours", "that turn had ended it")
	})
	t.Run("2026-07-28", func(t *testing.T) {
		retry := func(state string) *request {
			return callTool("room", nil).with(allCapabilities).answering(state, object{"sure": object{"action": "accept", "content": object{"sure": true}}})
		}
		state := r.state(callTool("room", nil))
		setBack(t)
		got := r.send(retry(state))
		assert.Equal(t, http.StatusServiceUnavailable, got.status)
		assert.Equal(t, "1", got.header.Get("Retry-After"))
		assert.Contains(t, got.raw, behind)
		assert.Len(t, held, 1)
		now.set(noon)
		assert.Equal(t, "yours", r.send(retry(state)).result(t).text())

		clear(held)
		state = r.state(callTool("room", nil))
		now.set(noon.Add(-time.Hour))
		assert.Equal(t, []string{"room"}, undone(t, r.post(roomMessage("cancelSaga", state, ""))))
		assert.Empty(t, held)
	})
	t.Run("before 2026-07-28", func(t *testing.T) {
		c := r.connect("2025-11-25", everything)
		s := c.stream(toolCall(7, "room", `{}`))
		question := s.wait("elicitation/create")
		assert.Len(t, held, 1)
		setBack(t)
		c.reply(question.ID, accepted(`{"sure":true}`))
		end := s.wait("")
		assert.Contains(t, string(end.Result), "yours", "the token never left the server")
		assert.Len(t, held, 1)
	})
}

// During a deployment a replica may meet what only a newer program knows how to read.
func TestTokensOfANewerProgramAreTakenElsewhere(t *testing.T) {
	keys := newKeys(t)
	r := newRig(t, server.Options{Keys: keys})
	newer, err := tokens.New(keys, tokens.Options{MaxPlaintext: tokens.HardMaxPlaintext})
	require.NoError(t, err)
	token, err := newer.Seal(tokens.Binding{Purpose: "saga"}, time.Now(), &tokens.Contents{
		Claims: tokens.Claims{Tool: "complex_tool"}, State: make([]byte, tokens.DefaultMaxPlaintext+1),
	})
	require.NoError(t, err)
	for _, method := range []string{"resumeSaga", "cancelSaga"} {
		status, body := r.do(http.MethodPost, "/mcp", roomMessage(method, token, sure), nil)
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Contains(t, body, `"error":{"code":-31503,"message":"this server is older than the saga: send the same request again"`)
		assert.Contains(t, r.log.take(), "exceeds the limit")
	}
	// Who is not meant learns nothing of that.
	other := newRig(t, server.Options{Keys: keys, Audience: "there"})
	assert.Equal(t, -32602, parse(t, other.post(roomMessage("resumeSaga", token, sure))).Error.Code)
}
