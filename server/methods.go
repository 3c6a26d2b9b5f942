package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// method answers one JSON-RPC method of the saga proposal: params in, how the turn
// ended out. An error that is not a *wire.Error is translated by wireError.
type method func(ctx context.Context, c caller, params jsontext.Value) (turns.End, error)

// allMethods is the table of the saga proposal's methods.
func (s *Server) allMethods() map[string]method {
	return map[string]method{
		"tools/callSaga":   s.callSaga,
		"tools/resumeSaga": s.resumeSaga,
		"tools/cancelSaga": s.cancelSaga,
	}
}

// answer handles a request and returns the whole response.
func (s *Server) answer(ctx context.Context, c caller, m *wire.Message) []byte {
	response, _ := s.respond(nil, ctx, c, m)
	return response
}

// respond is answer for those who have memory for the response, and need the error
// that it holds.
func (s *Server) respond(b []byte, ctx context.Context, c caller, m *wire.Message) ([]byte, *wire.Error) {
	if s.methods[m.Method] == nil {
		fail := wire.NewError(wire.CodeMethodNotFound, "method not found")
		return wire.AppendResponse(b, m.ID, nil, fail), fail
	}
	result, fail := s.serveSagaMethod(ctx, c, m, wire.BeginResponse(b, m.ID), nil)
	if fail != nil {
		return wire.AppendResponse(b, m.ID, nil, fail), fail
	}
	return append(result, '}'), nil
}

// serveSagaMethod appends the result of a method of the saga proposal to b. header is that
// of a request that came by somebody else's transport.
func (s *Server) serveSagaMethod(ctx context.Context, c caller, m *wire.Message, b []byte, header http.Header) ([]byte, *wire.Error) {
	if s.hooks == nil {
		return s.runSagaMethod(ctx, c, m, b)
	}
	hooked, result := c, b
	info := hooked.info("saga proposal", m, header)
	rerr := s.hooks.request(ctx, info, func(ctx context.Context) (rerr *wire.Error) {
		result, rerr = s.runSagaMethod(ctx, hooked, m, b)
		return rerr
	})
	return result, rerr
}

func (s *Server) runSagaMethod(ctx context.Context, c caller, m *wire.Message, b []byte) ([]byte, *wire.Error) {
	end, err := s.methods[m.Method](ctx, c, m.Params)
	if err == nil {
		b, err = appendSagaResult(b, &end)
	}
	if err != nil {
		return nil, s.wireError(ctx, m.Method, err)
	}
	return b, nil
}

// tooLarge says how much less a client has to send.
func tooLarge(e *turns.RequestTooLargeError) *wire.Error {
	fail := wire.NewError(wire.CodeInvalidParams, fmt.Sprintf(
		"the arguments and answers are too large for a tool that asks: what it has to remember takes %d bytes, and %d are the most; send less", e.Size, e.Limit))
	fail.Data = fmt.Appendf(nil, `{"size":%d,"limit":%d}`, e.Size, e.Limit)
	return fail
}

// Fixed texts. What a client learns of a refused token or of a failure inside
// does not depend on the cause.
const (
	rejectedText  = "the saga token is not valid here, or no longer: start again with tools/callSaga"
	internalText  = "internal error"
	unsettledText = "what the tool has done is not known yet: send the same request again"
	tryAgainText  = "this server is older than the saga: send the same request again"
	earlyText     = "this server's clock is behind the saga: send the same request again"
	timeoutText   = "the tool took too long; the same request may be sent again"
)

// toolError is how a prompt or resource fails that had something to say: they have no
// results that say that they are errors. What lies with the caller and the user, that
// they declined above all, is no fault inside the server.
func toolError(e *engine.ToolError) *wire.Error {
	if e.Told {
		return wire.NewError(wire.CodeInvalidParams, e.Text)
	}
	return wire.NewError(wire.CodeInternalError, e.Text)
}

// wireError decides what the client learns of an error. Those of turns are logged
// already; it logs the rest.
func (s *Server) wireError(ctx context.Context, name string, err error) *wire.Error {
	var fail *wire.Error
	if errors.As(err, &fail) {
		return fail
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
		s.log.ErrorContext(ctx, "turn failed", "method", name, "error", err)
	}
	return wire.NewError(wire.CodeInternalError, internalText)
}
