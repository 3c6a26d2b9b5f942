package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Gateways may let a message pass for what its headers say. In the dialects that do
// not know these headers, too, they must not say something else than the body.
func TestHeadersMustNotContradictTheBody(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	c := r.connect("2025-11-25", everything)
	const callSaga = `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"complex_tool","arguments":{"initial_arg":"v"}}}`
	sum := toolCall(1, "sum", `{}`)
	read := `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"static://one"}}`
	tests := []struct {
		name, body   string
		method, tool string // the headers; "-" is none
		session      bool
		want         string // what the response contains if it is let pass
	}{
		{"session, none", sum, "-", "-", true, `"sum":3`},
		{"session, both agree", sum, "tools/call", "sum", true, `"sum":3`},
		{"session, the name is encoded", sum, "tools/call", "=?base64?c3Vt?=", true, `"sum":3`},
		{"session, another method", sum, "tools/list", "-", true, ""},
		{"session, another case", sum, "Tools/Call", "-", true, ""},
		{"session, another tool", sum, "tools/call", "ask", true, ""},
		{"session, another tool, encoded", sum, "-", "=?base64?YXNr?=", true, ""},
		{"session, an empty name", sum, "-", "", true, ""},
		{"session, a name that cannot be decoded", sum, "-", "=?base64?c3V?=", true, ""},
		{"session, a resource", read, "resources/read", "static://one", true, `"contents"`},
		{"session, another resource", read, "resources/read", "static://two", true, ""},
		{"session, a notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "tools/list", "-", true, ""},
		{"no session", listTools, "tools/list", "-", false, `"tools"`},
		{"no session, another method", listTools, "ping", "-", false, ""},
		{"initialize, another method", initializeMessage("2025-11-25", everything), "ping", "-", false, ""},
		{"initialize", initializeMessage("2025-11-25", everything), "initialize", "-", false, `"protocolVersion"`},
		{"saga, none", callSaga, "-", "-", false, `"suspended"`},
		{"saga, both agree", callSaga, "tools/callSaga", "complex_tool", false, `"suspended"`},
		{"saga, another method", callSaga, "tools/list", "-", false, ""},
		{"saga, another tool", callSaga, "tools/callSaga", "sum", false, ""},
		{"saga, no tool at all", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{}}`, "-", "sum", false, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status, body := r.do(http.MethodPost, "/mcp", test.body, func(q *http.Request) {
				if test.session {
					q.Header.Set("Mcp-Session-Id", c.session)
				}
				if test.method != "-" {
					q.Header.Set("Mcp-Method", test.method)
				}
				if test.tool != "-" {
					q.Header.Set("Mcp-Name", test.tool)
				}
			})
			if test.want != "" {
				assert.Equal(t, 200, status, body)
				assert.Contains(t, body, test.want)
				return
			}
			assert.Equal(t, 400, status)
			assert.Equal(t, int64(-32020), jsontest.Get(body, "error.code").Int(), body)
			assert.Equal(t, jsontest.Get(test.body, "id").Raw, strings.Replace(jsontest.Get(body, "id").Raw, "null", "", 1))
		})
	}
	t.Run("twice", func(t *testing.T) {
		status, _ := r.do(http.MethodPost, "/mcp", listTools, func(q *http.Request) { q.Header["Mcp-Method"] = []string{"tools/list", "ping"} })
		assert.Equal(t, 400, status)
	})
	t.Run("batch", func(t *testing.T) {
		old := r.connect("2025-03-26", everything)
		for header, want := range map[string]int{"Mcp-Method": 400, "Mcp-Name": 400, "Mcp-Else": 200} {
			resp := old.request(http.MethodPost, "["+listTools+"]", func(q *http.Request) { q.Header.Set(header, "tools/list") })
			body := readAll(t, resp)
			assert.Equal(t, want, resp.StatusCode, body)
			assert.Equal(t, want == 400, strings.Contains(body, "-32020"), body)
		}
	})
}

// The messages that carry a token name no tool: the token does. What a header says
// is compared with that, and the refusal is that of all tokens.
func TestHeadersMustNotContradictTheToken(t *testing.T) {
	held := map[saga.Key]bool{}
	r := newRig(t, server.Options{Tools: []saga.Definition{roomTool(1, held), complextool.Tool}})
	for _, method := range []string{"resumeSaga", "cancelSaga"} {
		token := parse(t, r.post(callRoom)).Result.SagaToken
		post := func(name string) string {
			status, body := r.do(http.MethodPost, "/mcp", roomMessage(method, token, sure), func(q *http.Request) {
				q.Header.Set("Mcp-Method", "tools/"+method)
				q.Header.Set("Mcp-Name", name)
			})
			require.Equal(t, 200, status, body)
			return body
		}
		assert.JSONEq(t, strings.Replace(refusal, `"client-req-2"`, "2", 1), post("complex_tool"))
		assert.Contains(t, r.log.take(), `"reason":"tool"`)
		assert.Len(t, held, 1)
		assert.Contains(t, post("room"), "yours")
		clear(held)
	}
}
