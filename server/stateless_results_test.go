package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

func TestDiscover(t *testing.T) {
	r := newRig(t, server.Options{Tools: statelessTools(), Name: "srv", Title: "Server", Version: "1.4.0", Instructions: "Be kind."})
	got := r.send(modernRequest("server/discover", nil))
	assert.JSONEq(t, `{"resultType":"complete","supportedVersions":["2026-07-28"],
		"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},
			"completions":{},"logging":{},"experimental":{"io.github.mcpsaga/saga":{}}},
		"instructions":"Be kind.","ttlMs":60000,"cacheScope":"public",
		"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"srv","title":"Server","version":"1.4.0"}}}`, string(got.Result))
}

// What is not offered is neither advertised nor found.
func TestDiscoverMatchesReality(t *testing.T) {
	kinds := []struct {
		capability string
		tool       saga.Definition
		methods    []string
	}{
		{"tools", statelessTools()[0], []string{"tools/list", "tools/call"}},
		{"prompts", promptRounds(), []string{"prompts/list", "prompts/get"}},
		{"resources", resourceStatic(), []string{"resources/list", "resources/templates/list", "resources/read"}},
		{"completions", promptWithArguments(), []string{"completion/complete"}},
	}
	for _, offered := range kinds {
		r := newRig(t, server.Options{Tools: []saga.Definition{offered.tool}})
		var d struct{ Capabilities map[string]any }
		require.NoError(t, json.Unmarshal(r.send(modernRequest("server/discover", nil)).Result, &d))
		for _, k := range kinds {
			has := k.capability == offered.capability || k.capability == "prompts" && offered.capability == "completions"
			assert.Equal(t, has, d.Capabilities[k.capability] != nil, "%s with %s", k.capability, offered.capability)
			for _, method := range k.methods {
				got := r.send(modernRequest(method, object{"name": "x", "uri": "x"}))
				assert.Equal(t, has, got.status != 404, "%s with %s: %s", method, offered.capability, got.raw)
			}
		}
	}
}

// Every result says its type and its server; caching hints are where they belong.
func TestStatelessEnvelope(t *testing.T) {
	r := newModern(t)
	tests := []struct {
		q     *request
		hints string
	}{
		{modernRequest("server/discover", nil), "public"},
		{modernRequest("tools/list", nil), "public"},
		{modernRequest("prompts/list", nil), "public"},
		{modernRequest("resources/list", nil), "public"},
		{modernRequest("resources/templates/list", nil), "public"},
		{modernRequest("resources/read", object{"uri": "test://motto"}), "private"},
		{modernRequest("resources/read", object{"uri": "test://note/1"}).with(allCapabilities), ""},
		{modernRequest("prompts/get", object{"name": "greeting", "arguments": object{"person": "Ada"}}), ""},
		{modernRequest("prompts/get", object{"name": "rounds"}).with(allCapabilities), ""},
		{callTool("hello", nil), ""},
		{callTool("fails", nil), ""},
		{callTool("ask_name", nil).with(allCapabilities), ""},
		{modernRequest("completion/complete", object{"ref": object{"type": "ref/prompt", "name": "greeting"}, "argument": object{"name": "person", "value": "A"}}), ""},
	}
	for _, test := range tests {
		t.Run(test.q.method, func(t *testing.T) {
			got := r.send(test.q)
			var result struct {
				ResultType string
				TTLMs      *int `json:"ttlMs"`
				CacheScope string
				Meta       map[string]struct{ Name, Version string } `json:"_meta"`
			}
			require.NoError(t, json.Unmarshal(got.Result, &result), got.raw)
			assert.Contains(t, []string{"complete", "input_required"}, result.ResultType)
			assert.Equal(t, "mcpsaga", result.Meta["io.modelcontextprotocol/serverInfo"].Name)
			assert.NotEmpty(t, result.Meta["io.modelcontextprotocol/serverInfo"].Version)
			assert.Equal(t, test.hints, result.CacheScope)
			assert.Equal(t, test.hints != "", result.TTLMs != nil)
		})
	}
}

func TestStatelessPages(t *testing.T) {
	r := newRig(t, server.Options{Questions: unasked, Tools: statelessTools(), PageSize: 3})
	for _, list := range []struct {
		method, member string
		n              int
	}{{"tools/list", "tools", 20}, {"prompts/list", "prompts", 2}, {"resources/list", "resources", 3}, {"resources/templates/list", "resourceTemplates", 1}} {
		var names []string
		cursor, pages := any(nil), 0
		for {
			q := modernRequest(list.method, nil)
			if cursor != nil {
				q.params["cursor"] = cursor
			}
			var page map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(r.send(q).Result, &page))
			assert.Equal(t, `"public"`, string(page["cacheScope"]), "every page of a list has the same scope")
			var items []struct{ Name string }
			require.NoError(t, json.Unmarshal(page[list.member], &items))
			require.LessOrEqual(t, len(items), 3)
			for _, item := range items {
				names = append(names, item.Name)
			}
			pages++
			if page["nextCursor"] == nil {
				break
			}
			require.NoError(t, json.Unmarshal(page["nextCursor"], &cursor))
		}
		assert.Len(t, names, list.n, list.method)
		assert.Equal(t, (list.n+2)/3, pages, list.method)
	}
	for _, cursor := range []any{"x", "MA", "Mw==", "OTk5", "LTE", 3, object{}} {
		q := modernRequest("tools/list", object{"cursor": cursor})
		assert.Equal(t, -32602, r.send(q).code(), "%v", cursor)
	}
}

