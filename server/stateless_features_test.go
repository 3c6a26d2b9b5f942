package server_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Whatever a client declares, it is never asked for what it has not declared.
func TestStatelessNeverAsksForMore(t *testing.T) {
	r := newModern(t)
	tools := []string{"ask_name", "ask_page", "ask_model", "ask_agent", "ask_roots", "ask_all", "page_or_name", "what_it_can", "rounds"}
	clients := []struct {
		name         string
		capabilities object
		// asks are the tools that can ask such a client.
		asks []string
	}{
		{"nothing", object{}, nil},
		{"nulls", object{"elicitation": nil, "sampling": nil, "roots": nil}, nil},
		{"elicitation", object{"elicitation": object{}}, []string{"ask_name", "page_or_name", "what_it_can", "rounds"}},
		{"form only", object{"elicitation": object{"form": object{}}}, []string{"ask_name", "page_or_name", "what_it_can", "rounds"}},
		{"url only", object{"elicitation": object{"url": object{}}}, []string{"ask_page", "page_or_name", "what_it_can"}},
		{"form and url", object{"elicitation": object{"form": object{}, "url": object{}}}, []string{"ask_name", "ask_page", "page_or_name", "what_it_can", "rounds"}},
		{"sampling without tools", object{"sampling": object{}}, []string{"ask_model", "what_it_can"}},
		{"sampling with tools", object{"sampling": object{"tools": object{}}}, []string{"ask_model", "ask_agent", "what_it_can"}},
		{"sampling with context", object{"sampling": object{"context": object{}}}, []string{"ask_model", "what_it_can"}},
		{"roots", object{"roots": object{"listChanged": true}}, []string{"ask_roots", "what_it_can"}},
		{"elicitation, sampling, roots", object{"elicitation": object{}, "sampling": object{}, "roots": object{}},
			[]string{"ask_name", "ask_model", "ask_roots", "ask_all", "page_or_name", "what_it_can", "rounds"}},
		{"other things", object{"extensions": object{"example.com/x": object{}}, "elicitations": object{}}, nil},
	}
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			for _, tool := range tools {
				got := r.send(callTool(tool, nil).with(c.capabilities))
				if got.Error != nil {
					assert.NotContains(t, c.asks, tool)
					assert.Equal(t, -32021, got.code(), tool)
					assert.Equal(t, 400, got.status)
					var data struct{ RequiredCapabilities map[string]any }
					assert.NoError(t, json.Unmarshal(got.Error.Data, &data))
					assert.NotEmpty(t, data.RequiredCapabilities)
					continue
				}
				result := got.result(t)
				if result.ResultType != "input_required" {
					// It found nothing to ask and failed, which is for the model to read.
					assert.Equal(t, "what_it_can", tool)
					assert.True(t, result.IsError)
					continue
				}
				assert.Contains(t, c.asks, tool)
				for key, q := range result.InputRequests {
					assert.True(t, allowed(c.capabilities, q.Method, q.Params), "%s asked %s: %s %s", tool, key, q.Method, q.Params)
				}
			}
		})
	}
	r.log.take()
}

// allowed decides independently of the server whether a client may be asked.
func allowed(capabilities object, method string, params json.RawMessage) bool {
	var p struct {
		Mode  string
		Tools []any
	}
	if json.Unmarshal(params, &p) != nil {
		return false
	}
	sub := func(of, name string) bool {
		o, _ := capabilities[of].(object)
		return o[name] != nil
	}
	switch method {
	case "elicitation/create":
		if p.Mode == "url" {
			return sub("elicitation", "url")
		}
		return capabilities["elicitation"] != nil && (sub("elicitation", "form") || !sub("elicitation", "url"))
	case "sampling/createMessage":
		return capabilities["sampling"] != nil && (p.Tools == nil || sub("sampling", "tools"))
	case "roots/list":
		return capabilities["roots"] != nil
	}
	return false
}

// Capabilities hold for one request. A later one with fewer is asked for no more
// than it declares, and the state stays good.
func TestStatelessCapabilitiesOfEachRequest(t *testing.T) {
	r := newModern(t)
	state := r.state(callTool("ask_all", nil))
	got := r.send(callTool("ask_all", nil).with(object{"sampling": object{}}).answering(state, object{"model": saidHello}))
	assert.Equal(t, -32021, got.code(), got.raw)
	assert.Equal(t, 400, got.status)
	// With all the answers nothing is left to ask, whatever it can.
	got = r.send(callTool("ask_all", nil).answering(state, object{"model": saidHello, "user_name": accept("name", "Ada"), "client_roots": rootsGiven}))
	assert.Equal(t, "Hello, Ada!", got.result(t).text())
}
