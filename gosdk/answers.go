package gosdk

import (
	"context"
	"maps"
	"sync"

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

// asking are the questions under way, by session. The SDK ends a session once all
// its requests have ended; but a client that wants it to end answers no more.
type asking struct {
	mu       sync.Mutex
	sessions map[*mcp.ServerSession]map[*context.CancelCauseFunc]struct{}
}

// begin notes a question; done forgets it.
func (a *asking) begin(ss *mcp.ServerSession, silence context.CancelCauseFunc) (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sessions == nil {
		a.sessions = make(map[*mcp.ServerSession]map[*context.CancelCauseFunc]struct{})
	}
	if a.sessions[ss] == nil {
		a.sessions[ss] = make(map[*context.CancelCauseFunc]struct{})
	}
	a.sessions[ss][&silence] = struct{}{}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if delete(a.sessions[ss], &silence); len(a.sessions[ss]) == 0 {
			delete(a.sessions, ss)
		}
	}
}

// silence ends the questions to a session.
func (a *asking) silence(sessionID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ss, questions := range a.sessions {
		if ss.ID() == sessionID {
			for silence := range questions {
				(*silence)(errSilent)
			}
		}
	}
}
