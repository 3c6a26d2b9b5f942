package gosdk

import (
	"fmt"
	"math"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The SDK reads what users fill in as 64-bit floats. Beyond 2^53 another number may
// come out than was approved; such an answer is refused rather than changed.
const maxExact = 1 << 53

// inexact is the error of a number that the SDK may have changed.
type inexact struct{ field string }

func (e *inexact) Error() string {
	return fmt.Sprintf("the number in %q is beyond 2^53 and cannot be read exactly; ask for it as text", e.field)
}

// exact fails with an *inexact if a number in what the user filled in may not be the
// one that was sent.
func exact(r *mcp.ElicitResult) error {
	for field, v := range r.Content {
		if f, ok := v.(float64); ok && math.Abs(f) >= maxExact {
			return &inexact{field}
		}
	}
	return nil
}

// exactAll checks answers that a request carries.
func exactAll(answers mcp.InputResponseMap) error {
	for _, a := range answers {
		if r, ok := a.(*mcp.ElicitResult); ok {
			if err := exact(r); err != nil {
				return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
			}
		}
	}
	return nil
}
