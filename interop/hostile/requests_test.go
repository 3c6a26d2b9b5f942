package hostile_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
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

// sample is a request in which every value of some JSON is replaced in turn, by each of
// the shapes.
type sample struct {
	method, where string
	// params are the request's, or whole the message itself, with the hole where the JSON
	// goes. A token stands for itself.
	params, whole string
	// json is what is replaced: "t" by texts, "", 0, lists and objects by all shapes. What
	// else is there stays.
	json  string
	extra []shape // more shapes, for lists, objects and the whole
}

const hole, token, task = "@hole@", "@token@", "@task@"

// Versions of MCP as the requests name them. The proposal has none.
const (
	proposal  = "saga"
	stateless = "2026-07-28"
	session   = "2025-11-25"
	batches   = "2025-03-26"
)

// calls are samples of the methods that have arguments.
func calls(method string) []sample {
	const some = `{"text":"","any":"","x":0}`
	return []sample{
		{method: method, params: hole, json: `{"name":"t","x":0}`},
		{method: method, where: "take.arguments", params: `{"name":"take","arguments":` + hole + `}`,
			json: `{"x":0,"text":"","number":0,"count":0,"list":[],"numbers":[],"map":{},"any":0,"times":{},"records":[]}`},
		{method: method, where: "ask.arguments", params: `{"name":"ask","arguments":` + hole + `}`, json: some},
		{method: method, where: "flow.arguments", params: `{"name":"flow","arguments":` + hole + `}`, json: some},
		{method: method, where: "strict.arguments", params: `{"name":"strict","arguments":` + hole + `}`,
			json: `{"unique":[],"pattern":"a","any":"","one":["a"],"patterned":{}}`},
		{method: method, where: "beside", whole: hole, json: `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"name":"take"},"x":0}`},
	}
}

// answered are samples of what comes for the questions of the tool "ask", as around wraps
// an answer to a step.
func answered(method string, around func(step string) string) (all []sample) {
	for _, a := range []struct{ step, json string }{
		{"form", `{"action":""}`},
		{"form", `{"action":"accept","content":{"text":"","email":"","uri":"","number":0,"many":[]},"x":0}`},
		{"model", `{"role":"assistant","model":"","content":{"type":"text","text":""}}`},
		{"model", `{"role":"assistant","model":"m","content":{"type":"image","mimeType":"image/png","data":""}}`},
		{"model", `{"role":"assistant","model":"m","content":[{"type":"text","text":""}]}`},
		{"roots", `{"roots":[{"uri":""}]}`},
	} {
		all = append(all, sample{method: method, where: a.step, params: around(a.step), json: a.json, extra: manyBlocks})
	}
	return all
}

// Shapes of lists that only make sense in their place.
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
	manyTasks = []shape{
		{"many tasks", counted("[", "]", func(i int) string { return fmt.Sprintf(`"%022d"`, i) })},
		{"one task many times", listOf(`"` + task + `"`)},
	}
	manyAnswers = []shape{
		{"many answers", counted("{", "}", func(i int) string { return fmt.Sprintf(`"k%d":{"action":"accept"}`, i) })},
		{"many answers of long keys", counted("{", "}", func(i int) string { return fmt.Sprintf(`"%s%d":{}`, strings.Repeat("k", 1000), i) })},
	}
	manyBlocks = []shape{
		{"many roots", counted("[", "]", func(i int) string { return fmt.Sprintf(`{"uri":"file:///%d"}`, i) })},
		{"many blocks", listOf(`{"type":"text","text":"a"}`)},
		{"many uses", counted("[", "]", func(i int) string { return fmt.Sprintf(`{"type":"tool_use","id":"%d","name":"n","input":{}}`, i) })},
		{"many results", counted("[", "]", func(i int) string { return fmt.Sprintf(`{"type":"tool_result","toolUseId":"%d","content":[]}`, i) })},
	}
	batch = []shape{
		{"pings", upTo(64, element("ping", "{}"))}, {"too many pings", counted("[", "]", element("ping", "{}"))},
		{"lists", upTo(64, element("tools/list", "{}"))}, {"calls", upTo(64, element("tools/call", `{"name":"take"}`))},
		{"reads", upTo(64, element("resources/read", `{"uri":"mixed:///`+strings.Repeat("a,", 1000)+`"}`))},
		{"nothing", upTo(64, func(int) string { return "{}" })},
		{"responses", upTo(64, func(i int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i) })},
	}
)

