package gosdk

//lint:file-ignore SA1019 What the SDK calls deprecated is what the revisions have.

import (
	"fmt"
	"math"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

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
