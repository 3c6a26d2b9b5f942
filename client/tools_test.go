package client_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

func TestToolsReadsAllPages(t *testing.T) {
	s := play(t,
		result(`{"tools":[{"name":"a","inputSchema":{"type":"object"},"_meta":{"io.github.mcpsaga/saga":{}}}],"nextCursor":"c"}`),
		result(`{"tools":[{"name":"b","inputSchema":{"type":"object"},"title":"B","later":1}]}`))
	tools, err := s.client(t).Tools(t.Context())
	require.NoError(t, err)
	require.Len(t, tools, 2)
	assert.Equal(t, "B", tools[1].Title)
	assert.True(t, tools[0].IsSaga())
	assert.False(t, tools[1].IsSaga())
	assert.JSONEq(t, `{}`, string(s.got()[0].Params))
	assert.JSONEq(t, `{"cursor":"c"}`, string(s.got()[1].Params))
}

func TestToolsMalformed(t *testing.T) {
	s := play(t, result(`{"tools":7}`))
	_, err := s.client(t).Tools(t.Context())
	var wrong *client.ProtocolError
	require.ErrorAs(t, err, &wrong)
}