func TestStatelessCompletion(t *testing.T) {
	r := newModern(t)
	complete := func(ref object, argument, value string, others object) response {
		return r.send(modernRequest("completion/complete", object{"ref": ref, "argument": object{"name": argument, "value": value}, "context": object{"arguments": others}}))
	}
	prompt := object{"type": "ref/prompt", "name": "greeting"}
	values := func(got response) (c struct {
		Values  []string
		Total   int
		HasMore bool
	}) {
		var result struct{ Completion *json.RawMessage }
		require.NoError(t, json.Unmarshal(got.Result, &result), got.raw)
		require.NoError(t, json.Unmarshal(*result.Completion, &c))
		return c
	}
	assert.Equal(t, []string{"A1", "Adry"}, values(complete(prompt, "person", "A", object{"style": "dry"})).Values)
	many := values(complete(prompt, "person", "many", nil))
	assert.Len(t, many.Values, 100)
	assert.Equal(t, 250, many.Total)
	assert.True(t, many.HasMore)
	assert.Contains(t, complete(prompt, "style", "A", nil).raw, `"values":[]`, "an argument without suggestions")
	assert.Equal(t, []string{"7"}, values(complete(object{"type": "ref/resource", "uri": "test://note/{id}"}, "id", "", nil)).Values)
	for _, bad := range []response{
		complete(object{"type": "ref/prompt", "name": "nope"}, "person", "A", nil),
		complete(object{"type": "ref/resource", "uri": "test://nope"}, "id", "", nil),
		complete(object{"type": "ref/tool", "name": "greeting"}, "person", "", nil),
		complete(prompt, "", "", nil),
		complete(prompt, "nope", "", nil),
		r.send(modernRequest("completion/complete", nil)),
		r.send(modernRequest("completion/complete", object{"ref": 7})),
	} {
		assert.Equal(t, -32602, bad.code(), bad.raw)
	}
	for _, broken := range []string{"fail", "panic"} {
		got := complete(prompt, "person", broken, nil)
		assert.Equal(t, -32603, got.code())
		assert.NotContains(t, got.raw, "secret")
		assert.Contains(t, r.log.take(), "secret detail")
	}
}

func TestStatelessToolResults(t *testing.T) {
	r := newModern(t)
	var result map[string]any
	require.NoError(t, json.Unmarshal(r.send(callTool("list", nil)).Result, &result))
	assert.Equal(t, []any{1.0, 2.0}, result["structuredContent"], "any JSON value")
	assert.NotContains(t, result, "isError")

	meta := r.send(callTool("meta", nil))
	require.NoError(t, json.Unmarshal(meta.Result, &result))
	assert.Equal(t, []any{}, result["content"], "an empty list, not null")
	assert.Equal(t, 1.0, result["_meta"].(object)["example.com/x"])
	assert.IsType(t, object{}, result["_meta"].(object)["io.modelcontextprotocol/serverInfo"], "the tool cannot claim to be another server")

	blob := r.send(modernRequest("resources/read", object{"uri": "test://blob"}))
	assert.Contains(t, blob.raw, `"contents":[{"uri":"test://blob","blob":"AP8="}]`)
	text := r.send(modernRequest("resources/read", object{"uri": "test://motto"}))
	assert.Contains(t, text.raw, `{"uri":"test://motto","mimeType":"text/plain","text":"Ask twice."}`)
}

// What gives its result in parts is listed, also if it is always a task.
func TestPartsOfATaskAreListed(t *testing.T) {
	tool := saga.Flow[none, string]{
		Info: saga.Info{Name: "parts", Yields: true, Tasks: saga.Tasks{Mode: saga.TasksRequired}},
		Run:  func(*saga.Run, none) (string, error) { return "end", nil },
	}
	r := newRig(t, server.Options{Tools: []saga.Definition{tool}, Ledger: ledger.NewMemory(ledger.MemoryOptions{})})
	list := modernRequest("tools/list", nil)
	list.meta[capabilitiesMeta] = object{"extensions": object{tasksExtension: object{}}}
	assert.Contains(t, r.send(list).raw, `"name":"parts"`)
}

// A result that does not fit the tool's output schema never reaches the client.
func TestStatelessOutputSchema(t *testing.T) {
	schema, err := saga.SchemaFor[[]int]()
	require.NoError(t, err)
	for _, fits := range []bool{true, false} {
		bad := statelessTools()[11].(saga.Machine[none, none])
		bad.OutputSchema = schema
		if !fits {
			bad.OutputSchema = &jsonschema.Schema{Type: "string"}
		}
		r := newRig(t, server.Options{Tools: []saga.Definition{bad}})
		got := r.send(callTool("list", nil))
		assert.Equal(t, fits, !strings.Contains(got.raw, `"isError":true`), got.raw)
		assert.Equal(t, fits, strings.Contains(got.raw, `"structuredContent"`), got.raw)
		assert.Contains(t, r.send(modernRequest("tools/list", nil)).raw, fmt.Sprintf(`"outputSchema":{"type":%s`, map[bool]string{true: `["null","array"]`, false: `"string"`}[fits]))
	}
}
