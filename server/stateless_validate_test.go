package server_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

func newModern(t testing.TB) *rig {
	return newRig(t, server.Options{Questions: unasked, Tools: statelessTools()})
}

// A request with all faults is told of the first one in the order of the ladder;
// with that mended, of the next.
func TestStatelessLadder(t *testing.T) {
	r := newRig(t, server.Options{Tools: statelessTools(), Authenticate: func(q *http.Request) (saga.Caller, error) {
		if q.Header.Get("Authorization") == "" {
			return saga.Caller{}, fmt.Errorf("none")
		}
		return saga.Caller{}, nil
	}})
	q := modernRequest("tools/nope", object{"name": "headers", "arguments": object{"region": "x"}})
	q.header = http.Header{"Origin": {"https://evil.example"}, "Content-Type": {"text/plain"}}
	q.meta = nil
	body, method := "{", http.MethodGet
	send := func() (int, string) {
		return r.do(method, "/mcp", body, func(h *http.Request) { h.Header = q.header.Clone() })
	}
	rungs := []struct {
		name   string
		status int
		want   string
		mend   func()
	}{
		{"origin", 403, "origin not allowed", func() { q.header.Del("Origin") }},
		{"credential", 401, "authentication", func() { q.header.Set("Authorization", "Bearer x") }},
		{"verb", 405, "only POST", func() { method = http.MethodPost }},
		{"content type", 415, "application/json", func() { q.header.Set("Content-Type", "application/json") }},
		{"JSON", 400, "-32700", func() { body = `[]` }},
		{"one message", 400, "-32600", func() { body = `{"jsonrpc":"2.0","id":null,"method":"x"}` }},
		{"id", 400, "-32600", func() { q.meta = object{versionMeta: "1900-01-01"}; body = q.body() }},
		{"version header", 400, `"id":1,"error":{"code":-32020`, func() { q.header.Set("Mcp-Protocol-Version", "2026-07-28") }},
		{"client capabilities", 400, `"code":-32602`, func() { q.meta[capabilitiesMeta] = object{}; body = q.body() }},
		{"versions differ", 400, `"code":-32020`, func() { q.header.Set("Mcp-Protocol-Version", "1900-01-01") }},
		{"version unknown", 400, `"code":-32022`, func() {
			q.header.Set("Mcp-Protocol-Version", "2026-07-28")
			q.meta[versionMeta] = "2026-07-28"
			body = q.body()
		}},
		{"method header", 400, `-32020,"message":"the header Mcp-Method is missing`, func() { q.header.Set("Mcp-Method", "tools/nope") }},
		{"method unknown", 404, `"code":-32601`, func() { q.method = "tools/call"; body = q.body() }},
		{"method header differs", 400, `the header Mcp-Method is not what`, func() { q.header.Set("Mcp-Method", "tools/call") }},
		{"name header", 400, `the header Mcp-Name is missing`, func() { q.header.Set("Mcp-Name", "hello") }},
		{"name header differs", 400, `the header Mcp-Name is not what`, func() { q.header.Set("Mcp-Name", "headers") }},
		{"param header", 400, `the header Mcp-Param-Region is missing`, func() { q.header.Set("Mcp-Param-Region", "x") }},
		{"nothing", 200, `region=x`, nil},
	}
	for _, rung := range rungs {
		status, got := send()
		assert.Equal(t, rung.status, status, "%s: %s", rung.name, got)
		assert.Contains(t, got, rung.want, rung.name)
		if rung.mend != nil {
			rung.mend()
		}
	}
}

