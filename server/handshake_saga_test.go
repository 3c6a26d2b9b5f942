package server_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/server"
)

func TestHandshakeComplexTool(t *testing.T) {
	r := newRig(t, server.Options{})
	c := r.connect("2025-11-25", everything)
	s := c.stream(toolCall(7, "complex_tool", `{}`))
	first, err := s.next()
	require.NoError(t, err)
	assert.NotEmpty(t, first.id)
	assert.NotEmpty(t, first.retry)
	assert.Empty(t, first.data)
	form := s.wait("elicitation/create")
	c.reply(form.ID, `{"action":"accept","content":{"target":"staging"}}`)
	sample := s.wait("sampling/createMessage")
	assert.NotEqual(t, form.ID, sample.ID)
	assert.Contains(t, string(sample.Params), "Is deploying to 'staging' safe right now?")
	c.reply(sample.ID, `{"role":"assistant","content":{"type":"text","text":"Yes."},"model":"m"}`)
	end := s.wait("")
	assert.Equal(t, json.RawMessage("7"), end.ID)
	got, isError := text(t, end.Result)
	assert.False(t, isError)
	assert.Equal(t, "Deployment to staging initiated successfully based on confirmation.", got)
	s.end()
}