func element(method, params string) func(i int) string {
	return func(i int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}`, i, method, params)
	}
}

func samples(dialect string) []sample {
	if dialect == batches {
		return []sample{{method: "batch", whole: hole, json: "0", extra: batch}}
	}
	if dialect == proposal {
		all := calls("tools/callSaga")
		for _, method := range []string{"tools/resumeSaga", "tools/cancelSaga"} {
			all = append(all,
				sample{method: method, params: hole, json: `{"sagaToken":"t","completedSteps":[],"x":0}`},
				sample{method: method, where: "completedSteps", params: `{"sagaToken":"` + token + `","completedSteps":` + hole + `}`, json: `[{"stepId":""}]`, extra: manySteps},
				sample{method: method, where: "error.data", params: `{"sagaToken":"` + token + `","completedSteps":[{"stepId":"form","error":{"code":1,"message":"","data":` + hole + `}}]}`, json: "0"},
				sample{method: method, where: "beside", whole: hole, json: `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"sagaToken":"` + token + `","completedSteps":[]},"x":0}`})
			all = append(all, answered(method, func(step string) string {
				return `{"sagaToken":"` + token + `","completedSteps":[{"stepId":"` + step + `","result":` + hole + `}]}`
			})...)
		}
		return all
	}
	all := append(calls("tools/call"),
		sample{method: "tools/list", params: hole, json: `{"cursor":"t","x":0}`},
		sample{method: "prompts/list", params: hole, json: `{"cursor":"t"}`},
		sample{method: "resources/list", params: hole, json: `{"cursor":"t"}`},
		sample{method: "resources/templates/list", params: hole, json: `{"cursor":"t"}`},
		sample{method: "skills/list", params: hole, json: `{"cursor":"t"}`},
		sample{method: "skills/get", params: hole, json: `{"uri":"t"}`},
		sample{method: "prompts/get", params: hole, json: `{"name":"t"}`},
		sample{method: "prompts/get", where: "arguments", params: `{"name":"prompt","arguments":` + hole + `}`, json: `{"text":""}`},
		sample{method: "resources/read", params: hole, json: `{"uri":"t"}`},
		sample{method: "completion/complete", params: hole, json: `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"text","value":"t"},"context":{"arguments":{}}}`},
		sample{method: "completion/complete", where: "ref.uri", params: `{"ref":{"type":"ref/resource","uri":` + hole + `},"argument":{"name":"path","value":""}}`, json: `"t"`},
		sample{method: "unknown", where: "beside", whole: hole, json: `{"jsonrpc":"2.0","id":"t","method":"t","params":{"x":0}}`},
		sample{method: "notifications/cancelled", whole: `{"jsonrpc":"2.0","method":"notifications/cancelled","params":` + hole + `}`, json: `{"requestId":0}`})
	for _, scheme := range []string{"file:///", "all:///", "list://", "query://x?path=", "mixed:///"} {
		all = append(all, sample{method: "resources/read", where: "uri " + scheme, params: `{"uri":` + hole + `}`, json: `"uri"`, extra: urisOf(scheme)})
		if dialect == session {
			all = append(all, sample{method: "resources/subscribe", where: "uri " + scheme, params: `{"uri":` + hole + `}`, json: `"uri"`, extra: urisOf(scheme)})
		}
	}
	for _, method := range []string{"status", "result"} {
		all = append(all, sample{method: "tools/async/" + method, params: hole, json: `{"token":"t"}`})
	}
	if dialect == session {
		return append(all,
			sample{method: "ping", params: hole, json: `{"x":0}`},
			sample{method: "initialize", params: hole, json: `{"protocolVersion":"t","capabilities":{}}`},
			sample{method: "logging/setLevel", params: hole, json: `{"level":"t"}`},
			sample{method: "resources/unsubscribe", params: hole, json: `{"uri":"t"}`},
			sample{method: "tools/call", where: "_meta", params: `{"name":"take","_meta":` + hole + `}`, json: `{"progressToken":"t"}`},
			sample{method: "tools/call", where: "task", params: `{"name":"later","task":` + hole + `}`, json: `{"ttl":"t","x":0}`},
			sample{method: "tasks/get", params: hole, json: `{"taskId":"t","x":0}`},
			sample{method: "tasks/cancel", params: hole, json: `{"taskId":"t"}`},
			sample{method: "tasks/result", params: hole, json: `{"taskId":"t"}`},
			sample{method: "tasks/list", params: hole, json: `{"cursor":"t"}`},
			sample{method: "response", whole: hole, json: `{"jsonrpc":"2.0","id":"t","result":{}}`},
			sample{method: "response", where: "error", whole: `{"jsonrpc":"2.0","id":1,"error":` + hole + `}`, json: `{"code":1,"message":"m","data":0}`})
	}
	all = append(all,
		sample{method: "server/discover", params: hole, json: `{"x":0}`},
		sample{method: "subscriptions/listen", where: "notifications", params: `{"notifications":` + hole + `}`, json: `{"resourceSubscriptions":[]}`, extra: manyURIs},
		sample{method: "subscriptions/listen", where: "taskIds", params: `{"notifications":{"taskIds":` + hole + `}}`, json: "[]", extra: manyTasks},
		sample{method: "tasks/get", params: hole, json: `{"taskId":"t","x":0}`},
		sample{method: "tasks/cancel", params: hole, json: `{"taskId":"t"}`},
		sample{method: "tasks/update", params: hole, json: `{"taskId":"t","inputResponses":{}}`},
		sample{method: "tasks/update", where: "inputResponses", params: `{"taskId":"` + task + `","inputResponses":` + hole + `}`, json: "{}", extra: manyAnswers},
		sample{method: "tools/call", where: "ask", params: hole, json: `{"name":"ask","requestState":"t","inputResponses":{}}`},
		sample{method: "tools/call", where: "resumed", params: `{"name":"ask","requestState":"` + token + `","inputResponses":` + hole + `}`, json: "{}"},
		sample{method: "tools/call", where: "other arguments", params: `{"name":"ask","requestState":"` + token + `","arguments":` + hole + `}`, json: `{"any":0}`},
		sample{method: "tools/call", where: "_meta", whole: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"take","_meta":` + hole + `}}`,
			json: strings.TrimSuffix(metaOf(`{"elicitation":{}}`), "}") + `,"progressToken":"t","io.modelcontextprotocol/logLevel":"t","x":0}`})
	all = append(all, answered("tools/call", func(step string) string {
		return `{"name":"ask","requestState":"` + token + `","inputResponses":{"` + step + `":` + hole + `}}`
	})...)
	return append(all, answered("tasks/update", func(step string) string {
		return `{"taskId":"` + task + `","inputResponses":{"` + step + `":` + hole + `}}`
	})...)
}

