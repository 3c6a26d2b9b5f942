package gosdk

//lint:file-ignore SA1019 Sampling, roots and logs are deprecated since 2026-07-28, and in use.

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// serverInfoKey is where results say which server they are from. The SDK's server
// says so itself.
const serverInfoKey = "io.modelcontextprotocol/serverInfo"

func toolResult(raw json.RawMessage) (*mcp.CallToolResult, error) {
	out := new(mcp.CallToolResult)
	asks, err := questions(raw)
	if err != nil {
		return nil, err
	}
	if asks != nil {
		// Without content the SDK writes null, which is no list.
		out.Content, out.InputRequests, out.RequestState = []mcp.Content{}, asks, stateOf(raw)
		return out, nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("a result that the SDK does not read: %w", err)
	}
	// As it is: the SDK reads numbers inexactly.
	if structured := jsonview.Get(raw, "structuredContent"); structured != nil {
		out.StructuredContent = json.RawMessage(structured)
	}
	out.Meta = metaOf(raw)
	return out, nil
}

func promptResult(raw json.RawMessage) (*mcp.GetPromptResult, error) {
	out := new(mcp.GetPromptResult)
	asks, err := questions(raw)
	if err != nil {
		return nil, err
	}
	if asks != nil {
		out.Messages, out.InputRequests, out.RequestState = []*mcp.PromptMessage{}, asks, stateOf(raw)
		return out, nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, fmt.Errorf("a result that the SDK does not read: %w", err)
	}
	out.Meta = metaOf(raw)
	return out, nil
}

func resourceResult(raw json.RawMessage) (*mcp.ReadResourceResult, error) {
	out := new(mcp.ReadResourceResult)
	asks, err := questions(raw)
	if err != nil {
		return nil, err
	}
	if asks != nil {
		out.Contents, out.InputRequests, out.RequestState = []*mcp.ResourceContents{}, asks, stateOf(raw)
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

// stateOf returns the requestState of an InputRequiredResult.
func stateOf(result json.RawMessage) string {
	state, _ := jsonview.String(jsonview.Get(result, "requestState"))
	return state
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
	i := 0
	for t := range jsonview.Elements(jsonview.Get(params, "tools")) {
		p.Tools[i].InputSchema = json.RawMessage(jsonview.Get(t, "inputSchema"))
		i++
	}
	i = 0
	for m := range jsonview.Elements(jsonview.Get(params, "messages")) {
		j, blocks := 0, json.RawMessage(jsonview.Get(m, "content"))
		if len(blocks) > 0 && blocks[0] == '{' { // one block may stand for a list, as it does in the SDK
			blocks = slices.Concat([]byte("["), blocks, []byte("]"))
		}
		for c := range jsonview.Elements(blocks) {
			if use, ok := p.Messages[i].Content[j].(*mcp.ToolUseContent); ok {
				use.Input = rawMembers(jsonview.Get(c, "input"))
			}
			j++
		}
		i++
	}
	return p, nil
}

// rawMembers keeps numbers as they are written.
func rawMembers(object json.RawMessage) map[string]any {
	members := make(map[string]any)
	for name, v := range jsonview.Members(object) {
		members[string(name)] = json.RawMessage(v)
	}
	return members
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
// sent.
func exact(answer mcp.InputResponse) error {
	switch answer := answer.(type) {
	case *mcp.ElicitResult:
		return exactObject(answer.Content)
	case *mcp.CreateMessageWithToolsResult:
		for _, c := range answer.Content {
			if use, ok := c.(*mcp.ToolUseContent); ok {
				if err := exactObject(use.Input); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func exactObject(members map[string]any) error {
	for name, v := range members {
		if !isExact(v) {
			return &inexact{name}
		}
	}
	return nil
}

func isExact(v any) bool {
	switch v := v.(type) {
	case float64:
		return math.Abs(v) < maxExact
	case map[string]any:
		return exactObject(v) == nil
	case []any:
		for _, e := range v {
			if !isExact(e) {
				return false
			}
		}
	}
	return true
}

// exactAll checks answers that a request carries.
func exactAll(answers mcp.InputResponseMap) error {
	for _, a := range answers {
		if err := exact(a); err != nil {
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
		}
	}
	return nil
}
