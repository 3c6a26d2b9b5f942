package hostile

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Request is a request to measure.
type Request struct {
	// Name says which it is: the dialect, the method, the place and the shape.
	Name   string
	Header http.Header
	Body   []byte
}

// Size is what the request sends.
func (r *Request) Size() int {
	n := len(r.Body)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}

// place is a request with a hole in it, and the shapes that go there.
type place struct {
	method, where string
	params        string // with the hole; "" means that message is given
	message       string
	shapes        []shape
}

const hole = "<hole>"

// Versions of MCP as the requests name them.
const (
	stateless = "2026-07-28"
	session   = "2025-11-25"
	batches   = "2025-03-26"
)

// common are places of every method that has no others.
func common(method, params string) []place {
	open := strings.TrimSuffix(params, "}")
	if open != "{" {
		open += ","
	}
	return []place{
		{method: method, where: "params.x", params: open + `"x":` + hole + `}`, shapes: values},
		{method: method, where: "beside params", message: `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `,"x":` + hole + `}`, shapes: values},
	}
}

// calls are places of the methods that have arguments.
func calls(method, fixed string) (all []place) {
	for _, tool := range []string{"take", "ask", "flow"} {
		for _, name := range []string{"x", "text", "number", "count", "list", "numbers", "map", "any", "times", "records"} {
			if tool != "take" && name != "any" && name != "text" {
				continue
			}
			all = append(all, place{
				method: method, where: tool + ".arguments." + name, params: `{"name":"` + tool + `","arguments":{"` + name + `":` + hole + `}` + fixed + `}`, shapes: values,
			})
		}
	}
	for _, name := range []string{"unique", "pattern", "any", "one", "patterned"} {
		all = append(all, place{method: method, where: "strict.arguments." + name, params: `{"name":"strict","arguments":{"` + name + `":` + hole + `}` + fixed + `}`, shapes: values})
	}
	return append(all,
		place{method: method, where: "arguments", params: `{"name":"take","arguments":` + hole + fixed + `}`, shapes: values},
		place{method: method, where: "name", params: `{"name":` + hole + fixed + `}`, shapes: texts},
	)
}

// answers are what comes for the questions of the tool "ask".
var answers = []struct{ step, where, result string }{
	{"form", "content.text", `{"action":"accept","content":{"text":` + hole + `}}`},
	{"form", "content.email", `{"action":"accept","content":{"email":` + hole + `}}`},
	{"form", "content.uri", `{"action":"accept","content":{"uri":` + hole + `}}`},
	{"form", "content.number", `{"action":"accept","content":{"number":` + hole + `}}`},
	{"form", "content.many", `{"action":"accept","content":{"many":` + hole + `}}`},
	{"form", "content", `{"action":"accept","content":` + hole + `}`},
	{"form", "action", `{"action":` + hole + `}`},
	{"form", "x", `{"action":"decline","x":` + hole + `}`},
	{"model", "text", `{"role":"assistant","model":"m","content":{"type":"text","text":` + hole + `}}`},
	{"model", "content", `{"role":"assistant","model":"m","content":` + hole + `}`},
	{"model", "blocks", `{"role":"assistant","model":"m","content":[{"type":"text","text":` + hole + `}]}`},
	{"model", "image", `{"role":"assistant","model":"m","content":{"type":"image","mimeType":"image/png","data":` + hole + `}}`},
	{"model", "model", `{"role":"assistant","model":` + hole + `,"content":{"type":"text","text":""}}`},
	{"roots", "roots", `{"roots":` + hole + `}`},
	{"roots", "uri", `{"roots":[{"uri":` + hole + `}]}`},
}

// many are shapes of lists that only make sense in their place.
var (
	manyURIs = []shape{
		{"many short URIs", counted("[", "]", func(i int) string { return fmt.Sprintf(`"all:///%d"`, i) })},
		{"many long URIs", counted("[", "]", func(i int) string { return fmt.Sprintf(`"mixed:///%d%s"`, i, strings.Repeat("a,", 1000)) })},
		{"many long URIs that fit nothing", counted("[", "]", func(i int) string { return fmt.Sprintf(`"mixed:///%d%s^"`, i, strings.Repeat("a/.", 600)) })},
		{"one URI many times", listOf(`"all:///` + strings.Repeat("a", 1000) + `"`)},
	}
	manySteps = []shape{
		{"many steps", counted("[", "]", func(i int) string { return fmt.Sprintf(`{"stepId":"s%d","result":{}}`, i) })},
		{"many steps of long ids", counted("[", "]", func(i int) string { return fmt.Sprintf(`{"stepId":"%s%d","result":{}}`, strings.Repeat("s", 1000), i) })},
		{"one step many times", listOf(`{"stepId":"form","result":{"action":"accept","content":{}}}`)},
		{"one step in many spellings", counted("[", "]", func(i int) string {
			return `{"stepId":"form","result":{"content":{},"action":"accept"` + strings.Repeat(" ", i) + `}}`
		})},
		{"many failures", counted("[", "]", func(i int) string {
			return fmt.Sprintf(`{"stepId":"s%d","error":{"code":1,"message":"","data":[{}]}}`, i)
		})},
		{"many rounds", counted("[", "]", func(i int) string { return fmt.Sprintf(`{"stepId":"form~%d","result":{}}`, i) })},
	}
	manyRoots  = []shape{{"many roots", counted("[", "]", func(i int) string { return fmt.Sprintf(`{"uri":"file:///%d"}`, i) })}}
	manyBlocks = []shape{
		{"many blocks", listOf(`{"type":"text","text":"a"}`)},
		{"many uses", counted("[", "]", func(i int) string { return fmt.Sprintf(`{"type":"tool_use","id":"%d","name":"n","input":{}}`, i) })},
		{"many results", counted("[", "]", func(i int) string { return fmt.Sprintf(`{"type":"tool_result","toolUseId":"%d","content":[]}`, i) })},
	}
)

// sagaPlaces are those of the saga proposal.
func sagaPlaces(token string) []place {
	all := append(calls("tools/callSaga", ""), common("tools/callSaga", `{"name":"take"}`)...)
	for _, method := range []string{"tools/resumeSaga", "tools/cancelSaga"} {
		all = append(all, common(method, `{"sagaToken":"`+token+`","completedSteps":[]}`)...)
		all = append(all,
			place{method: method, where: "sagaToken", params: `{"sagaToken":` + hole + `,"completedSteps":[]}`, shapes: texts},
			place{method: method, where: "completedSteps", params: `{"sagaToken":"` + token + `","completedSteps":` + hole + `}`, shapes: append(manySteps, values...)})
		for _, a := range answers {
			shapes := append(append([]shape{}, values...), manyRoots...)
			all = append(all, place{
				method: method, where: a.step + "." + a.where, shapes: append(shapes, manyBlocks...),
				params: `{"sagaToken":"` + token + `","completedSteps":[{"stepId":"` + a.step + `","result":` + a.result + `}]}`,
			})
		}
		all = append(all, place{
			method: method, where: "error.data", shapes: values,
			params: `{"sagaToken":"` + token + `","completedSteps":[{"stepId":"form","error":{"code":1,"message":"","data":` + hole + `}}]}`,
		})
	}
	return all
}

// mcpPlaces are those of the methods that all revisions of MCP have.
func mcpPlaces(version string) []place {
	all := calls("tools/call", "")
	all = append(all, common("tools/call", `{"name":"take"}`)...)
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
		all = append(all, place{method: method, where: "cursor", params: `{"cursor":` + hole + `}`, shapes: texts})
	}
	all = append(all, common("tools/list", "{}")...)
	all = append(all,
		place{method: "prompts/get", where: "arguments.text", params: `{"name":"prompt","arguments":{"text":` + hole + `}}`, shapes: values},
		place{method: "prompts/get", where: "arguments", params: `{"name":"prompt","arguments":` + hole + `}`, shapes: values},
		place{method: "prompts/get", where: "name", params: `{"name":` + hole + `}`, shapes: texts},
		place{method: "resources/read", where: "uri", params: `{"uri":` + hole + `}`, shapes: texts},
		place{method: "completion/complete", where: "ref", params: `{"ref":` + hole + `,"argument":{"name":"text","value":""}}`, shapes: values},
		place{method: "completion/complete", where: "ref.uri", params: `{"ref":{"type":"ref/resource","uri":` + hole + `},"argument":{"name":"path","value":""}}`, shapes: texts},
		place{method: "completion/complete", where: "argument.value", params: `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"text","value":` + hole + `}}`, shapes: texts},
		place{method: "completion/complete", where: "context", params: `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"text","value":""},"context":{"arguments":` + hole + `}}`, shapes: values},
		place{method: "unknown", where: "params", params: `{"x":` + hole + `}`, shapes: values},
	)
	for _, scheme := range []string{"file:///", "all:///", "list://", "query://x?path=", "mixed:///"} {
		// No longer ones are matched.
		short := make([]shape, 0, len(texts))
		for _, s := range texts {
			short = append(short, shape{s.name, func(size int) string { return `"` + scheme + s.make(min(size, 2000))[1:] }})
		}
		all = append(all, place{method: "resources/read", where: "uri " + scheme, params: `{"uri":` + hole + `}`, shapes: short})
		if version != stateless {
			all = append(all, place{method: "resources/subscribe", where: "uri " + scheme, params: `{"uri":` + hole + `}`, shapes: short})
		}
	}
	all = append(all, place{method: "tools/call", where: "id", message: `{"jsonrpc":"2.0","id":` + hole + `,"method":"tools/call","params":{"name":"take"}}`, shapes: append(texts, numbers...)})
	all = append(all, place{method: "", where: "method", message: `{"jsonrpc":"2.0","id":1,"method":` + hole + `}`, shapes: texts})
	all = append(all, place{method: "notifications/cancelled", where: "requestId", message: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + hole + `}}`, shapes: values})
	return all
}

