package client

import (
	"encoding/base64"
	"net/http"
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
	h := http.Header{}
	(&request{method: "m"}).setHeaders(h)
	assert.Empty(t, h, "a request of no revision")
	(&request{method: "prompts/list", revision: Revision}).setHeaders(h)
	assert.Equal(t, http.Header{"Mcp-Protocol-Version": {Revision}, "Mcp-Method": {"prompts/list"}}, h)
}
