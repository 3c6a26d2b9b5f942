package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// codeTryAgain is what a server of this module answers to a token that another
// replica, or the same one later, may take: send the same request again.
const codeTryAgain = -31503

// What MCP 2026-07-28 has codes of its own for.
const (
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

// ErrPause is what a handler returns to stop the call without answering the
// step. The call ends with an [*InterruptedError] whose position still holds the step,
// so that [Client.Resume] asks it again.
var ErrPause = errors.New("paused before the step was answered")

// ErrTimeout is in the chain of the error of a turn that took longer than
// Options.Timeout, or whose response began and then stalled (see HTTP.Stall).
var ErrTimeout = errors.New("the server did not answer in time")

// Error is a JSON-RPC error: either the server's answer to a request, or, when a
// handler returns it, the client's answer to a step. It is never retried, unless it is the
// server's -31503, which asks for that.
type Error struct {
	// Code is the JSON-RPC error code, such as -32601 for a method or kind of step
	// that the other side does not know, and -32602 for what it does not take: an
	// unknown tool, arguments that do not fit, a token that has expired.
	Code    int64           `json:"code"`
	Message string          `json:"message"`        // from a server it is text to show, not to trust
	Data    json.RawMessage `json:"data,omitempty"` // whatever else the sender said, or nil
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// TransportError says that a request brought no answer.
type TransportError struct {
	Sent       bool          // false if the request certainly did not reach the server
	Status     int           // HTTP status of the response, or 0 if there was none
	RetryAfter time.Duration // how long the server asked to wait, or 0
	Err        error         // the cause

	// final marks an error that another attempt would meet again.
	final bool
}

// Error implements error.
func (e *TransportError) Error() string {
	switch {
	case e.Status != 0:
		return fmt.Sprintf("the server answered with HTTP status %d: %v", e.Status, e.Err)
	case !e.Sent:
		return fmt.Sprintf("cannot reach the server: %v", e.Err)
	}
	return fmt.Sprintf("lost the server before it answered: %v", e.Err)
}

// Unwrap returns Err.
func (e *TransportError) Unwrap() error { return e.Err }

// passing are the statuses after which another attempt may succeed; 0 is no response.
var passing = []int{0, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// repeatable reports whether the request may be sent again. harmless says that
// the server may process the request twice.
func (e *TransportError) repeatable(harmless bool) bool {
	return !e.final && (!e.Sent || harmless && slices.Contains(passing, e.Status))
}

// ProtocolError says that the server sent something that is not an answer. It is
// a fault of the server, or of whatever answers at its address.
type ProtocolError struct {
	Reason string // what is wrong and, where there is something, what to do
	Err    error  // the cause, or nil
}

// Error implements error.
func (e *ProtocolError) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return fmt.Sprintf("%s: %v", e.Reason, e.Err)
}

// Unwrap returns Err.
func (e *ProtocolError) Unwrap() error { return e.Err }

func malformed(format string, args ...any) error {
	return &ProtocolError{Reason: fmt.Sprintf(format, args...)}
}

// InterruptedError says that a call ended without a result, and where. Err is the
// cause: [ErrPause], the context's error, an *[Error], *[TransportError],
// *[ProtocolError], *[LimitError], *[PositionError], what OnPosition returned, or an
// error that says what a handler should have returned.
type InterruptedError struct {
	// Position is where the call stands. [Client.Resume] continues from it, and repeats the turn that
	// failed, if one did. If it has no token, the call never got an answer, and Resume starts it
	// (possibly for the second time, unless the tool takes idempotency keys). If it has no version, the
	// arguments could not be sent, and Resume refuses it.
	Position Position
	Err      error // the cause
}

// Error implements error.
func (e *InterruptedError) Error() string {
	return fmt.Sprintf("the call of %s %q stopped after %d answered steps: %v",
		e.Position.Kind(), e.Position.Subject(), len(e.Position.Answers), e.Err)
}

// Unwrap returns Err.
func (e *InterruptedError) Unwrap() error { return e.Err }
