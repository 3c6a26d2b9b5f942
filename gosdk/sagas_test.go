package gosdk_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// sagaParams and sagaResult are those of the saga proposal, as a client of the SDK
// would write them.
type sagaParams struct {
	mcp.ParamsBase
	Name           string `json:"name,omitempty"`
	Arguments      any    `json:"arguments,omitempty"`
	SagaToken      string `json:"sagaToken,omitempty"`
	CompletedSteps []any  `json:"completedSteps,omitzero"`
}

type sagaResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
	State      string `json:"state"`
	SagaToken  string `json:"sagaToken"`
	Steps      []struct {
		Type   string `json:"type"`
		StepID string `json:"stepId"`
	} `json:"steps"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
}

// proposal is a client that has the saga methods.
func proposal(t testing.TB) *mcp.Client {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil)
	for _, method := range []string{"tools/callSaga", "tools/resumeSaga", "tools/cancelSaga"} {
		require.NoError(t, mcp.AddSendingCustomMethod[*sagaParams, *sagaResult](c, method))
	}
	return c
}

func callCustom(t testing.TB, cs *mcp.ClientSession, method string, p *sagaParams) *sagaResult {
	t.Helper()
	r, err := mcp.CallCustomMethod[*sagaParams, *sagaResult](t.Context(), cs, method, p)
	require.NoError(t, err)
	return r
}

func step(id, result string) object {
	return object{"stepId": id, "result": json.RawMessage(result)}
}

// The methods of the saga proposal are custom methods of the SDK, in all revisions.
// Clients need no capability for them: they answer themselves.
func TestMountedSagaMethods(t *testing.T) {
	for _, version := range []string{modern, legacy} {
		rooms := new(rooms)
		h := mount(t, gosdk.Options{}, talk(2), rooms.book())
		sessions := map[string]*mcp.ClientSession{"memory": h.client(version, proposal(t))}
		sessions["HTTP"] = h.clientHTTP(h.serve(), version, proposal(t))
		kind := map[string]string{modern: "complete"}[version] // older revisions have no types of results
		for name, cs := range sessions {
			t.Run(version+" "+name, func(t *testing.T) {
				r := callCustom(t, cs, "tools/callSaga", &sagaParams{Name: "talk"})
				assert.Equal(t, "suspended", r.State)
				assert.Equal(t, kind, r.ResultType)
				require.Len(t, r.Steps, 1)
				assert.Equal(t, "elicitation", r.Steps[0].Type)
				assert.Equal(t, "word1", r.Steps[0].StepID)
				one, two := step("word1", `{"action":"accept","content":{"word":"a"}}`), step("word2", `{"action":"accept","content":{"word":"b"}}`)
				r = callCustom(t, cs, "tools/resumeSaga", &sagaParams{SagaToken: r.SagaToken, CompletedSteps: []any{one}})
				require.Equal(t, "word2", r.Steps[0].StepID)
				r = callCustom(t, cs, "tools/resumeSaga", &sagaParams{Name: "nothing", SagaToken: r.SagaToken, CompletedSteps: []any{one, two}}) // the token says of which tool
				assert.Equal(t, "a b", r.Content[0].Text)
				assert.Empty(t, r.State)
				assert.Equal(t, kind, r.ResultType)

				r = callCustom(t, cs, "tools/callSaga", &sagaParams{Name: "book"})
				rooms.requireHeld(t)
				r = callCustom(t, cs, "tools/cancelSaga", &sagaParams{SagaToken: r.SagaToken})
				assert.Contains(t, r.Content[0].Text, "Cancelled.")
				assert.Equal(t, kind, r.ResultType)
				assert.Equal(t, []any{"room"}, r.Meta["io.github.mcpsaga/undo"].(map[string]any)["undone"])
				held, _ := rooms.count()
				assert.Zero(t, held)

				for method, p := range map[string]*sagaParams{
					"tools/callSaga": nil, "tools/resumeSaga": {SagaToken: "x", CompletedSteps: []any{}}, "tools/cancelSaga": {},
				} {
					_, err := mcp.CallCustomMethod[*sagaParams, *sagaResult](t.Context(), cs, method, p)
					var refused *jsonrpc.Error
					require.ErrorAs(t, err, &refused, method)
					assert.Equal(t, int64(-32602), refused.Code, refused.Message)
				}
			})
		}
	}
}

// Without a session, and without anything that MCP wants, as the proposal has it.
func TestSagaMethodsByPlainHTTP(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{}, rooms.book())
	url := h.serve()
	send := func(method string, params any) string {
		status, header, body := post(t, httpClient, url, message(1, method, params))
		require.Equal(t, 200, status, body)
		assert.Equal(t, "application/json", header.Get("Content-Type"))
		assert.Empty(t, header.Get("Mcp-Session-Id"))
		return body
	}
	token := last(send("tools/callSaga", object{"name": "book"})).Get("result.sagaToken").String()
	rooms.requireHeld(t)
	r := last(send("tools/resumeSaga", object{"sagaToken": token, "completedSteps": []any{step("sure", `{"action":"accept","content":{"sure":true}}`)}}))
	assert.Equal(t, "yours", r.Get("result.content.0.text").String())
	token = last(send("tools/callSaga", object{"name": "book"})).Get("result.sagaToken").String()
	send("tools/cancelSaga", object{"sagaToken": token})
	held, ever := rooms.count()
	assert.Equal(t, 1, held)
	assert.Equal(t, 2, ever)
	for range h.sdk.Sessions() {
		assert.Fail(t, "nothing stays behind")
	}
	status, _, body := post(t, httpClient, url, message(1, "tools/resumeSaga", nil), "MCP-Protocol-Version", legacy)
	assert.Equal(t, 200, status)
	assert.Equal(t, int64(-32602), last(body).Get("error.code").Int(), body)
}

// A result is as the tool gave it, to the last digit.
func TestResultsAreExact(t *testing.T) {
	const structured = `{"z":9007199254740993,"a":1.10,"list":[123456789012345678901234567890]}`
	const mark = `{"n":9007199254740993}`
	tool := saga.Flow[none, *content.Result]{Info: saga.Info{Name: "exact"}, Run: func(*saga.Run, none) (*content.Result, error) {
		return &content.Result{
			Content: content.Blocks{content.Text{Text: "<&>"}}, StructuredContent: json.RawMessage(structured),
			Meta: map[string]any{"example.com/mark": json.RawMessage(mark)},
		}, nil
	}}
	h := mount(t, gosdk.Options{}, tool)
	check := func(name, body string) {
		r := last(body).Get("result")
		assert.Equal(t, structured, r.Get("structuredContent").Raw, name)
		assert.Equal(t, mark, r.Get(`_meta.example\.com/mark`).Raw, name)
		assert.Equal(t, "<&>", r.Get("content.0.text").String(), name)
	}
	w := h.wire()
	r := w.ask("tools/call", object{"name": "exact", "_meta": meta(object{})})
	check(modern, r.Raw)
	assert.Equal(t, "complete", r.Get("result.resultType").String())
	assert.Equal(t, "host", r.Get(`result._meta.io\.modelcontextprotocol/serverInfo.name`).String(), "the server is the SDK's")
	check("callSaga "+modern, w.ask("tools/callSaga", object{"name": "exact", "_meta": meta(object{})}).Raw)
	w = h.wire()
	w.greet(legacy, object{})
	r = w.ask("tools/call", object{"name": "exact"})
	check(legacy, r.Raw)
	assert.False(t, r.Get("result.resultType").Exists())
	check("callSaga "+legacy, w.ask("tools/callSaga", object{"name": "exact"}).Raw)
}

// Arguments are passed on as they came, and what is not JSON that can be read in
// one way only is refused.
func TestHostileParameters(t *testing.T) {
	type args struct {
		N json.Number `json:"n,omitempty"`
		S string      `json:"s,omitempty"`
	}
	var ran int
	echo := saga.Flow[args, string]{Info: saga.Info{Name: "echo"}, Run: func(_ *saga.Run, in args) (string, error) {
		ran++
		return in.S, nil
	}}
	h := mount(t, gosdk.Options{}, echo, talk(1))
	raw := func(method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	}
	metaRaw := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	for name, params := range map[string]string{
		"duplicate names in arguments": `{"name":"echo","arguments":{"s":"a","s":"b"}}`,
		"duplicate names deep down":    `{"name":"echo","arguments":{"s":"a","x":[{"y":1,"y":2}]}}`,
		"invalid UTF-8 in arguments":   "{\"name\":\"echo\",\"arguments\":{\"s\":\"\xff\"}}",
		"arguments are a list":         `{"name":"echo","arguments":[]}`,
		"arguments are text":           `{"name":"echo","arguments":"s"}`,
		"inputResponses are a number":  `{"name":"echo","inputResponses":12345}`,
		"inputResponses are a list":    `{"name":"echo","inputResponses":[{}]}`,
		"a response is a number":       `{"name":"echo","inputResponses":{"a":1}}`,
		"a response is null":           `{"name":"echo","inputResponses":{"a":null}}`,
		"a response is nothing known":  `{"name":"echo","inputResponses":{"a":{"b":1}}}`,
		"requestState is an object":    `{"name":"echo","requestState":{}}`,
		"requestState is no token":     `{"name":"echo","requestState":"AAAA"}`,
		"no such tool":                 `{"name":"nothing"}`,
		"no name":                      `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := h.wire()
			w.send(raw("tools/call", `{`+metaRaw+`,`+params[1:]))
			if params == `{}` {
				w = h.wire()
				w.send(raw("tools/call", `{`+metaRaw+`}`))
			}
			r := w.read()
			assert.Equal(t, int64(-32602), r.Get("error.code").Int(), r.Raw)
			w.send(message(1, "tools/list", object{"_meta": meta(object{})}))
			assert.True(t, w.read().Get("result.tools").Exists(), "the connection lives on")
		})
	}
	for _, method := range []string{"tools/callSaga", "tools/resumeSaga", "tools/cancelSaga"} {
		w := h.wire()
		w.greet(legacy, forms)
		for _, params := range []string{`{"name":"echo","arguments":{"s":"a","s":"b"}}`, "{\"name\":\"\xff\"}", `{"name":7,"sagaToken":7}`, `null`} {
			w.send(raw(method, params))
			r := w.read()
			assert.True(t, r.Get("error").Exists(), r.Raw)
		}
		for _, params := range []string{`[]`, `7`, `"text"`} {
			w.send(raw(method, params))
			assert.True(t, w.read().Get("error").Exists())
		}
	}
	assert.Zero(t, ran)
	assert.NotContains(t, h.log.String(), "level=ERROR", "what clients send is not our failure")
}

