// Package resumable has the words of resumable requests (SEP-975): a client that declares
// resumableRequests gets a token by which it can resume a request when its connection is gone, or
// this server: with requests/resume, which has the id of the request and continues as that would have,
// in any session of the same principal. With requests/getStatus it asks how the request is.
//
// Here is what the messages say, and the token. How a request continues is the handshake's: it is one
// more way to a call that any replica can continue anyway.
package resumable

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// The methods of the proposal.
const (
	Method       = "requests/resume"
	StatusMethod = "requests/getStatus"
	PolicyMethod = "notifications/requests/resumePolicy"
)

const (
	// maxWait is for how long a client may be away at most; tools whose results are kept for less
	// have less.
	maxWait = time.Hour
	// After is how long a request takes until it can be resumed whatever it is of. Of calls of
	// tools that may be tasks clients get it first of all. Most others are over by then.
	After = 2 * time.Second
)

// Errors of requests.
var (
	// Err is all that is said of a token that does not open the request, whatever the reason.
	Err = wire.NewError(wire.CodeInvalidParams, "the resume token is not one of this request, or not any more")
	// ErrNoStream is what a client reads that resumes a request where nothing can be passed on.
	ErrNoStream = wire.NewError(wire.CodeInvalidRequest, "a request is resumed on a stream: accept text/event-stream")
)

// WaitOf is for how long a client may be away from a call of the tool.
func WaitOf(t *engine.Program) time.Duration {
	wait := maxWait
	for _, d := range []time.Duration{t.Tasks.Keep, t.Tasks.TTL} {
		if d > 0 {
			wait = min(wait, d)
		}
	}
	return max(wait.Truncate(time.Second), time.Second)
}

// Policy are the parameters by which a client learns how to resume the request with that id.
func Policy(id jsontext.Value, token string, wait time.Duration) []byte {
	b := append([]byte(`{"requestId":`), id...)
	b = wire.AppendString(append(b, `,"resumeToken":`...), token)
	b = strconv.AppendInt(append(b, `,"maxWait":`...), int64(wait/time.Second), 10)
	return append(b, '}')
}

// Read reads which request a request of the proposal's is about. It fails with [Err] if the token is
// not that one's.
func Read(r *turns.Runner, principal string, m *wire.Message) (t Ticket, err error) {
	var p struct {
		RequestID   jsontext.Value `json:"requestId"`
		ResumeToken *string        `json:"resumeToken"`
	}
	if rerr := wire.DecodeParams(m.Params, &p); rerr != nil {
		return t, rerr
	}
	switch {
	case p.ResumeToken == nil:
		return t, wire.NewError(wire.CodeInvalidParams, "params.resumeToken is missing: "+PolicyMethod+" has it")
	case m.Method == Method:
		p.RequestID = m.ID
	case p.RequestID == nil:
		return t, wire.NewError(wire.CodeInvalidParams, "params.requestId is missing: it is the id of the request")
	}
	t, ok := open(r, principal, *p.ResumeToken)
	if said, valid := wire.CanonicalID(p.RequestID); !ok || !valid || said != t.ID {
		return t, Err
	}
	return t, nil
}

// Status is the response to requests/getStatus. pending: there is something to read; asks: the client
// is asked something.
func Status(status string, pending, asks bool) []byte {
	b := append([]byte(`{"status":"`), status...)
	b = strconv.AppendBool(append(b, `","hasPendingMessage":`...), pending)
	b = strconv.AppendBool(append(b, `,"hasInputRequest":`...), asks)
	return append(b, '}')
}
