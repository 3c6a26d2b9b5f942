package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The probes are what goes wrong with tools that are written by hand for the SDK.
// Each is made with such a tool, bare, which pins how the SDK fails: when that
// changes, the SDK has mended it, and less is needed here. And with a saga.

// bare is a tool by hand that asks for n words: the state counts them.
func bare(s *mcp.Server, n int) {
	s.AddTool(&mcp.Tool{Name: "bare", InputSchema: object{"type": "object"}}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		round := len(r.Params.RequestState) + 1
		if round > n {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
		}
		return &mcp.CallToolResult{RequestState: r.Params.RequestState + "x", InputRequests: mcp.InputRequestMap{
			fmt.Sprintf("word%d", round): &mcp.ElicitParams{Message: fmt.Sprintf("Word %d?", round), RequestedSchema: json.RawMessage(`{"type":"object","properties":{"word":{"type":"string"}}}`)},
		}}, nil
	})
}

// A tool that asks three times, called by a client of 2025-11-25.
func TestProbeThreeRoundsBefore2026(t *testing.T) {
	h := mount(t, gosdk.Options{}, talk(3))
	bare(h.sdk, 3)
	t.Run("the SDK alone", func(t *testing.T) {
		w := h.wire()
		w.greet(legacy, forms)
		w.begin("tools/call", object{"name": "bare"})
		w.answer(w.read(), `{"action":"accept","content":{"word":"w"}}`)
		r := w.read()
		assert.Equal(t, "Word 2?", r.Get("result.inputRequests.word2.params.message").String(), "the second question is in a result, of which the revision knows nothing")
		assert.Equal(t, "xx", r.Get("result.requestState").String())
	})
	t.Run("mounted", func(t *testing.T) {
		w := h.wire()
		w.greet(legacy, forms)
		id := w.begin("tools/call", object{"name": "talk"})
		for n := 1; n <= 3; n++ {
			r := w.read()
			require.Equal(t, "elicitation/create", r.Get("method").String(), r.Raw)
			assert.Equal(t, fmt.Sprintf("Word %d?", n), r.Get("params.message").String())
			w.answer(r, fmt.Sprintf(`{"action":"accept","content":{"word":"w%d"}}`, n))
		}
		assert.JSONEq(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"w1 w2 w3"}]}}`, id), w.read().Raw)
	})
	t.Run("mounted, the SDK's client", func(t *testing.T) {
		for _, version := range []string{modern, legacy} {
			cs := h.connect(version, speaking())
			r, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "talk"})
			require.NoError(t, err)
			assert.Equal(t, "w1 w2 w3", text(t, r))
			assert.Nil(t, r.InputRequests)
			assert.Empty(t, r.RequestState)
		}
	})
}

// A client that cannot fill in forms.
func TestProbeClientWithoutElicitation(t *testing.T) {
	testProbeLacking(t, object{"sampling": object{}})
}

// A client that opens pages but cannot fill in forms.
func TestProbeURLOnlyClient(t *testing.T) {
	testProbeLacking(t, object{"elicitation": object{"url": object{}}})
}

func testProbeLacking(t *testing.T, capabilities object) {
	rooms := new(rooms)
	h := mount(t, gosdk.Options{Questions: server.Questions{NoRelay: true}}, talk(1), rooms.book())
	bare(h.sdk, 1)
	t.Run("the SDK alone", func(t *testing.T) {
		r := h.wire().ask("tools/call", object{"name": "bare", "_meta": meta(capabilities)})
		assert.Equal(t, "Word 1?", r.Get("result.inputRequests.word1.params.message").String(), "it asks all the same")
	})
	t.Run("mounted "+modern, func(t *testing.T) {
		r := h.wire().ask("tools/call", object{"name": "talk", "_meta": meta(capabilities)})
		assert.Equal(t, int64(-32021), r.Get("error.code").Int(), r.Raw)
		assert.JSONEq(t, `{"requiredCapabilities":{"elicitation":{"form":{}}}}`, r.Get("error.data").Raw)
	})
	t.Run("mounted "+legacy, func(t *testing.T) {
		w := h.wire()
		w.greet(legacy, capabilities)
		r := w.ask("tools/call", object{"name": "talk"}) // the next message is the response: nothing is asked
		assert.True(t, r.Get("result.isError").Bool(), r.Raw)
		assert.Contains(t, r.Get("result.content.0.text").String(), "elicitation.form")
		w.silent()
	})
	t.Run("effects are undone", func(t *testing.T) {
		w := h.wire()
		w.greet(legacy, capabilities)
		r := w.ask("tools/call", object{"name": "book"})
		assert.True(t, r.Get("result.isError").Bool(), r.Raw)
		rooms.requireReleased(t)
	})
	t.Run("HTTP status", func(t *testing.T) {
		status, _, body := post(t, httpClient, h.serve(), message(1, "tools/call", object{"name": "talk", "_meta": meta(capabilities)}),
			"MCP-Protocol-Version", modern, "Mcp-Method", "tools/call", "Mcp-Name", "talk")
		assert.Equal(t, 400, status)
		assert.Equal(t, int64(-32021), last(body).Get("error.code").Int(), body)
	})
	t.Run("the SDK's client", func(t *testing.T) {
		c := &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}}
		if capabilities["elicitation"] != nil {
			c.Capabilities.Elicitation = &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}
		}
		_, err := h.connect(modern, c).CallTool(t.Context(), &mcp.CallToolParams{Name: "talk"})
		var refused *jsonrpc.Error
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, int64(mcp.CodeMissingRequiredClientCapabilities), refused.Code)
		r, err := h.connect(legacy, c).CallTool(t.Context(), &mcp.CallToolParams{Name: "talk"})
		require.NoError(t, err)
		assert.True(t, r.IsError)
	})
}

// A turn that asks nothing: the client is to send the state back, no more. Sagas
// have no such turns, as they go on by themselves; were one to end so, the result
// would say what it is.
func TestProbeStateOnlyTurn(t *testing.T) {
	s := newSDK(nil)
	add := func(name string, first func() (*mcp.CallToolResult, error)) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: object{"type": "object"}}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if r.Params.RequestState == "" {
				return first()
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "after " + r.Params.RequestState}}}, nil
		})
	}
	add("state", func() (*mcp.CallToolResult, error) { return &mcp.CallToolResult{RequestState: "x"}, nil })
	add("empty", func() (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{RequestState: "x", InputRequests: mcp.InputRequestMap{}}, nil
	})
	add("ours", func() (*mcp.CallToolResult, error) {
		return gosdk.ToolResult(json.RawMessage(`{"inputRequests":{},"requestState":"x","resultType":"input_required","_meta":{}}`))
	})
	h := mountOn(t, s, gosdk.Options{}, detour(), pauses())
	t.Run("the SDK alone", func(t *testing.T) {
		r := h.wire().ask("tools/call", object{"name": "state", "_meta": meta(forms)})
		assert.Equal(t, "complete", r.Get("result.resultType").String(), "a state without questions is taken for an end")
		w := h.wire()
		w.greet(legacy, forms)
		r = w.ask("tools/call", object{"name": "empty"})
		assert.Contains(t, r.Get("error.message").String(), "busy", "before, it is not taken at all")
	})
	t.Run("as we put it", func(t *testing.T) {
		r := h.wire().ask("tools/call", object{"name": "ours", "_meta": meta(forms)}).Get("result")
		assert.Equal(t, "input_required", r.Get("resultType").String())
		assert.Equal(t, "{}", r.Get("inputRequests").Raw)
		assert.NotContains(t, r.Raw, "null", "what is not there is no list either")
		assert.Equal(t, "x", r.Get("requestState").String())
		got, err := h.connect(modern, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "ours"})
		require.NoError(t, err)
		assert.Equal(t, "after x", text(t, got), "the SDK's client goes on")
	})
	t.Run("a saga that pauses", func(t *testing.T) {
		for _, version := range []string{modern, legacy} {
			got, err := h.connect(version, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "pauses", Arguments: object{}})
			require.NoError(t, err)
			assert.Equal(t, "after two pauses", text(t, got))
		}
		r := h.wire().ask("tools/call", object{"name": "pauses", "_meta": meta(forms)}).Get("result")
		assert.Equal(t, "{}", r.Get("inputRequests").Raw, r.Raw)
		assert.NotEmpty(t, r.Get("requestState").String())
	})
	t.Run("a saga goes on by itself", func(t *testing.T) {
		for _, version := range []string{modern, legacy} {
			got, err := h.connect(version, speaking()).CallTool(t.Context(), &mcp.CallToolParams{Name: "detour"})
			require.NoError(t, err)
			assert.Equal(t, "w1 after a detour", text(t, got))
		}
	})
	t.Run("a client that answers nothing is asked again", func(t *testing.T) {
		w := h.wire()
		params := object{"name": "detour", "_meta": meta(forms)}
		for _, responses := range []any{nil, object{}, object{"another": object{"action": "accept"}}} {
			r := w.ask("tools/call", params).Get("result")
			assert.Equal(t, "Word 1?", r.Get("inputRequests.word1.params.message").String(), r.Raw)
			params["requestState"] = r.Get("requestState").String()
			delete(params, "inputResponses")
			if responses != nil {
				params["inputResponses"] = responses
			}
		}
		params["inputResponses"] = object{"word1": object{"action": "accept", "content": object{"word": "w"}}}
		assert.Equal(t, "w after a detour", w.ask("tools/call", params).Get("result.content.0.text").String())
	})
}

// pauses ends two turns without asking anything.
func pauses() saga.Definition {
	type turn = saga.Turn[none, none]
	next := func(step string) func(*saga.Turn[none, none]) (saga.Next, error) {
		return func(t *turn) (saga.Next, error) { return t.Pause(step) }
	}
	return saga.Machine[none, none]{
		Info: saga.Info{Name: "pauses"}, Start: next("second"),
		Steps: saga.Steps[none, none]{
			"second": next("third"),
			"third":  func(t *turn) (saga.Next, error) { return t.Textf("after two pauses") },
		},
	}
}

// detour has a step that asks nothing.
func detour() saga.Definition {
	ask := words(1)[0]
	type turn = saga.Turn[none, none]
	return saga.Machine[none, none]{
		Info:  saga.Info{Name: "detour", Asks: []steps.Question{ask}},
		Start: func(t *turn) (saga.Next, error) { return t.Goto("first") },
		Steps: saga.Steps[none, none]{
			"first": func(t *turn) (saga.Next, error) { return t.Ask("asked", ask) },
			"asked": func(t *turn) (saga.Next, error) { return t.Goto("detour") },
			"detour": func(t *turn) (saga.Next, error) {
				w, err := ask.Answer(t)
				if err != nil {
					return nil, err
				}
				return t.Textf("%s after a detour", w.Word)
			},
		},
	}
}
