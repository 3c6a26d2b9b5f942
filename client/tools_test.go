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

func TestInitialize(t *testing.T) {
	s := play(t, result(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"},"instructions":"i"}`))
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{Protocol: "saga", Name: "test", Version: "9"})
	t.Cleanup(func() { _ = c.Close() })
	info, err := c.Initialize(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "n", info.Name)
	assert.Equal(t, "2025-06-18", info.ProtocolVersion)
	assert.JSONEq(t, `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"9"}}`, string(s.got()[0].Params))
}