// Our answers to the probes that peers' servers were measured with.
func TestStatelessProbes(t *testing.T) {
	r := newModern(t)
	removed := []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/list", "tasks/result", "Tools/list"}
	type probe struct {
		name   string
		change func(*request)
		status int
		code   int
		want   string
	}
	probes := []probe{
		{"version of the past", func(q *request) {
			q.meta[versionMeta] = "1900-01-01"
			q.header.Set("Mcp-Protocol-Version", "1900-01-01")
		}, 400, -32022, `"data":{"supported":["2026-07-28"],"requested":"1900-01-01"}`},
		{"version with a handshake", func(q *request) {
			q.meta[versionMeta] = "2025-11-25"
			q.header.Set("Mcp-Protocol-Version", "2025-11-25")
		}, 400, -32022, `"requested":"2025-11-25"`},
		{"version not a string", func(q *request) { q.meta[versionMeta] = 7 }, 400, -32602, versionMeta},
		{"no version in _meta", func(q *request) { delete(q.meta, versionMeta) }, 400, -32602, versionMeta},
		{"no capabilities", func(q *request) { delete(q.meta, capabilitiesMeta) }, 400, -32602, capabilitiesMeta},
		{"capabilities not an object", func(q *request) { q.meta[capabilitiesMeta] = []int{} }, 400, -32602, capabilitiesMeta},
		{"no _meta", func(q *request) { q.meta = nil }, 400, -32602, "_meta is missing"},
		{"header repeated", func(q *request) { q.header.Add("Mcp-Protocol-Version", "2026-07-28") }, 400, -32020, "more than once"},
		{"foreign origin", func(q *request) { q.header.Set("Origin", "https://evil.example") }, 403, -32600, `{"jsonrpc":"2.0","error":`},
		{"elicitation without the capability", func(q *request) { *q = *callTool("ask_name", nil) }, 400, -32021, `"data":{"requiredCapabilities":{"elicitation":{"form":{}}}}`},
		{"elicitation with URLs only", func(q *request) {
			*q = *callTool("ask_name", nil).with(object{"elicitation": object{"url": object{}}})
		}, 400, -32021, `{"elicitation":{"form":{}}}`},
		{"sampling without the capability", func(q *request) { *q = *callTool("ask_model", nil) }, 400, -32021, `{"sampling":{}}`},
		{"sampling without tools", func(q *request) {
			*q = *callTool("ask_agent", nil).with(object{"sampling": object{}})
		}, 400, -32021, `{"sampling":{"tools":{}}}`},
		{"bogus cursor", func(q *request) { q.params["cursor"] = "bogus" }, 200, -32602, "cursor"},
		{"empty cursor", func(q *request) { q.params["cursor"] = "" }, 200, 0, `"tools":[`},
		{"unknown logLevel", func(q *request) { q.meta[logLevelMeta] = "loud" }, 400, -32602, "logLevel"},
		{"logLevel not a string", func(q *request) { q.meta[logLevelMeta] = 7 }, 400, -32602, "logLevel"},
		{"progressToken an object", func(q *request) { q.meta["progressToken"] = object{} }, 400, -32602, "progressToken"},
		{"missing prompt argument", func(q *request) { *q = *modernRequest("prompts/get", object{"name": "greeting"}) }, 200, -32602, "greeting"},
		{"unknown prompt", func(q *request) { *q = *modernRequest("prompts/get", object{"name": "nope"}) }, 200, -32602, "prompts/list"},
		{"missing tool argument", func(q *request) { *q = *callTool("greet", object{}) }, 200, 0, `"isError":true`},
		{"unknown tool", func(q *request) { *q = *callTool("nope", nil) }, 200, -32602, "tools/list"},
		{"unknown resource", func(q *request) { *q = *modernRequest("resources/read", object{"uri": "test://nope"}) }, 200, -32602, `"data":{"uri":"test://nope"}`},
		{"resource that is gone", func(q *request) { *q = *modernRequest("resources/read", object{"uri": "test://note/gone"}) }, 200, -32602, `"data":{"uri":"test://note/gone"}`},
		{"arguments a list", func(q *request) {
			*q = *modernRequest("tools/call", object{"name": "hello", "arguments": []int{}})
		}, 200, -32602, "arguments must be"},
		{"name a number", func(q *request) {
			*q = *modernRequest("tools/call", object{"name": 7})
			q.header.Set("Mcp-Name", "7")
		}, 400, -32602, "params.name"},
		{"a panic", func(q *request) { *q = *callTool("panics", nil) }, 200, -32603, `"message":"internal error"`},
		{"a prompt that fails", func(q *request) {
			*q = *modernRequest("prompts/get", object{"name": "greeting", "arguments": object{"person": "nobody"}})
		}, 200, -32602, "Nobody is there."},
		{"a tool that fails", func(q *request) { *q = *callTool("fails", nil) }, 200, 0, `"isError":true`},
		{"no client info", func(q *request) {}, 200, 0, `"tools":[`},
		{"a session id", func(q *request) { q.header.Set("Mcp-Session-Id", "x") }, 200, 0, `"tools":[`},
		{"an id of text", func(q *request) { q.id = "é<&" }, 200, 0, `"id":"é`},
		{"a negative id", func(q *request) { q.id = -7 }, 200, 0, `"id":-7`},
	}
	for _, method := range removed {
		probes = append(probes, probe{"method " + method, func(q *request) { *q = *modernRequest(method, nil) }, 404, -32601, `"id":1`})
	}
	for _, p := range probes {
		t.Run(p.name, func(t *testing.T) {
			q := modernRequest("tools/list", nil)
			p.change(q)
			got := r.send(q)
			assert.Equal(t, p.status, got.status, got.raw)
			assert.Equal(t, p.code, got.code(), got.raw)
			assert.Contains(t, got.raw, p.want)
			assert.Empty(t, got.header.Get("Mcp-Session-Id"))
			assert.NotContains(t, got.raw, "secret detail")
		})
	}
}

