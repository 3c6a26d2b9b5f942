package client

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A header says what the body says, encoded where it could not stand as it is.
func TestEncodeHeader(t *testing.T) {
	for value, want := range map[string]string{
		"notes://7": "notes://7", "a b": "a b", "": "", "~ !": "~ !",
		" a": "=?base64?IGE=?=", "a ": "=?base64?YSA=?=", "a\nb": "=?base64?YQpi?=", "\x7f": "=?base64?fw==?=",
		"é": "=?base64?w6k=?=", "=?base64?x": "=?base64?" + base64.StdEncoding.EncodeToString([]byte("=?base64?x")) + "?=",
	} {
		assert.Equal(t, want, encodeHeader(value), "%q", value)
	}
	assert.Empty(t, sagaDialect{}.list("tools/list", "").header, "a request of no revision")
	assert.Equal(t, map[string]string{"MCP-Protocol-Version": revision, "Mcp-Method": "prompts/list"}, statelessDialect{}.list("prompts/list", "").header)
	assert.Equal(t, map[string]string{"MCP-Protocol-Version": revision, "Mcp-Method": "prompts/get", "Mcp-Name": "p"},
		statelessDialect{}.next(&Position{Prompt: "p"}, new(Handlers)).header)
}
