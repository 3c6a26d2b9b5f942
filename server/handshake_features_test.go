package server_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/server"
)

// What a client has not declared, or its revision does not have, it never gets.
func TestHandshakeCapabilities(t *testing.T) {
	const (
		none     = `{}`
		formOnly = `{"elicitation":{"form":{}}}`
		bare     = `{"elicitation":{},"sampling":{},"roots":{}}`
		urlOnly  = `{"elicitation":{"url":{}}}`
		nulls    = `{"elicitation":null,"sampling":null,"roots":null}`
		tools    = `{"sampling":{"tools":{}}}`
		context  = `{"sampling":{"context":{}}}`
	)
	const elicitation, sampling, roots = "elicitation/create", "sampling/createMessage", "roots/list"
	tests := []struct {
		version, capabilities, what string
		asked                       string // the request that comes, or empty
	}{
		{"2025-11-25", everything, "form", elicitation},
		{"2025-11-25", formOnly, "form", elicitation},
		{"2025-11-25", bare, "form", elicitation},
		{"2025-11-25", urlOnly, "form", ""},
		{"2025-11-25", none, "form", ""},
		{"2025-11-25", nulls, "form", ""},
		{"2025-06-18", bare, "form", elicitation},
		{"2025-06-18", urlOnly, "form", elicitation}, // there were no modes to choose from
		{"2025-06-18", none, "form", ""},
		{"2025-03-26", everything, "form", ""},
		{"2024-11-05", everything, "form", ""},

		{"2025-11-25", everything, "link", elicitation},
		{"2025-11-25", urlOnly, "link", elicitation},
		{"2025-11-25", formOnly, "link", ""},
		{"2025-11-25", bare, "link", ""},
		{"2025-06-18", everything, "link", ""},
		{"2025-03-26", everything, "link", ""},
		{"2025-11-25", bare, "either", elicitation},
		{"2025-11-25", urlOnly, "either", elicitation},
		{"2025-06-18", everything, "either", elicitation},
		{"2025-11-25", none, "either", ""},

		{"2025-11-25", bare, "sample", sampling},
		{"2025-11-25", formOnly, "sample", ""},
		{"2025-11-25", nulls, "sample", ""},
		{"2025-06-18", bare, "sample", sampling},
		{"2025-03-26", bare, "sample", sampling},
		{"2024-11-05", bare, "sample", sampling},
		{"2024-11-05", none, "sample", ""},
		{"2025-11-25", tools, "tools", sampling},
		{"2025-11-25", bare, "tools", ""},
		{"2025-06-18", tools, "tools", ""},
		{"2025-11-25", context, "context", sampling},
		{"2025-11-25", bare, "context", ""},
		{"2025-06-18", bare, "context", sampling}, // needed no capability of its own
		{"2024-11-05", bare, "context", sampling},

		{"2025-11-25", bare, "roots", roots},
		{"2024-11-05", bare, "roots", roots},
		{"2025-11-25", formOnly, "roots", ""},
		{"2025-11-25", nulls, "roots", ""},
	}
	r := newRig(t, server.Options{Questions: unasked, Tools: legacyDefinitions()})
	for _, test := range tests {
		t.Run(test.version+" "+test.capabilities+" "+test.what, func(t *testing.T) {
			c := r.connect(test.version, test.capabilities)
			call := toolCall(1, "ask", `{"what":"`+test.what+`"}`)
			if test.asked == "" {
				m := parseLegacy(t, c.ask(call))
				got, isError := text(t, m.Result)
				assert.True(t, isError)
				assert.Contains(t, got, `"ask" cannot ask`)
				unknown := test.version < "2025-06-18" && test.what == "form" ||
					test.version < "2025-11-25" && (test.what == "link" || test.what == "tools")
				if unknown {
					assert.Contains(t, got, "the client's protocol version "+test.version+" does not have")
				} else {
					assert.Contains(t, got, "this client has not declared")
				}
				return
			}
			s := c.stream(call)
			m := s.message()
			assert.Equal(t, test.asked, m.Method)
			c.fail(m.ID, -1, "no")
			got, _ := text(t, s.wait("").Result)
			assert.Contains(t, got, "failed: -1")
		})
	}
}