// statelessPlaces are those of MCP 2026-07-28 alone.
func statelessPlaces(state string) []place {
	all := append(mcpPlaces(stateless), common("server/discover", "{}")...)
	all = append(all,
		place{method: "subscriptions/listen", where: "resourceSubscriptions", params: `{"notifications":{"resourceSubscriptions":` + hole + `}}`, shapes: append(manyURIs, values...)},
		place{method: "subscriptions/listen", where: "notifications", params: `{"notifications":` + hole + `}`, shapes: values},
		place{method: "tools/call", where: "requestState", params: `{"name":"ask","requestState":` + hole + `}`, shapes: texts},
		place{method: "tools/call", where: "inputResponses", params: `{"name":"ask","requestState":"` + state + `","inputResponses":` + hole + `}`, shapes: values},
		place{method: "tools/call", where: "inputResponses at once", params: `{"name":"ask","inputResponses":` + hole + `}`, shapes: values},
		place{method: "tools/call", where: "other arguments", params: `{"name":"ask","requestState":"` + state + `","arguments":{"any":` + hole + `}}`, shapes: values},
		place{method: "tools/call", where: "capabilities", message: statelessMessage(`{"name":"take"`, hole, `"x":0`), shapes: values},
		place{method: "tools/call", where: "capabilities.elicitation", message: statelessMessage(`{"name":"take"`, `{"elicitation":`+hole+`}`, `"x":0`), shapes: values},
		place{method: "tools/call", where: "_meta.x", message: statelessMessage(`{"name":"take"`, `{}`, `"x":`+hole), shapes: values},
		place{method: "tools/call", where: "_meta.progressToken", message: statelessMessage(`{"name":"take"`, `{}`, `"progressToken":`+hole), shapes: append(texts, numbers...)},
		place{method: "tools/call", where: "_meta.logLevel", message: statelessMessage(`{"name":"take"`, `{}`, `"io.modelcontextprotocol/logLevel":`+hole), shapes: texts},
	)
	for _, a := range answers {
		all = append(all, place{
			method: "tools/call", where: "inputResponses." + a.step + "." + a.where, shapes: append(append([]shape{}, values...), append(manyRoots, manyBlocks...)...),
			params: `{"name":"ask","requestState":"` + state + `","inputResponses":{"` + a.step + `":` + a.result + `}}`,
		})
	}
	return all
}

