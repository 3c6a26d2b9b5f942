package resumable

import (
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/sessionid"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Ticket is what a resume token says. It is sealed, and bound to a principal.
type Ticket struct {
	// Task is the task that the request waits for.
	Task string `json:"t"`
	// ID is the id of the request, in its canonical form.
	ID string `json:"i"`
	// Token is the request's progressToken.
	Token jsontext.Value `json:"p,omitzero"`
	// URI is what the request reads, if that is a resource.
	URI string `json:"u,omitzero"`
}

// maxToken is the longest resume token that is looked at.
const maxToken = 8 << 10

// Seal makes the resume token of the request with that id.
func (t Ticket) Seal(r *turns.Runner, principal string, id jsontext.Value) (string, error) {
	var ok bool
	if t.ID, ok = wire.CanonicalID(id); !ok {
		return "", errors.New("the request has no id")
	}
	state, err := wire.Marshal(t)
	if err != nil {
		return "", err
	}
	return r.Codec.Seal(bound(principal), r.Now(), &tokens.Contents{State: state})
}

// open reads a resume token. When it ends, its task says.
func open(r *turns.Runner, principal, token string) (t Ticket, ok bool) {
	if len(token) > maxToken {
		return t, false
	}
	x, _, err := r.Codec.OpenAnyTime(bound(principal), r.Now(), token)
	return t, err == nil && json.Unmarshal(x.State, &t) == nil
}

func bound(principal string) tokens.Binding {
	return tokens.Binding{Purpose: sessionid.ResumePurpose, Principal: principal}
}
