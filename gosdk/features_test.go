package gosdk_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type topic struct {
	Topic string `json:"topic"`
}

type reason struct {
	Reason string `json:"reason"`
}

var askReason = &steps.Form[reason]{ID: "reason", Message: "Why?"}

// essay is a prompt that asks.
var essay = saga.Prompt[topic, none]{
	Machine: saga.Machine[topic, none]{
		Info:  saga.Info{Name: "essay", Asks: []steps.Question{askReason}},
		Start: func(t *saga.Turn[topic, none]) (saga.Next, error) { return t.Ask("told", askReason) },
		Steps: saga.Steps[topic, none]{"told": func(t *saga.Turn[topic, none]) (saga.Next, error) {
			r, err := askReason.Answer(t)
			if err != nil {
				return nil, err
			}
			return t.Messages(content.Message{Role: content.User, Content: content.Text{Text: t.Args.Topic + " because of " + r.Reason}})
		}},
	},
	Complete: map[string]saga.Completer{"topic": func(_ context.Context, typed string, _ map[string]string) ([]string, error) {
		if typed == "panic" {
			panic(typed)
		}
		return []string{typed + "a", typed + "b"}, nil
	}},
}

// files are a template of resources that ask.
var files = saga.Resource[topic, none]{
	Machine: saga.Machine[topic, none]{
		Info: saga.Info{Name: "file", Asks: []steps.Question{askReason}},
		Start: func(t *saga.Turn[topic, none]) (saga.Next, error) {
			if t.Args.Topic == "gone" {
				return nil, saga.ErrNotFound
			}
			return t.Ask("told", askReason)
		},
		Steps: saga.Steps[topic, none]{"told": func(t *saga.Turn[topic, none]) (saga.Next, error) {
			r, err := askReason.Answer(t)
			if err != nil {
				return nil, err
			}
			return t.Contents(content.ResourceContents{URI: "files://" + t.Args.Topic, MIMEType: "text/plain", Text: "for " + r.Reason})
		}},
	},
	Template: "files://{topic}",
	MIMEType: "text/plain",
	Complete: map[string]saga.Completer{"topic": func(context.Context, string, map[string]string) ([]string, error) { return []string{"one"}, nil }},
}

// note is a resource that does not ask.
var note = saga.Resource[none, none]{
	Machine: saga.Machine[none, none]{
		Info: saga.Info{Name: "note"},
		Start: func(t *saga.Turn[none, none]) (saga.Next, error) {
			return t.Contents(content.ResourceContents{URI: "notes://1", Text: "noted"})
		},
	},
	URI: "notes://1",
}

// Prompts and resources may ask, too.
func TestPromptsAndResources(t *testing.T) {
	h := mount(t, gosdk.Options{}, essay, files, note)
	told := answering(func(string) *mcp.ElicitResult { return accept(object{"reason": "love"}) })
	for _, version := range []string{modern, legacy} {
		for name, cs := range map[string]*mcp.ClientSession{"memory": h.connect(version, told), "HTTP": h.connectHTTP(h.serve(), version, told)} {
			t.Run(version+" "+name, func(t *testing.T) {
				p, err := cs.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "essay", Arguments: map[string]string{"topic": "tea"}})
				require.NoError(t, err)
				assert.Equal(t, "tea because of love", p.Messages[0].Content.(*mcp.TextContent).Text)
				r, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "files://7"})
				require.NoError(t, err)
				assert.Equal(t, "for love", r.Contents[0].Text)
				r, err = cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "notes://1"})
				require.NoError(t, err)
				assert.Equal(t, "noted", r.Contents[0].Text)
			})
		}
	}
}