const everything = `{"elicitation":{"form":{}},"sampling":{},"roots":{}}`

func statelessMessage(open, capabilities, rest string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + withMeta(open, capabilities, rest) + `}`
}

func withMeta(open, capabilities, rest string) string {
	return open + `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + stateless + `","io.modelcontextprotocol/clientCapabilities":` + capabilities + `,` + rest + `}}`
}

// sessionPlaces are those of a session's methods.
func sessionPlaces() []place {
	all := append(mcpPlaces(session), common("ping", "{}")...)
	return append(all,
		place{method: "initialize", where: "capabilities", params: `{"protocolVersion":"2025-11-25","capabilities":` + hole + `}`, shapes: values},
		place{method: "initialize", where: "protocolVersion", params: `{"protocolVersion":` + hole + `,"capabilities":{}}`, shapes: texts},
		place{method: "logging/setLevel", where: "level", params: `{"level":` + hole + `}`, shapes: texts},
		place{method: "resources/subscribe", where: "uri", params: `{"uri":` + hole + `}`, shapes: texts},
		place{method: "resources/unsubscribe", where: "uri", params: `{"uri":` + hole + `}`, shapes: texts},
		place{method: "tools/call", where: "_meta.progressToken", params: `{"name":"take","_meta":{"progressToken":` + hole + `}}`, shapes: append(texts, numbers...)},
		place{method: "response", where: "result", message: `{"jsonrpc":"2.0","id":1,"result":` + hole + `}`, shapes: values},
		place{method: "response", where: "error", message: `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":` + hole + `}}`, shapes: values},
		place{method: "response", where: "id", message: `{"jsonrpc":"2.0","id":` + hole + `,"result":{}}`, shapes: append(texts, numbers...)},
	)
}

