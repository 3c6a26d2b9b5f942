package gosdk

//lint:file-ignore SA1019 Sampling, roots and logs are deprecated since 2026-07-28, and in use.

import (
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// serverInfoKey is where results say which server they are from. The SDK's server
// says so itself.
const serverInfoKey = "io.modelcontextprotocol/serverInfo"

func toolResult(raw json.RawMessage) (*mcp.CallToolResult, error) {
	result := gjson.ParseBytes(raw)
	out := new(mcp.CallToolResult)
	asks, err := questions(result)
	if err != nil {
		return nil, err
	}
	if asks != nil {
		// Without content the SDK writes null, which is no list.
		out.Content, out.InputRequests, out.RequestState = []mcp.Content{}, asks, result.Get("requestState").Str
		return out, nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("a result that the SDK does not read: %w", err)
	}
	// As it is: the SDK reads numbers inexactly.
	if structured := result.Get("structuredContent"); structured.Exists() {
		out.StructuredContent = json.RawMessage(structured.Raw)
	}
	out.Meta = metaOf(raw)
	return out, nil
}

func promptResult(raw json.RawMessage) (*mcp.GetPromptResult, error) {
	result := gjson.ParseBytes(raw)
	out := new(mcp.GetPromptResult)
	asks, err := questions(result)
	if err != nil {
		return nil, err
	}
	if asks != nil {
		out.Messages, out.InputRequests, out.RequestState = []*mcp.PromptMessage{}, asks, result.Get("requestState").Str
		return out, nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("a result that the SDK does not read: %w", err)
	}
	out.Meta = metaOf(raw)
	return out, nil
}

func resourceResult(raw json.RawMessage) (*mcp.ReadResourceResult, error) {
	result := gjson.ParseBytes(raw)
	out := new(mcp.ReadResourceResult)
	asks, err := questions(result)
	if err != nil {
		return nil, err
	}
	if asks != nil {
		out.Contents, out.InputRequests, out.RequestState = []*mcp.ResourceContents{}, asks, result.Get("requestState").Str
		// The SDK gives this result hints for caches, too. Its state is for one user.
		out.CacheScope = "private"
		return out, nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("a result that the SDK does not read: %w", err)
	}
	out.Meta = metaOf(raw)
	return out, nil
}

// metaOf returns the _meta of a result as it is, but for the server's name.
func metaOf(result json.RawMessage) (m mcp.Meta) {
	gjson.GetBytes(result, "_meta").ForEach(func(key, v gjson.Result) bool {
		if key.Str != serverInfoKey {
			if m == nil {
				m = make(mcp.Meta)
			}
			m[key.Str] = json.RawMessage(v.Raw)
		}
		return true
	})
	return m
}

// questions reads the inputRequests of an InputRequiredResult. They are nil for any
// other result, and empty but not nil if nothing is asked: the SDK then knows that
// the request is to be sent again.
func questions(result gjson.Result) (mcp.InputRequestMap, error) {
	if result.Get("resultType").Str != "input_required" {
		return nil, nil
	}
	asks := make(mcp.InputRequestMap)
	var err error
	result.Get("inputRequests").ForEach(func(id, v gjson.Result) bool {
		var ask mcp.InputRequest
		if ask, err = question(v.Get("method").Str, v.Get("params")); err == nil {
			asks[id.String()] = ask
		}
		return err == nil
	})
	return asks, err
}

// question makes parameters those of the SDK.
func question(method string, params gjson.Result) (mcp.InputRequest, error) {
	switch method {
	case "elicitation/create":
		return elicitParams(params)
	case "sampling/createMessage":
		return sampleParams(params)
	case "roots/list":
		return &mcp.ListRootsParams{}, nil
	}
	return nil, fmt.Errorf("the SDK has no question of the method %q", method)
}

func elicitParams(params gjson.Result) (*mcp.ElicitParams, error) {
	p := new(mcp.ElicitParams)
	if err := json.Unmarshal([]byte(params.Raw), p); err != nil {
		return nil, err
	}
	// The order of a form's fields is that of its properties, which maps forget.
	if schema := params.Get("requestedSchema"); schema.Exists() {
		p.RequestedSchema = json.RawMessage(schema.Raw)
	}
	return p, nil
}

func sampleParams(params gjson.Result) (*mcp.CreateMessageWithToolsParams, error) {
	p := new(mcp.CreateMessageWithToolsParams)
	if err := json.Unmarshal([]byte(params.Raw), p); err != nil {
		return nil, err
	}
	if metadata := params.Get("metadata"); metadata.Exists() {
		p.Metadata = json.RawMessage(metadata.Raw)
	}
	for i, t := range params.Get("tools").Array() {
		p.Tools[i].InputSchema = json.RawMessage(t.Get("inputSchema").Raw)
	}
	for i, m := range params.Get("messages").Array() {
		// One block may stand for a list: Array makes it one, as the SDK does.
		for j, c := range m.Get("content").Array() {
			if use, ok := p.Messages[i].Content[j].(*mcp.ToolUseContent); ok {
				use.Input = rawMembers(c.Get("input"))
			}
		}
	}
	return p, nil
}

// rawMembers keeps numbers as they are written.
func rawMembers(object gjson.Result) map[string]any {
	members := make(map[string]any)
	object.ForEach(func(key, v gjson.Result) bool {
		members[key.Str] = json.RawMessage(v.Raw)
		return true
	})
	return members
}