// Prompts and resources have no results that say what went wrong.
func TestPromptsAndResourcesThatFail(t *testing.T) {
	h := mount(t, gosdk.Options{}, essay, files)
	requests := map[string]object{"prompts/get": {"name": "essay", "arguments": object{"topic": "tea"}}, "resources/read": {"uri": "files://7"}}
	for method, params := range requests {
		w := h.wire()
		w.greet(legacy, object{})
		r := w.ask(method, params)
		assert.Contains(t, r.Get("error.message").String(), "elicitation.form", r.Raw)

		w = h.wire()
		w.greet(legacy, forms)
		id := w.begin(method, params)
		w.answer(w.read(), `{"action":"decline"}`)
		r = w.result(id)
		assert.Contains(t, r.Get("error.message").String(), "was declined")
		assert.Equal(t, int64(-32602), r.Get("error.code").Int(), "it is no fault of the server")

		params["_meta"] = meta(object{})
		w = h.wire()
		r = w.ask(method, params)
		assert.Equal(t, int64(-32021), r.Get("error.code").Int(), r.Raw)

		params["_meta"] = meta(forms)
		r = w.ask(method, params)
		assert.Equal(t, "input_required", r.Get("result.resultType").String(), r.Raw)
		assert.NotContains(t, r.Raw, "null", "what is not there is no list either")
		if method == "resources/read" { // there should be no hints for caches, but the SDK gives some
			assert.Equal(t, `"private" 0`, r.Get("result.cacheScope").Raw+" "+r.Get("result.ttlMs").Raw, "the state is for one user")
		}
		assert.Equal(t, "Why?", r.Get("result.inputRequests.reason.params.message").String())
		params["requestState"] = r.Get("result.requestState").String()
		params["inputResponses"] = object{"reason": object{"action": "decline"}}
		r = w.ask(method, params)
		assert.Contains(t, r.Get("error.message").String(), "was declined", r.Raw)
		assert.Equal(t, int64(-32602), r.Get("error.code").Int())
		params["requestState"] = "AAAA"
		assert.Equal(t, refusedState, w.ask(method, params).Get("error.message").String())
	}
}

// A resource that is not there, as each revision says it; what may depend on the
// caller is not for shared caches.
func TestResourceErrorsAndCaching(t *testing.T) {
	h := mount(t, gosdk.Options{}, files, note)
	w := h.wire()
	r := w.ask("resources/read", object{"uri": "files://gone", "_meta": meta(forms)})
	assert.Equal(t, int64(-32602), r.Get("error.code").Int(), r.Raw)
	assert.JSONEq(t, `{"uri":"files://gone"}`, r.Get("error.data").Raw)
	r = w.ask("resources/read", object{"uri": "notes://1", "_meta": meta(forms)})
	assert.Equal(t, "private", r.Get("result.cacheScope").String(), r.Raw)
	assert.Equal(t, "0", r.Get("result.ttlMs").Raw, r.Raw)
	w = h.wire()
	w.greet(legacy, forms)
	r = w.ask("resources/read", object{"uri": "files://gone"})
	assert.Equal(t, int64(-32002), r.Get("error.code").Int(), r.Raw)
	assert.JSONEq(t, `{"uri":"files://gone"}`, r.Get("error.data").Raw)
}

