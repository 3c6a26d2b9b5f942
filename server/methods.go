package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
)

// method answers one JSON-RPC method of the saga proposal: params in, how the turn
// ended out. An error that is not a *jsonrpc2.Error is translated by wireError.
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
func (s *Server) answer(ctx context.Context, c caller, m *message) []byte {
	response, _ := s.respond(nil, ctx, c, m)
	return response
}

// respond is answer for those who have memory for the response, and need the error
// that it holds.
func (s *Server) respond(b []byte, ctx context.Context, c caller, m *message) ([]byte, *jsonrpc2.Error) {
	handle := s.methods[m.method]
	if handle == nil {
		fail := rpcError(jsonrpc2.CodeMethodNotFound, "method not found")
		return appendResponse(b, m.id, nil, fail), fail
	}
	end, err := handle(ctx, c, m.params)
	if err == nil {
		var response []byte
		if response, err = appendSagaResult(beginResponse(b, m.id), &end); err == nil {
			return append(response, '}'), nil
		}
	}
	fail := s.wireError(ctx, m.method, err)
	return appendResponse(b, m.id, nil, fail), fail
}

// codeTryAgain says that the same request may succeed on another replica, or a
// little later. It lies outside the range that JSON-RPC and MCP keep for
// themselves; over HTTP it comes with the status 503.
const codeTryAgain = -31503

func tryAgain(text string) *jsonrpc2.Error {
	e := rpcError(codeTryAgain, text)
	data := json.RawMessage(`{"retryable":true}`)
	e.Data = &data
	return e
}

// tooLarge says how much less a client has to send.
func tooLarge(e *broughtError) *jsonrpc2.Error {
	fail := rpcError(jsonrpc2.CodeInvalidParams, fmt.Sprintf(
		"the arguments and answers are too large for a tool that asks: what it has to remember takes %d bytes, and %d are the most; send less", e.Size, e.Limit))
	data := json.RawMessage(fmt.Sprintf(`{"size":%d,"limit":%d}`, e.Size, e.Limit))
	fail.Data = &data
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
func (s *Server) toolError(ctx context.Context, method string, e *engine.ToolError) *jsonrpc2.Error {
	level, what, code := slog.LevelWarn, "request failed", int64(jsonrpc2.CodeInternalError)
	if e.Disclosed {
		level, what, code = slog.LevelInfo, "request stopped", jsonrpc2.CodeInvalidParams
	}
	s.log.Log(ctx, level, what, "method", method, "error", e, "cause", e.Err)
	return rpcError(code, e.Text)
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
func (s *Server) wireError(ctx context.Context, name string, err error) *jsonrpc2.Error {
	var fail *jsonrpc2.Error
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
		return tryAgain(tryAgainText)
	}
	if errors.Is(err, errEarly) {
		s.log.LogAttrs(ctx, slog.LevelWarn, "token of the future", append(attrs, slog.Any("error", err))...)
		return tryAgain(earlyText)
	}
	var rejected *codec.Rejected
	var brought *broughtError
	var answers *engine.AnswerError
	var unsettled *engine.UnsettledError
	var panicked *engine.PanicError
	switch {
	case errors.As(err, &rejected):
		s.log.LogAttrs(ctx, levelOf(rejected.Reason), "token refused", append(attrs, slog.Any("token", rejected))...)
		return rpcError(jsonrpc2.CodeInvalidParams, rejectedText)
	case errors.As(err, &answers):
		return rpcError(jsonrpc2.CodeInvalidParams, answers.Error())
	case errors.As(err, &brought):
		s.log.LogAttrs(ctx, slog.LevelInfo, "request too large", append(attrs, slog.Any("error", err))...)
		return tooLarge(brought)
	case errors.As(err, &unsettled):
		s.log.LogAttrs(ctx, slog.LevelError, "effect of unknown outcome", append(attrs, slog.Any("error", err))...)
		return tryAgain(unsettledText)
	case errors.As(err, &panicked):
		attrs = append(attrs, slog.String("stack", string(panicked.Stack)))
	case errors.Is(err, context.DeadlineExceeded):
		// A caller can choose what takes long.
		s.log.LogAttrs(ctx, slog.LevelWarn, "turn timed out", append(attrs, slog.Any("error", err))...)
		return rpcError(jsonrpc2.CodeInternalError, timeoutText)
	case errors.Is(err, context.Canceled):
		s.log.LogAttrs(ctx, slog.LevelInfo, "turn cancelled", attrs...)
		return rpcError(jsonrpc2.CodeInternalError, internalText)
	}
	s.log.LogAttrs(ctx, slog.LevelError, "turn failed", append(attrs, slog.Any("error", err))...)
	return rpcError(jsonrpc2.CodeInternalError, internalText)
}