// batchPlaces are whole bodies.
func batchPlaces() []place {
	element := func(method, params string) func(i int) string {
		return func(i int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}`, i, method, params)
		}
	}
	return []place{{method: "batch", message: hole, shapes: append([]shape{
		{"pings", upTo(64, element("ping", "{}"))}, {"too many pings", counted("[", "]", element("ping", "{}"))},
		{"lists", upTo(64, element("tools/list", "{}"))}, {"calls", upTo(64, element("tools/call", `{"name":"take"}`))},
		{"reads", upTo(64, element("resources/read", `{"uri":"mixed:///`+strings.Repeat("a,", 1000)+`"}`))},
		{"nothing", upTo(64, func(int) string { return "{}" })},
		{"responses", upTo(64, func(i int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i) })},
	}, values...)}}
}

// upTo is counted with a limit to the elements.
func upTo(n int, element func(i int) string) func(int) string {
	return func(size int) string {
		var b strings.Builder
		for i := 0; i < n && b.Len() < size; i++ {
			b.WriteString("," + element(i))
		}
		return "[" + b.String()[1:] + "]"
	}
}

// places makes the requests of places.
func (m *maker) places(dialect string, places []place) bool {
	for _, p := range places {
		for _, s := range p.shapes {
			r := &Request{Name: strings.Join([]string{dialect, p.method, p.where, s.name}, ", "), Header: http.Header{}}
			if !m.wanted(r.Name) {
				continue
			}
			message := p.message
			switch {
			case p.params == "":
			case dialect == stateless:
				message = `{"jsonrpc":"2.0","id":1,"method":"` + p.method + `","params":` + withMeta(strings.TrimSuffix(p.params, "}"), everything, `"x":0`) + `}`
			default:
				message = `{"jsonrpc":"2.0","id":1,"method":"` + p.method + `","params":` + p.params + `}`
			}
			r.Body = []byte(strings.Replace(message, hole, s.make(m.size), 1))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			switch dialect {
			case stateless:
				r.Header.Set("Mcp-Protocol-Version", stateless)
				r.Header.Set("Mcp-Method", p.method)
				setName(r, p.method)
			case session, batches:
				r.Header.Set("Mcp-Protocol-Version", dialect)
				r.Header.Set("Mcp-Session-Id", m.sessions[dialect])
			}
			if !m.yield(r) {
				return false
			}
		}
	}
	return true
}

// setName repeats in a header what the body says, so that it is looked at.
func setName(r *Request, method string) {
	member := map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}[method]
	var name string
	if member == "" || json.Unmarshal(jsonview.Get(jsonview.Get(r.Body, "params"), member), &name) != nil {
		return
	}
	if name != strings.TrimSpace(name) || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c > '~' }) {
		name = "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
	}
	r.Header.Set("Mcp-Name", name)
}
