package gosdk

import (
	"context"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// said is what a client said to a form. The SDK refuses an answer that does not fit
// the form, which a saga has asked again, and puts defaults where the user took
// them out.
type said struct {
	result *mcp.ElicitResult
	intact mcp.ElicitResult
}

type saidKey struct{}

// listen notes what clients say to forms.
func listen(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, r)
		if s, ok := ctx.Value(saidKey{}).(*said); ok && err == nil {
			if result, ok := result.(*mcp.ElicitResult); ok && result != nil {
				s.result, s.intact = result, *result
				s.intact.Content = maps.Clone(result.Content)
			}
		}
		return result, err
	}
}

// instead returns what the client said in place of what the SDK makes of it. What
// other middleware has put in its place stays.
func (s *said) instead(result *mcp.ElicitResult, err error) (*mcp.ElicitResult, error) {
	if s.result == nil || err == nil && result != s.result {
		return result, err
	}
	return &s.intact, nil
}
