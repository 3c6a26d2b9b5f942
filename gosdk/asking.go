package gosdk

import (
	"context"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// errSilent: whom we asked says goodbye instead.
var errSilent = errors.New("the client ended the session")

// asking are the questions under way, by session. The SDK ends a session once all
// its requests have ended; but a client that wants it to end answers no more.
type asking struct {
	mu       sync.Mutex
	sessions map[sessionUser]map[*context.CancelCauseFunc]struct{}
}

// sessionUser is a session and whose it is, as the SDK binds one to the other.
type sessionUser struct{ session, user string }

func userOf(t *auth.TokenInfo) string {
	if t == nil {
		return ""
	}
	return t.UserID
}

// askingKey is where the context of a session has the handler's questions.
type askingKey struct{}

// begin notes a question; done forgets it.
func (a *asking) begin(of sessionUser, silence context.CancelCauseFunc) (done func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sessions == nil {
		a.sessions = make(map[sessionUser]map[*context.CancelCauseFunc]struct{})
	}
	if a.sessions[of] == nil {
		a.sessions[of] = make(map[*context.CancelCauseFunc]struct{})
	}
	a.sessions[of][&silence] = struct{}{}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if delete(a.sessions[of], &silence); len(a.sessions[of]) == 0 {
			delete(a.sessions, of)
		}
	}
}

// silence ends the questions to a session.
func (a *asking) silence(session, user string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for silence := range a.sessions[sessionUser{session, user}] {
		(*silence)(errSilent)
	}
}
