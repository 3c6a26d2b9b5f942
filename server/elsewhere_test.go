package server_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// waits is what a result says of a call that is not finished.
type waits struct {
	Status, Message, ResumeToken, URL string
	Questions                         []struct {
		ID, Message string
		Schema      json.RawMessage
		Relay       bool
	}
}

// waitsOf reads a result whose text and structure say the same.
func waitsOf(t *testing.T, raw json.RawMessage) waits {
	t.Helper()
	var r struct {
		Content           []struct{ Text string }
		StructuredContent waits
		IsError           bool
	}
	require.NoError(t, json.Unmarshal(raw, &r))
	require.NotEmpty(t, r.StructuredContent.ResumeToken, "%s", raw)
	require.Len(t, r.Content, 1)
	assert.Equal(t, r.Content[0].Text, r.StructuredContent.Message)
	assert.Contains(t, r.Content[0].Text, "resumeToken: "+r.StructuredContent.ResumeToken)
	return r.StructuredContent
}

// A client that can ask nothing is told what to ask its user, and goes on with what that has said.
func TestModelsRelay(t *testing.T) {
	for name, store := range map[string]ledger.Store{"no ledger": nil, "ledger": inMemory(t)} {
		t.Run(name, func(t *testing.T) {
			s := new(seats)
			r := newRig(t, server.Options{Ledger: store, Tools: []saga.Definition{s.tool()}})
			first := waitsOf(t, r.send(callTool("seat", object{})).Result)
			assert.Equal(t, "waiting", first.Status)
			require.Len(t, first.Questions, 1)
			assert.Equal(t, "row", first.Questions[0].ID)
			if store != nil {
				assert.LessOrEqual(t, len(first.ResumeToken), 32)
			}
			second := waitsOf(t, r.send(callTool("seat", object{"resumeToken": first.ResumeToken, "answers": object{"row": object{"row": "7"}}})).Result)
			require.Len(t, second.Questions, 1)
			assert.Equal(t, "sure", second.Questions[0].ID)
			end := r.send(callTool("seat", object{"resumeToken": second.ResumeToken, "answers": object{"sure": object{"sure": true}}}))
			assert.Equal(t, "seat in 7", end.result(t).text(), end.raw)
		})
	}
}
