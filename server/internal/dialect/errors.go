package dialect

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// tooLarge says how much less a client has to send.
func tooLarge(e *turns.RequestTooLargeError) *wire.Error {
	rerr := wire.NewError(wire.CodeInvalidParams, fmt.Sprintf(
		"the arguments and answers are too large for a tool that asks: what it has to remember takes %d bytes, and %d are the most; send less", e.Size, e.Limit))
	rerr.Data = fmt.Appendf(nil, `{"size":%d,"limit":%d}`, e.Size, e.Limit)
	return rerr
}

// Fixed texts. What a client learns of a refused token or of a failure inside
// does not depend on the cause.
// InternalText is what a client learns of a failure inside.
const InternalText = "internal error"

const (
	rejectedText  = "the saga token is not valid here, or no longer: start again with tools/callSaga"
	unsettledText = "what the tool has done is not known yet: send the same request again"
	tryAgainText  = "this server is older than the saga: send the same request again"
	earlyText     = "this server's clock is behind the saga: send the same request again"
	timeoutText   = "the tool took too long; the same request may be sent again"
)

// ToolError is how a prompt or resource fails that had something to say: they have no
// results that say that they are errors. What lies with the caller and the user, that
// they declined above all, is no fault inside the server.
func ToolError(e *engine.ToolError) *wire.Error {
	if e.Disclosed {
		return wire.NewError(wire.CodeInvalidParams, e.Text)
	}
	return wire.NewError(wire.CodeInternalError, e.Text)
}

// Translate decides what the client learns of an error. Those of turns are logged
// already; it logs the rest.
func (h *Host) Translate(ctx context.Context, name string, err error) *wire.Error {
	var rerr *wire.Error
	if errors.As(err, &rerr) {
		return rerr
	}
	var rejected *codec.Rejected
	var large *turns.RequestTooLargeError
	var answers *engine.AnswerError
	var unsettled *engine.UnsettledError
	var panicked *engine.PanicError
	var logged *turns.Error
	switch {
	case errors.Is(err, turns.ErrNewer):
		return wire.TryAgain(tryAgainText)
	case errors.Is(err, turns.ErrEarly):
		return wire.TryAgain(earlyText)
	case errors.As(err, &rejected):
		return wire.NewError(wire.CodeInvalidParams, rejectedText)
	case errors.As(err, &answers):
		return wire.NewError(wire.CodeInvalidParams, answers.Error())
	case errors.As(err, &large):
		return tooLarge(large)
	case errors.As(err, &unsettled):
		return wire.TryAgain(unsettledText)
	case !errors.As(err, &panicked) && errors.Is(err, context.DeadlineExceeded):
		return wire.NewError(wire.CodeInternalError, timeoutText)
	case !errors.As(err, &logged):
		h.Log.ErrorContext(ctx, "turn failed", "method", name, "error", err)
	}
	return wire.NewError(wire.CodeInternalError, InternalText)
}
