package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A client of MCP 2026-07-28 sends the answers to the last questions. What it sends
// besides, such as another answer to an earlier one, is to be ignored.
func TestMRTRIgnoresAnswersThatAreNotAskedFor(t *testing.T) {
	r := newRig(t, server.Options{Tools: []saga.Definition{rememberingTool()}})
	q := callTool("remember", nil)
	state := r.state(q)
	first := object{"more": object{"action": "accept", "content": object{"text": "a"}}}
	second := r.send(q.answering(state, first)).result(t)
	require.Contains(t, second.asked(), "more~2")
	other := object{
		"more":    object{"action": "accept", "content": object{"text": "another"}},
		"more~2":  object{"action": "accept", "content": object{"text": "b"}},
		"unknown": object{},
	}
	third := r.send(q.answering(second.RequestState, other))
	require.Zero(t, third.code(), third.raw)
	assert.Contains(t, third.result(t).asked(), "more~3")
}

// The arguments come with every request of MCP 2026-07-28, so its state need not
// hold them: only a digest.
func TestMRTRStateDoesNotHoldArguments(t *testing.T) {
	r := newRig(t, server.Options{Tools: []saga.Definition{rememberingTool()}})
	short := r.state(callTool("remember", object{"text": "a"}))
	long := r.state(callTool("remember", object{"text": noise(20_000)}))
	assert.Len(t, long, len(short))
}

// A token that only tries an undo again is of no other use, and to refuse it undoes
// nothing.
func TestTokenOfAnUndoIsNotResumed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		held := map[saga.Key]bool{}
		tool := roomTool(1, held)
		room := tool.Effects[0].(*saga.Effect[string, bool])
		undos := 0
		room.Undo = func(context.Context, saga.Performed[string, bool]) error {
			undos++
			return errors.New("not now")
		}
		r := newRig(t, server.Options{Tools: []saga.Definition{tool}})
		token := parse(t, r.post(callRoom)).Result.SagaToken
		again := jsontest.Get(r.post(roomMessage("cancelSaga", token, "")), `result._meta.io\.github\.mcpsaga/undo.sagaToken`).String()
		require.NotEmpty(t, again)
		tried := undos // an undo that fails is tried again at once
		assert.JSONEq(t, strings.Replace(refusal, `"client-req-2"`, "2", 1), r.post(roomMessage("resumeSaga", again, sure)))
		assert.Equal(t, tried, undos)

		// As long as the undo fails, each try brings a token for the next.
		next := jsontest.Get(r.post(roomMessage("cancelSaga", again, "")), `result._meta.io\.github\.mcpsaga/undo.sagaToken`).String()
		assert.Greater(t, undos, tried)
		assert.NotEmpty(t, next)
		assert.NotEqual(t, again, next)
	})
}

// forgetful is an encoding that cannot read what it wrote of one seat.
type forgetful struct{}

func (forgetful) Marshal(v any) ([]byte, error) { return json.Marshal(v) }
func (forgetful) Unmarshal(data []byte, v any) error {
	if strings.Contains(string(data), "12") { // registration tries others
		return errors.New("unreadable")
	}
	return json.Unmarshal(data, v)
}

// A saga in a session whose state cannot be read is undone by the engine, which is
// enough: nobody can take its turn again.
func TestHeldSagaOfUnreadableStateIsUndoneOnce(t *testing.T) {
	held := map[saga.Key]bool{}
	tool := seatTool(held)
	tool.Encoding = forgetful{}
	seat := tool.Effects[0].(*saga.Effect[string, bool])
	undos := 0
	seat.Undo = func(context.Context, saga.Performed[string, bool]) error {
		undos++
		return nil
	}
	r := newRig(t, server.Options{Tools: []saga.Definition{tool}})
	c := r.connect("2025-11-25", everything)
	s := c.stream(toolCall(1, "seat", `{}`))
	c.reply(s.wait("elicitation/create").ID, `{"action":"accept","content":{"sure":true}}`)
	s.wait("")
	assert.Equal(t, 1, undos)
}