// What is on the server beside the sagas stays as it is, and what is declared is
// all there is.
func TestBesideTheSDKsOwn(t *testing.T) {
	type word struct {
		Word string `json:"word"`
	}
	list := saga.Machine[none, none]{
		Info: saga.Info{Name: "list"}, OutputSchema: mustSchema[[]string](t),
		Start: func(t *saga.Turn[none, none]) (saga.Next, error) {
			return t.Structured([]string{"a"})
		},
	}
	s := newSDK(&mcp.ServerOptions{PageSize: 2, CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
		return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"of the SDK's " + r.Params.Ref.Name}}}, nil
	}})
	mcp.AddTool(s, &mcp.Tool{Name: "own"}, func(_ context.Context, _ *mcp.CallToolRequest, in word) (*mcp.CallToolResult, []string, error) {
		return nil, []string{in.Word}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "another"}, func(context.Context, *mcp.CallToolRequest, word) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}}, nil, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "its own"}, nil)
	h := mountOn(t, s, gosdk.Options{}, list, talk(1), essay, files)
	for _, version := range []string{modern, legacy} {
		t.Run(version, func(t *testing.T) {
			cs := h.connect(version, nil)
			var names []string
			for tool, err := range cs.Tools(t.Context(), nil) {
				require.NoError(t, err)
				names = append(names, tool.Name)
				switch tool.Name {
				case "list":
					assert.Equal(t, version == modern, tool.OutputSchema != nil, "older clients read schemas of objects only")
				case "own":
					assert.NotNil(t, tool.OutputSchema, "what is the SDK's is its business")
				}
			}
			slices.Sort(names)
			assert.Equal(t, []string{"another", "list", "own", "talk"}, names, "over the pages, each is there once")
			r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "own", Arguments: word{"w"}})
			require.NoError(t, err)
			assert.Equal(t, []any{"w"}, r.StructuredContent)
			r, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "list"})
			require.NoError(t, err)
			assert.Equal(t, `["a"]`, text(t, r))

			c := cs.InitializeResult().Capabilities
			assert.NotNil(t, c.Completions)
			assert.Contains(t, c.Experimental, "io.github.mcpsaga/saga")
			assert.NotNil(t, c.Prompts)
			assert.NotNil(t, c.Resources)
			for name, want := range map[string][]string{"essay": {"ta", "tb"}, "its own": {"of the SDK's its own"}} {
				got, err := cs.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: name}, Argument: mcp.CompleteParamsArgument{Name: "topic", Value: "t"}})
				require.NoError(t, err)
				assert.Equal(t, want, got.Completion.Values)
			}
			got, err := cs.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/resource", URI: "files://{topic}"}, Argument: mcp.CompleteParamsArgument{Name: "topic"}})
			require.NoError(t, err)
			assert.Equal(t, []string{"one"}, got.Completion.Values)
			_, err = cs.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "essay"}, Argument: mcp.CompleteParamsArgument{Name: "topic", Value: "panic"}})
			require.ErrorContains(t, err, "internal error")
		})
	}
}

func mustSchema[T any](t *testing.T) *jsonschema.Schema {
	t.Helper()
	s, err := saga.SchemaFor[T]()
	require.NoError(t, err)
	return s
}

// What is declared in the answers to initialize and server/discover, as it is on
// the wire. A server without completion does not say that it has it.
func TestCapabilities(t *testing.T) {
	for _, completes := range []bool{true, false} {
		sagas := []saga.Definition{talk(1)}
		if completes {
			sagas = append(sagas, essay)
		}
		s := newSDK(&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Experimental: map[string]any{"mine": object{"a": 1}}}})
		h := mountOn(t, s, gosdk.Options{}, sagas...)
		check := func(c jsontest.Value) {
			assert.Equal(t, completes, c.Get("completions").Exists(), c.Raw)
			assert.JSONEq(t, `{"mine":{"a":1},"io.github.mcpsaga/saga":{}}`, c.Get("experimental").Raw)
			assert.False(t, c.Get("logging").Exists(), "what the SDK was told not to declare is not declared")
		}
		check(h.wire().greet(legacy, forms).Get("result.capabilities"))
		check(h.wire().ask("server/discover", object{"_meta": meta(forms)}).Get("result.capabilities"))
	}
}

// Middleware sees the calls of sagas as those of other tools, and can refuse them.
func TestMiddleware(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	see := func(where string) mcp.Middleware {
		return func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
				mu.Lock()
				seen = append(seen, where+" "+method)
				mu.Unlock()
				return next(ctx, method, r)
			}
		}
	}
	s := newSDK(nil)
	s.AddReceivingMiddleware(see("before"))
	h := mountOn(t, s, gosdk.Options{}, talk(1), essay)
	s.AddReceivingMiddleware(see("after"))
	w := h.wire()
	w.ask("tools/call", object{"name": "talk", "_meta": meta(forms)})
	w.ask("tools/callSaga", object{"name": "talk", "_meta": meta(forms)})
	w.ask("completion/complete", object{"ref": object{"type": "ref/prompt", "name": "essay"}, "argument": object{"name": "topic", "value": ""}, "_meta": meta(forms)})
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, []string{
		"after tools/call", "before tools/call", "after tools/callSaga", "before tools/callSaga",
		"after completion/complete", // see Mount
	}, seen)
}

