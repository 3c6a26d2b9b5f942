package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// method answers one JSON-RPC method of the saga proposal: params in, how the turn
// ended out. An error that is not a *wire.Error is translated by wireError.
type method func(ctx context.Context, c caller, params jsontext.Value) (turn, error)

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
	handle := s.methods[m.Method]
	if handle == nil {
		fail := wire.NewError(wire.CodeMethodNotFound, "method not found")
		return wire.AppendResponse(b, m.ID, nil, fail), fail
	}
	end, err := handle(ctx, c, m.Params)
	if err == nil {
		var response []byte
		if response, err = appendSagaResult(wire.BeginResponse(b, m.ID), &end); err == nil {
			return append(response, '}'), nil
		}
	}
	fail := s.wireError(ctx, m.Method, err)
	return wire.AppendResponse(b, m.ID, nil, fail), fail
}

// tooLarge says how much less a client has to send.
func tooLarge(e *broughtError) *wire.Error {
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
// results that say that they are errors. What lies with the caller and the user, a no
// to a question above all, is no fault inside the server.
func (s *Server) toolError(ctx context.Context, method string, e *saga.ToolError) *wire.Error {
	level, what, code := slog.LevelWarn, "request failed", int64(wire.CodeInternalError)
	if e.Told {
		level, what, code = slog.LevelInfo, "request stopped", wire.CodeInvalidParams
	}
	s.log.Log(ctx, level, what, "method", method, "error", e, "cause", e.Err)
	return wire.NewError(code, e.Text)
}

// levelOf is how loud the refusal of a token is. What anybody can send who pleases, or
// too late, is no alarm. The rest may be: replicas that differ in their keys or code,
// or somebody with a token of somebody else's. Among it is what anybody can make up, a
// key id above all: it looks the same.
func levelOf(why codec.Reason) slog.Level {
	switch why {
	case codec.ReasonMalformed, codec.ReasonTooLong, codec.ReasonExpired, codec.ReasonDeadline, codec.ReasonRequest:
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// wireError decides what the client learns of an error, and logs the rest.
func (s *Server) wireError(ctx context.Context, name string, err error) *wire.Error {
	var fail *wire.Error
	if errors.As(err, &fail) {
		return fail
	}
	attrs := []slog.Attr{slog.String("method", name)}
	var te *turnError
	if errors.As(err, &te) {
		attrs = append(attrs, te.attrs()...)
	}
	if errors.Is(err, errNewer) {
		s.log.LogAttrs(ctx, slog.LevelInfo, "token of a newer revision", append(attrs, slog.Any("error", err))...)
		return wire.TryAgain(tryAgainText)
	}
	if errors.Is(err, errEarly) {
		s.log.LogAttrs(ctx, slog.LevelWarn, "token of the future", append(attrs, slog.Any("error", err))...)
		return wire.TryAgain(earlyText)
	}
	var rejected *codec.Rejected
	var brought *broughtError
	var answers *saga.AnswerError
	var unsettled *saga.UnsettledError
	var panicked *saga.PanicError
	switch {
	case errors.As(err, &rejected):
		s.log.LogAttrs(ctx, levelOf(rejected.Reason), "token refused", append(attrs, slog.Any("token", rejected))...)
		return wire.NewError(wire.CodeInvalidParams, rejectedText)
	case errors.As(err, &answers):
		return wire.NewError(wire.CodeInvalidParams, answers.Error())
	case errors.As(err, &brought):
		s.log.LogAttrs(ctx, slog.LevelInfo, "request too large", append(attrs, slog.Any("error", err))...)
		return tooLarge(brought)
	case errors.As(err, &unsettled):
		s.log.LogAttrs(ctx, slog.LevelError, "effect of unknown outcome", append(attrs, slog.Any("error", err))...)
		return wire.TryAgain(unsettledText)
	case errors.As(err, &panicked):
		attrs = append(attrs, slog.String("stack", string(panicked.Stack)))
	case errors.Is(err, context.DeadlineExceeded):
		// A caller can choose what takes long.
		s.log.LogAttrs(ctx, slog.LevelWarn, "turn timed out", append(attrs, slog.Any("error", err))...)
		return wire.NewError(wire.CodeInternalError, timeoutText)
	case errors.Is(err, context.Canceled):
		s.log.LogAttrs(ctx, slog.LevelInfo, "turn cancelled", attrs...)
		return wire.NewError(wire.CodeInternalError, internalText)
	}
	s.log.LogAttrs(ctx, slog.LevelError, "turn failed", append(attrs, slog.Any("error", err))...)
	return wire.NewError(wire.CodeInternalError, internalText)
}