// A request that takes no stream cannot be asked anything.
func TestHandshakeJSONOnly(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	c := r.connect("2025-11-25", everything)
	c.header["Accept"] = []string{"application/json"}
	got, isError := text(t, parseLegacy(t, c.ask(toolCall(1, "ask", `{"what":"form"}`))).Result)
	assert.True(t, isError)
	assert.Contains(t, got, "text/event-stream")
	got, _ = text(t, parseLegacy(t, c.ask(toolCall(1, "flood", `{"n":2}`))).Result)
	assert.Equal(t, "flooded", got)
}

// Forms and samples have the shape of the client's revision.
func TestHandshakeRequestsByRevision(t *testing.T) {
	const (
		titled   = `{"message":"Which?","requestedSchema":{"type":"object","properties":{"colour":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}]}},"required":["colour"]}}`
		named    = `{"message":"Which?","requestedSchema":{"type":"object","properties":{"colour":{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]}},"required":["colour"]}}`
		together = `{"maxTokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"one"},{"type":"audio","data":"eA==","mimeType":"audio/wav"}]}]}`
		apart    = `{"maxTokens":5,"messages":[{"role":"user","content":{"type":"text","text":"one"}},{"role":"user","content":{"type":"audio","data":"eA==","mimeType":"audio/wav"}}]}`
		silent   = `{"maxTokens":5,"messages":[{"role":"user","content":{"type":"text","text":"one"}},{"role":"user","content":{"type":"text","text":"(A sound that this version of the protocol cannot carry.)"}}]}`
	)
	tests := []struct{ version, what, params string }{
		{"2025-11-25", "colour", titled}, {"2025-06-18", "colour", named},
		{"2025-11-25", "blocks", together}, {"2025-06-18", "blocks", apart}, {"2025-03-26", "blocks", apart}, {"2024-11-05", "blocks", silent},
		{"2025-11-25", "roots", `{}`},
	}
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	for _, test := range tests {
		t.Run(test.version+" "+test.what, func(t *testing.T) {
			c := r.connect(test.version, everything)
			s := c.stream(toolCall(1, "ask", `{"what":"`+test.what+`"}`))
			m := s.message()
			assert.JSONEq(t, test.params, string(m.Params))
			c.fail(m.ID, -1, "no")
			s.wait("")
		})
	}
}

// Pages have ids, and the client hears when the call for which its user went there
// has succeeded.
func TestHandshakeLinks(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	c := r.connect("2025-11-25", everything)
	visit := func(answer string) (id string, s *sseReader) {
		s = c.stream(toolCall(1, "ask", `{"what":"link"}`))
		m := s.wait("elicitation/create")
		var p struct{ Mode, Message, URL, ElicitationID string }
		require.NoError(t, json.Unmarshal(m.Params, &p))
		assert.Equal(t, "url", p.Mode)
		assert.Equal(t, "https://example.com/login", p.URL)
		assert.Equal(t, "Sign in.", p.Message)
		assert.NotEmpty(t, p.ElicitationID)
		c.reply(m.ID, answer)
		return p.ElicitationID, s
	}
	id, s := visit(`{"action":"accept"}`)
	assert.JSONEq(t, `{"elicitationId":"`+id+`"}`, string(s.message().Params))
	got, _ := text(t, s.message().Result)
	assert.Contains(t, got, "link:")
	other, s := visit(`{"action":"decline"}`)
	assert.NotEqual(t, id, other)
	assert.NotNil(t, s.message().Result, "nothing was opened")
}

func TestHandshakeResultsByRevision(t *testing.T) {
	const (
		plain = `{"type":"text","text":"t"}`
		audio = `{"type":"audio","data":"YQ==","mimeType":"audio/wav"}`
		mute  = `{"type":"text","text":"(A sound that this version of the protocol cannot carry.)"}`
		link  = `{"type":"resource_link","uri":"x://y","name":"n","title":"T","description":"D"}`
		told  = `{"type":"text","text":"T (D): x://y"}`
		embed = `{"type":"resource","resource":{"uri":"x://z","text":"r"}}`
	)
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	tests := []struct{ version, contents, list string }{
		{"2025-11-25", `{"content":[` + plain + `,` + audio + `,` + link + `,` + embed + `],"structuredContent":{"a":1}}`, `{"content":[{"type":"text","text":"[1,2]"}]}`},
		{"2025-06-18", `{"content":[` + plain + `,` + audio + `,` + link + `,` + embed + `],"structuredContent":{"a":1}}`, `{"content":[{"type":"text","text":"[1,2]"}]}`},
		{"2025-03-26", `{"content":[` + plain + `,` + audio + `,` + told + `,` + embed + `]}`, `{"content":[{"type":"text","text":"[1,2]"}]}`},
		{"2024-11-05", `{"content":[` + plain + `,` + mute + `,` + told + `,` + embed + `]}`, `{"content":[{"type":"text","text":"[1,2]"}]}`},
	}
	for _, test := range tests {
		t.Run(test.version, func(t *testing.T) {
			c := r.connect(test.version, everything)
			assert.JSONEq(t, test.contents, string(parseLegacy(t, c.ask(toolCall(1, "contents", `{}`))).Result))
			assert.JSONEq(t, test.list, string(parseLegacy(t, c.ask(toolCall(1, "list", `{}`))).Result))
			listed := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			structured := test.version >= "2025-06-18"
			if structured {
				assert.Contains(t, listed, `"outputSchema"`)
			} else {
				assert.NotContains(t, listed, `"outputSchema"`)
			}
			assert.NotContains(t, listed, "ttlMs")
		})
	}
}

