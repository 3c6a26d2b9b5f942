package dialect

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Exchange is a message of a client's and the way back to it.
type Exchange struct {
	// Message is the message.
	Message *wire.Message
	// Header is that of the HTTP request, or nil.
	Header http.Header
	// Principal is who sent it, in a form in which no two look the same; empty is
	// nobody in particular.
	Principal string
	// Owner says on whose account limits count; nil if that is not known.
	Owner Owner
	// Way is the way back to the client while the message is answered; nil if there is
	// none but the answer.
	Way Way

	// Trace is the trace context that the message came with. It is known only if there are
	// hooks that may ask for it.
	Trace turns.Trace

	// Scratch is empty; a result that is appended to it need not be allocated. It is used
	// again once the result has been sent.
	Scratch []byte

	// HTTPMethod is that of the HTTP request, or empty.
	HTTPMethod string
	// Batch are the messages that came as one, if they did; BatchError is why that is
	// none. Message is empty then.
	Batch      []Batched
	BatchError *wire.Error

	// Client is set if the client has introduced itself to somebody else's transport, by
	// which the message came. That transport sees to headers, lists and sessions.
	Client *Introduction
}

// Owner is on whose account limits count.
type Owner interface {
	// Account tells owners apart; empty if it is not known who it is.
	Account() string
}

// Batched is one message of a batch, or why it is none.
type Batched struct {
	Message wire.Message
	Error   *wire.Error
}

// Introduction is what a client has said of itself in a handshake of somebody else's.
type Introduction struct {
	// Version is the revision that it speaks.
	Version string
	// Capabilities is its ClientCapabilities object, or nil.
	Capabilities json.RawMessage
}

// Way is a way to a client while one of its messages is answered. It is safe for
// concurrent use.
type Way interface {
	// Notify sends a notification that belongs to the message, before the answer.
	Notify(method string, params json.RawMessage)
	// Call sends a request of the server's own and waits for what the client says to it:
	// an error of the client's is an answer. It fails with [ErrNoBackChannel] where
	// nothing can be asked, with [context.Cause] when ctx ends, having told the client
	// that no answer is needed any more, and with an error that is [turns.ErrGone] when
	// the client is gone.
	Call(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error)
	// Hangup gives the connection up, for the client to come back for the rest after a
	// while, where it can.
	Hangup(retry time.Duration)
}

// Keeper is a Way by which an answer may be a long time coming.
type Keeper interface {
	// KeepOpen says that it will be, with notifications before it. ended is closed when
	// the connection is about to end; it may be nil.
	KeepOpen() (ended <-chan struct{}, rerr *wire.Error)
}

// KeepOpen is that of the way to the client; it fails if that is not a [Keeper].
func (x *Exchange) KeepOpen() (ended <-chan struct{}, rerr *wire.Error) {
	if k, ok := x.Way.(Keeper); ok {
		return k.KeepOpen()
	}
	return nil, wire.NotFound()
}

// ErrNoBackChannel is that the client cannot be asked on this way.
var ErrNoBackChannel = errors.New("the client cannot be asked by a request here")

// Why a client is not waited for any more.
var (
	ErrSessionEnded = error(gone("the session ended before the client had answered"))
	ErrCancelled    = error(gone("the client cancelled the request"))
	ErrStopping     = error(gone("the server stops; call again"))
)

// gone is an error about the client, which is no fault of a turn.
type gone string

func (e gone) Error() string        { return string(e) }
func (e gone) Is(target error) bool { return target == turns.ErrGone }

// Named is what the header says that the message is for, or empty. A gateway may have
// gone by it.
func (x *Exchange) Named() string {
	named, _, _ := wire.DecodedHeader(x.Header, wire.NameHeader)
	return named
}

// Turn begins what the runner of turns is given.
func (x *Exchange) Turn(p turns.Policy) turns.Request {
	return turns.Request{Policy: p, Method: x.Message.Method, Principal: x.Principal, Trace: x.Trace}
}

// Account is on whose account limits count; empty if that is not known.
func (x *Exchange) Account() string {
	if x.Owner == nil {
		return ""
	}
	return x.Owner.Account()
}
