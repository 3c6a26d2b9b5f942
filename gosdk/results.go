package gosdk

//lint:file-ignore SA1019 Sampling, roots and logs are deprecated since 2026-07-28, and in use.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// serverInfoKey is where results say which server they are from. The SDK's server
// says so itself.
const serverInfoKey = "io.modelcontextprotocol/serverInfo"

// readResult reads one of our results into out, one of the SDK's, and returns its _meta,
// or else what it asks.
func readResult(raw json.RawMessage, out any) (mcp.Meta, mcp.InputRequestMap, string, error) {
	if asks, err := questions(raw); err != nil || asks != nil {
		state, _ := jsonview.String(jsonview.Get(raw, "requestState"))
		return nil, asks, state, err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, nil, "", fmt.Errorf("a result that the SDK does not read: %w", err)
	}
	return metaOf(raw), nil, "", nil
}

func toolResult(raw json.RawMessage) (out *mcp.CallToolResult, err error) {
	// Without content the SDK writes null, which is no list.
	out = &mcp.CallToolResult{Content: []mcp.Content{}}
	out.Meta, out.InputRequests, out.RequestState, err = readResult(raw, out)
	// As it is: the SDK reads numbers inexactly.
	if structured := jsonview.Get(raw, "structuredContent"); structured != nil {
		out.StructuredContent = json.RawMessage(structured)
	}
	return out, err
}

func promptResult(raw json.RawMessage) (out *mcp.GetPromptResult, err error) {
	out = &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}
	out.Meta, out.InputRequests, out.RequestState, err = readResult(raw, out)
	return out, err
}

func resourceResult(raw json.RawMessage) (out *mcp.ReadResourceResult, err error) {
	out = &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{}}
	out.Meta, out.InputRequests, out.RequestState, err = readResult(raw, out)
	if out.InputRequests != nil {
		// The SDK gives this result hints for caches, too. Its state is for one user.
		out.CacheScope = "private"
	}
	return out, err
}

func completeResult(raw json.RawMessage) (out *mcp.CompleteResult, err error) {
	out = new(mcp.CompleteResult)
	out.Meta, _, _, err = readResult(raw, out)
	return out, err
}

// metaOf returns the _meta of a result as it is, but for the server's name.
func metaOf(result json.RawMessage) (m mcp.Meta) {
	for name, v := range jsonview.Members(jsonview.Get(result, "_meta")) {
		if string(name) != serverInfoKey {
			if m == nil {
				m = make(mcp.Meta)
			}
			m[string(name)] = json.RawMessage(v)
		}
	}
	return m
}

// questions reads the inputRequests of an InputRequiredResult. They are nil for any
// other result, and empty but not nil if nothing is asked: the SDK then knows that
// the request is to be sent again.
func questions(result json.RawMessage) (mcp.InputRequestMap, error) {
	if !jsonview.Is(jsonview.Get(result, "resultType"), "input_required") {
		return nil, nil
	}
	asks := make(mcp.InputRequestMap)
	for id, v := range jsonview.Members(jsonview.Get(result, "inputRequests")) {
		method, _ := jsonview.String(jsonview.Get(v, "method"))
		ask, err := question(method, jsonview.Get(v, "params"))
		if err != nil {
			return asks, err
		}
		asks[string(id)] = ask
	}
	return asks, nil
}

// question makes parameters those of the SDK.
func question(method string, params json.RawMessage) (mcp.InputRequest, error) {
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

func elicitParams(params json.RawMessage) (*mcp.ElicitParams, error) {
	p := new(mcp.ElicitParams)
	if err := json.Unmarshal(params, p); err != nil {
		return nil, err
	}
	// The order of a form's fields is that of its properties, which maps forget.
	if schema := jsonview.Get(params, "requestedSchema"); schema != nil {
		p.RequestedSchema = json.RawMessage(schema)
	}
	return p, nil
}

func sampleParams(params json.RawMessage) (*mcp.CreateMessageWithToolsParams, error) {
	p := new(mcp.CreateMessageWithToolsParams)
	if err := json.Unmarshal(params, p); err != nil {
		return nil, err
	}
	if metadata := jsonview.Get(params, "metadata"); metadata != nil {
		p.Metadata = json.RawMessage(metadata)
	}
	for i, t := range elements(params, "tools") {
		p.Tools[i].InputSchema = json.RawMessage(jsonview.Get(t, "inputSchema"))
	}
	for i, m := range elements(params, "messages") {
		for j, c := range elements(m, "content") {
			use, ok := p.Messages[i].Content[j].(*mcp.ToolUseContent)
			if !ok {
				continue
			}
			use.Input = make(map[string]any)
			for name, v := range jsonview.Members(jsonview.Get(c, "input")) {
				use.Input[string(name)] = json.RawMessage(v) // numbers as they are written
			}
		}
	}
	return p, nil
}

// elements returns those of a member; one object may stand for a list, as in the SDK.
func elements(object json.RawMessage, member string) [][]byte {
	list := jsonview.Get(object, member)
	if len(list) > 0 && list[0] == '{' {
		return [][]byte{list}
	}
	return slices.Collect(jsonview.Elements(list))
}

// The SDK reads what users fill in, and what models have tools called with, as
// 64-bit floats. Beyond 2^53 another number may come out than was approved; such an
// answer is refused rather than changed.
const maxExact = 1 << 53

// inexact is the error of a number that the SDK may have changed.
type inexact struct{ field string }

func (e *inexact) Error() string {
	return fmt.Sprintf("the number in %q is beyond 2^53 and cannot be read exactly; ask for it as text", e.field)
}

// exact fails with an *inexact if a number in an answer may not be the one that was
// sent. field is the member of the answer that v is in, or empty.
func exact(field string, v any) (err error) {
	switch v := v.(type) {
	case *mcp.ElicitResult:
		return exact("", v.Content)
	case *mcp.CreateMessageWithToolsResult:
		for _, c := range v.Content {
			if use, ok := c.(*mcp.ToolUseContent); ok {
				err = cmp.Or(err, exact("", use.Input))
			}
		}
	case map[string]any:
		for name, e := range v {
			err = cmp.Or(err, exact(cmp.Or(field, name), e))
		}
	case []any:
		for _, e := range v {
			err = cmp.Or(err, exact(field, e))
		}
	case float64:
		if math.Abs(v) >= maxExact {
			return &inexact{field}
		}
	}
	return err
}