func metaOf(capabilities string) string {
	return `{"io.modelcontextprotocol/protocolVersion":"` + stateless + `","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
}

// place is JSON text with a hole, and what goes there.
type place struct {
	around string
	shapes []shape
	list   bool // or an object
}

func composite(value any) bool {
	_, list := value.([]any)
	_, object := value.(map[string]any)
	return list || object
}

// holes are the places of JSON text by their paths, with what else there is around them.
func holes(text string) map[string]place {
	found := map[string]place{}
	var root any
	_ = json.Unmarshal([]byte(text), &root) // a constant of this package
	var visit func(path string, value any, put func(any))
	visit = func(path string, value any, put func(any)) {
		shapes := values
		if value == "t" {
			shapes = texts
		} else if !composite(value) && value != "" && value != 0.0 {
			if path != "" {
				return
			}
			shapes = nil // there are others
		}
		put(hole)
		around, _ := json.Marshal(root)
		put(value)
		found[path] = place{strings.Replace(string(around), strconv.Quote(hole), hole, 1), shapes, composite(value)}
		switch v := value.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				visit(path+"."+name, v[name], func(x any) { v[name] = x })
			}
		case []any:
			for i := range v {
				visit(path+"."+strconv.Itoa(i), v[i], func(x any) { v[i] = x })
			}
		}
	}
	visit("", root, func(x any) { root = x })
	return found
}

func (t *Target) request(name, dialect, method, message string) *Request {
	r := &Request{Name: name, Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}, Body: []byte(message)}
	switch dialect {
	case stateless:
		r.Header.Set("Mcp-Protocol-Version", stateless)
		r.Header.Set("Mcp-Method", method)
		// The header repeats what the body says, so that it is looked at.
		member := map[string]string{
			"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
		}[method]
		var named string
		if member == "" || json.Unmarshal(jsonview.Get(jsonview.Get(r.Body, "params"), member), &named) != nil {
			break
		}
		if named != strings.TrimSpace(named) || strings.ContainsFunc(named, func(c rune) bool { return c < ' ' || c > '~' }) {
			named = "=?base64?" + base64.StdEncoding.EncodeToString([]byte(named)) + "?="
		}
		r.Header.Set("Mcp-Name", named)
	case session, batches:
		r.Header.Set("Mcp-Protocol-Version", dialect)
		r.Header.Set("Mcp-Session-Id", t.sessions[dialect])
	}
	return r
}
