package saga

import (
	"context"
	"slices"

	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// Caller is who calls, as far as a verified credential says so. The zero value is anonymous: a client that sends
// requests without credentials. It is for reading: others may have the same Scopes and Claims.
//
// Issuer, Subject and Client are the same in all turns of a saga, as no other caller can take one. Scopes and Claims are those
// of the request that a turn belongs to. A turn that a server takes by itself, such as one of a task, has those of the
// request that began the saga, or of the last one of this caller that has given an answer: a ledger keeps them. So they
// may change from turn to turn, and a [Flow] that decides by them does it behind the question that it is about.
type Caller struct {
	// Issuer is who vouches for the subject, such as an OAuth issuer's URL.
	Issuer string
	// Subject is the user, unique at the issuer.
	Subject string
	// Client is the client application, or empty.
	Client string
	// Scopes are what the request may do: at most 100, and 4 KiB of them. Anonymous callers have none.
	Scopes []string
	// Claims are what else is known, by names that Options.Authenticate of the server chooses: at most 4 KiB with the names. Anonymous
	// callers have none.
	Claims map[string]string
}

// HasScope reports whether a scope is one of the caller's.
func (c Caller) HasScope(scope string) bool { return slices.Contains(c.Scopes, scope) }

// CallerOf returns for whom something is done that has this context: that of a turn, of an effect and its undo, or of what
// they call.
func CallerOf(ctx context.Context) Caller {
	if c := engine.CallerOf(ctx); c != nil {
		return Caller(*c)
	}
	return Caller{}
}

// Caller is who calls.
func (w working) Caller() Caller { return CallerOf(w) }
