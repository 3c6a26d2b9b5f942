package client_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

// A server that asks by a request where there are none waits for an answer that cannot come: the
// call ends at once, and says what to speak.
func TestRequestsOfOlderRevisionsEndTheCall(t *testing.T) {
	s := play(t, result(`{"supportedVersions":["2026-07-28"],"capabilities":{}}`), result(`{"tools":[]}`),
		body(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n"+
			"data: {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"elicitation/create\",\"params\":{}}\n\n"))
	c := client.New(&client.HTTP{URL: s.URL}, client.Options{})
	defer c.Close()
	var people people
	_, err := c.Call(t.Context(), "x", nil, people.handlers())
	var odd *client.ProtocolError
	require.ErrorAs(t, err, &odd)
	assert.Contains(t, odd.Reason, `the server sent the request "elicitation/create"`)
	assert.Contains(t, odd.Reason, "--protocol 2025-11-25")
}