// Without a session a client can call what does not ask it, and nothing stays behind.
func TestNoSession(t *testing.T) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{Questions: server.Questions{NoRelay: true}}, rooms.book())
	url := h.serve()
	for name, body := range map[string]string{
		"tools/call":                  message(1, "tools/call", object{"name": "book"}),
		"two methods, a saga's first": `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","method":"tools/call","params":{"name":"book"}}`,
		"initialize first":            `{"jsonrpc":"2.0","id":1,"method":"initialize","method":"tools/call","params":{"name":"book"}}`,
		"initialize last":             `{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"initialize","params":{"name":"book"}}`,
		"the second escaped":          `{"jsonrpc":"2.0","id":1,"method":"initialize","m\u0065thod":"tools/call","params":{"name":"book"}}`,
		"a batch":                     `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book"}}]`,
		"a batch with initialize":     `[` + message(0, "initialize", object{"protocolVersion": "2025-03-26", "capabilities": forms}) + `,{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book"}}]`,
		"something behind it":         `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"book"}} {"method":"initialize"}`,
		"nothing":                     ``,
		"no JSON":                     `{"method":"tools/callSaga"`,
		"no JSON, initialize":         `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}`,
		"initialize, and rubbish":     message(1, "initialize", object{"protocolVersion": legacy, "capabilities": forms}) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, header, got := post(t, httpClient, url, body)
			assert.NotContains(t, got, "yours")
			assert.NotContains(t, got, "elicitation/create")
			assert.Empty(t, header.Get("Mcp-Session-Id"), got)
			held, _ := rooms.count()
			assert.Zero(t, held, got)
			for range h.sdk.Sessions() {
				assert.Fail(t, "a session stays behind", got)
			}
		})
	}
	status, _, _ := do(t, httpClient, http.MethodGet, url, "")
	assert.Equal(t, 400, status)
	status, _, _ = do(t, httpClient, http.MethodDelete, url, "")
	assert.Equal(t, 400, status)
	status, _, _ = do(t, httpClient, http.MethodDelete, url, "", "Mcp-Session-Id", "guessed")
	assert.Equal(t, 404, status)
	status, _, _ = do(t, httpClient, http.MethodGet, url, "", "MCP-Protocol-Version", modern)
	assert.Equal(t, 405, status)
}