// Bodies that are no request, and the version header says that the client is of
// the stateless era: errors have no id instead of null.
func TestStatelessBadBodies(t *testing.T) {
	r := newModern(t)
	header := func(q *http.Request) { q.Header.Set("Mcp-Protocol-Version", "2026-07-28") }
	tests := []struct {
		name, method, body string
		status             int
		want               string
	}{
		{"not JSON", "POST", "{", 400, `{"jsonrpc":"2.0","error":{"code":-32700`},
		{"empty", "POST", "", 400, `{"jsonrpc":"2.0","error":{"code":-32700`},
		{"id null", "POST", `{"jsonrpc":"2.0","id":null,"method":"x"}`, 400, `{"jsonrpc":"2.0","error":{"code":-32600`},
		{"no method", "POST", `{"jsonrpc":"2.0","id":7}`, 400, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600`},
		{"batch", "POST", `[{"jsonrpc":"2.0","id":1,"method":"x"}]`, 400, `{"jsonrpc":"2.0","error":{"code":-32600`},
		{"a response", "POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, 400, `{"jsonrpc":"2.0","error":{"code":-32600`},
		{"an error response", "POST", `{"jsonrpc":"2.0","id":1,"error":{}}`, 400, `{"jsonrpc":"2.0","error":{"code":-32600`},
		{"params a list", "POST", `{"jsonrpc":"2.0","id":1,"method":"x","params":[]}`, 400, `"id":1,"error":{"code":-32600`},
		{"notification", "POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, 202, ""},
		{"GET", "GET", "", 405, `{"jsonrpc":"2.0","error":`},
		{"DELETE", "DELETE", "", 405, `{"jsonrpc":"2.0","error":`},
		{"PUT", "PUT", "{}", 405, `{"jsonrpc":"2.0","error":`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var allow string
			status, body := r.do(test.method, "/mcp", test.body, header)
			assert.Equal(t, test.status, status, body)
			if test.want == "" {
				assert.Empty(t, body)
			} else {
				assert.Contains(t, body, test.want)
			}
			if status == 405 {
				q, err := http.NewRequest(test.method, r.url+"/mcp", nil)
				assert.NoError(t, err)
				header(q)
				resp, err := r.client().Do(q)
				assert.NoError(t, err)
				resp.Body.Close()
				allow = resp.Header.Get("Allow")
				assert.Equal(t, "POST", allow)
			}
		})
	}
}