func TestHandshakeNegotiation(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions(), Name: "n", Version: "1"})
	const all = `{"tools":{"listChanged":true},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"experimental":{"io.github.mcpsaga/saga":{}}}`
	for asked, got := range map[string]string{
		"2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18", "2025-03-26": "2025-03-26", "2024-11-05": "2024-11-05",
		"1999-01-01": "2025-11-25", "": "2025-11-25", "2026-07-28": "2025-11-25",
	} {
		m := parseLegacy(t, r.post(initializeMessage(asked, `{}`)))
		var result struct {
			ProtocolVersion string
			Capabilities    json.RawMessage
		}
		require.NoError(t, json.Unmarshal(m.Result, &result))
		assert.Equal(t, got, result.ProtocolVersion)
		if got > "2024-11-05" {
			assert.JSONEq(t, all, string(result.Capabilities))
		} else {
			assert.NotContains(t, string(result.Capabilities), "completions")
		}
	}
	for _, params := range []string{`{}`, `{"protocolVersion":7}`, `{"protocolVersion":"2025-11-25","capabilities":7}`} {
		m := parseLegacy(t, r.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+params+`}`))
		require.NotNil(t, m.Error, params)
		assert.Equal(t, -32602, m.Error.Code)
	}
}

func TestHandshakeMethods(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions(), PageSize: 5})
	c := r.connect("2025-11-25", everything)
	call := func(method, params string) legacyMessage {
		t.Helper()
		return parseLegacy(t, c.ask(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	}
	good := []struct{ method, params, want string }{
		{"ping", `{}`, `{}`},
		{"logging/setLevel", `{"level":"warning"}`, `{}`},
		{"prompts/list", `{}`, `{"prompts":[{"name":"greeting","description":"Greets.","arguments":[{"name":"name","required":true}]}]}`},
		{"resources/list", `{}`, `{"resources":[{"uri":"static://one","name":"static","mimeType":"text/plain"}]}`},
		{"resources/templates/list", `{}`, `{"resourceTemplates":[{"uriTemplate":"notes://{id}","name":"notes"}]}`},
		{"resources/read", `{"uri":"static://one"}`, `{"contents":[{"uri":"static://one","text":"1"}]}`},
		{"resources/read", `{"uri":"notes://7"}`, `{"contents":[{"uri":"notes://7","mimeType":"text/plain","text":"note 7"}]}`},
		{"resources/subscribe", `{"uri":"notes://7"}`, `{}`},
		{"resources/subscribe", `{"uri":"notes://7"}`, `{}`},
		{"resources/unsubscribe", `{"uri":"notes://7"}`, `{}`},
		{"resources/unsubscribe", `{"uri":"nowhere://"}`, `{}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"greeting"},"argument":{"name":"name","value":"x"}}`, `{"completion":{"values":["xa","xb"],"total":2,"hasMore":false}}`},
		{"tools/call", `{"name":"sum"}`, `{"content":[{"type":"text","text":"{\"sum\":3}"}],"structuredContent":{"sum":3}}`},
		{"tools/call", `{"n\u0061me":"s\u0075m"}`, `{"content":[{"type":"text","text":"{\"sum\":3}"}],"structuredContent":{"sum":3}}`},
	}
	for _, test := range good {
		m := call(test.method, test.params)
		require.Nil(t, m.Error, test.method)
		assert.JSONEq(t, test.want, string(m.Result), test.method)
	}
	bad := []struct {
		method, params string
		code           int
		want           string
	}{
		{"nope", `{}`, -32601, "not found"},
		{"tools/call", `{"name":"nope"}`, -32602, "tools/list"},
		{"tools/call", `{}`, -32602, "tools/list"},
		{"tools/call", `{"name":7}`, -32602, "/name"},
		{"tools/call", `{"name":null}`, -32602, "tools/list"},
		{"tools/call", `{"name":"sum","arguments":[]}`, -32602, "object"},
		{"tools/list", `{"cursor":"nonsense"}`, -32602, "cursor"},
		{"tools/list", `{"cursor":7}`, -32602, "/cursor"},
		{"logging/setLevel", `{"level":"loud"}`, -32602, "level"},
		{"prompts/get", `{"name":"nope"}`, -32602, "prompts/list"},
		{"prompts/get", `{"name":"greeting"}`, -32602, "greeting"},
		{"prompts/get", `{"name":"greeting","arguments":{"name":7}}`, -32602, "/arguments/name"},
		{"resources/read", `{}`, -32602, "params.uri"},
		{"resources/read", `{"uri":"nowhere://x"}`, -32002, "not found"},
		{"resources/read", `{"uri":"notes://gone"}`, -32002, "not found"},
		{"resources/subscribe", `{"uri":"nowhere://x"}`, -32002, "not found"},
		{"resources/subscribe", `{}`, -32602, "params.uri"},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"nope"},"argument":{"name":"a","value":""}}`, -32602, "params.ref"},
	}
	for _, test := range bad {
		m := call(test.method, test.params)
		require.NotNil(t, m.Error, test.method)
		assert.Equal(t, test.code, m.Error.Code, test.method)
		assert.Contains(t, m.Error.Message, test.want)
		if test.code == -32002 {
			assert.Contains(t, test.params, string(m.Error.Data)[1:len(m.Error.Data)-1], "the data has the URI")
		}
	}
	t.Run("pages", func(t *testing.T) {
		var names []string
		cursor, pages := "", 0
		for {
			var page struct {
				Tools      []struct{ Name string }
				NextCursor string
			}
			require.NoError(t, json.Unmarshal(call("tools/list", `{"cursor":"`+cursor+`"}`).Result, &page))
			for _, tool := range page.Tools {
				names = append(names, tool.Name)
			}
			pages++
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		assert.Equal(t, []string{"complex_tool", "long_talk", "ask", "talk", "flood", "contents", "list", "sum", "away"}, names)
		assert.Equal(t, 2, pages)
	})
	t.Run("arguments that do not fit are a result", func(t *testing.T) {
		got, isError := text(t, call("tools/call", `{"name":"ask","arguments":{"what":7}}`).Result)
		assert.True(t, isError)
		assert.Contains(t, got, "do not fit")
	})
}

func TestHandshakeProgressAndLogs(t *testing.T) {
	r := newRig(t, server.Options{Tools: legacyDefinitions()})
	run := func(version, call string, levels ...string) (told []string) {
		c := r.connect(version, everything)
		for _, level := range levels {
			c.ask(`{"jsonrpc":"2.0","id":9,"method":"logging/setLevel","params":{"level":"` + level + `"}}`)
		}
		s := c.stream(call)
		for {
			m := s.message()
			switch m.Method {
			case "elicitation/create":
				c.reply(m.ID, accepted(`{"name":"n"}`))
			case "":
				return told
			default:
				told = append(told, string(m.Params))
			}
		}
	}
	const (
		one, two, three = `{"progressToken":"p1","progress":1,"total":4,"message":"working"}`, `{"progressToken":"p1","progress":2,"total":4,"message":"working"}`, `{"progressToken":"p1","progress":3,"total":4,"message":"working"}`
		four            = `{"progressToken":"p1","progress":4,"total":4}`
		debug           = `{"level":"debug","logger":"talk","data":"a detail"}`
		info            = `{"level":"info","logger":"talk","data":{"a":[1]}}`
		problem         = `{"level":"error","logger":"talk","data":"a problem"}`
	)
	call := toolCall(1, "talk", `{}`)
	// A flow that runs again tells again; only its progress must grow.
	assert.Equal(t, []string{one, two, three, info, problem, info, problem, four}, run("2025-11-25", call))
	assert.Equal(t, []string{one, two, three, debug, info, problem, debug, info, problem, four}, run("2025-11-25", call, "error", "debug"))
	assert.Equal(t, []string{one, two, three, four}, run("2025-11-25", call, "emergency"))
	assert.Equal(t, []string{problem, problem}, run("2025-06-18", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"talk"}}`, "error"), "no token, no progress")
}