// A tool that a caller may not use cannot be called in another way.
func TestCalledTool(t *testing.T) {
	h := mount(t, gosdk.Options{}, talk(1), detour())
	ran := 0
	h.sdk.AddTool(&mcp.Tool{Name: "own", InputSchema: object{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ran++
		return &mcp.CallToolResult{}, nil
	})
	h.sdk.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if name, ok := gosdk.CalledTool(method, r); ok && name != "talk" {
				return nil, &jsonrpc.Error{Code: 1, Message: "not for you"}
			}
			return next(ctx, method, r)
		}
	})
	w := h.wire()
	w.greet(legacy, forms)
	for method, params := range map[string]string{
		"tools/call":     `{"name":"detour"}`,
		"tools/callSaga": `{"sagaToken":"x","name":"detour"}`,
	} {
		for _, params := range []string{params, strings.Replace(params, "detour", `d\u0065tour`, 1), strings.Replace(params, "name", `n\u0061me`, 1)} {
			w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":%q,"params":%s}`, method, params))
			assert.Equal(t, "not for you", w.read().Get("error.message").String(), params)
		}
	}
	// What can be read in two ways calls nothing that middleware could allow.
	for names, allowed := range map[string]bool{
		`"name":"talk","name":"detour"`: false, `"name":"talk","name":"own"`: false, `"name":"talk","n\u0061me":"own"`: false,
		`"name":"talk","x":{"y":1,"y":2}`: false, "\"name\":\"talk\",\"x\":\"\xff\"": false,
		`"name":"talk","NAME":"own"`: true, `"NAME":"own","name":"own"`: false, `"NAME":"talk"`: false, `"name":"own"`: false,
	} {
		w.send(`{"jsonrpc":"2.0","id":9,"method":"tools/callSaga","params":{` + names + `}}`)
		r := w.read()
		assert.Equal(t, allowed, r.Get("result.steps.0.stepId").String() == "word1", r.Raw)
		assert.Equal(t, !allowed, r.Get("error.message").String() == "not for you", "%s: %s", names, r.Raw)
	}
	assert.Zero(t, ran)
	token := w.ask("tools/callSaga", object{"name": "talk"}).Get("result.sagaToken").String()
	r := w.ask("tools/resumeSaga", object{"sagaToken": token, "completedSteps": []any{step("word1", `{"action":"accept","content":{"word":"a"}}`)}})
	assert.Equal(t, "a", r.Get("result.content.0.text").String(), r.Raw)
}

// The server's own tools are not called by tools/callSaga: middleware that decides who
// may call them need not know of it.
func TestOrdinaryToolsAreNotSagas(t *testing.T) {
	h := mount(t, gosdk.Options{}, talk(1))
	h.sdk.AddTool(&mcp.Tool{Name: "own", InputSchema: object{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		assert.Fail(t, "it was called")
		return new(mcp.CallToolResult), nil
	})
	w := h.wire()
	w.greet(legacy, forms)
	for _, name := range []string{"own", "nothing"} {
		r := w.ask("tools/callSaga", object{"name": name})
		assert.Equal(t, int64(-32602), r.Get("error.code").Int(), r.Raw)
		assert.Contains(t, r.Get("error.message").String(), "other tools are called with tools/call")
	}
}

// An answer that sending middleware gives in the client's place counts.
func TestSendingMiddleware(t *testing.T) {
	h := mount(t, gosdk.Options{}, talk(1))
	h.sdk.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, r)
			if method == "elicitation/create" {
				return accept(object{"word": "instead"}), err
			}
			return result, err
		}
	})
	r, err := h.connect(legacy, speaking()).CallTool(t.Context(), &mcp.CallToolParams{Name: "talk"})
	require.NoError(t, err)
	assert.Equal(t, "instead", text(t, r))
}
