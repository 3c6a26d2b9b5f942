package wire

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

// Codes of errors: those of JSON-RPC 2.0, and those that MCP 2026-07-28 adds
// (basic/index, error codes).
const (
	CodeParseError     = jsonrpc2.CodeParseError
	CodeInvalidRequest = jsonrpc2.CodeInvalidRequest
	CodeMethodNotFound = jsonrpc2.CodeMethodNotFound
	CodeInvalidParams  = jsonrpc2.CodeInvalidParams
	CodeInternalError  = jsonrpc2.CodeInternalError

	CodeHeaderMismatch      = -32020
	CodeMissingCapability   = -32021
	CodeUnsupportedProtocol = -32022

	// CodeTryAgain says that the same request may succeed on another replica, or a
	// little later. It lies outside the range that JSON-RPC and MCP keep for
	// themselves; over HTTP it comes with the status 503.
	CodeTryAgain = -31503
)

// Error is an error as it is sent to a client.
type Error struct {
	Code    int64
	Message string
	Data    json.RawMessage
	// Status is the HTTP status of a response that is this error; 0 is 200: the
	// message was delivered and answered.
	Status int
	// RetryAfter is when to send the request again, if that is to be said.
	RetryAfter time.Duration
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// NewError returns an error that HTTP has no status for.
func NewError(code int64, text string) *Error { return &Error{Code: code, Message: text} }

// Refuse returns an error with an HTTP status.
func Refuse(status int, code int64, text string) *Error {
	return &Error{Code: code, Message: text, Status: status}
}

// NotFound is the error of a method that is not served.
func NotFound() *Error { return Refuse(http.StatusNotFound, CodeMethodNotFound, "method not found") }

// TryAgain returns an error that says that the same request may succeed soon.
func TryAgain(text string) *Error {
	return &Error{
		Code: CodeTryAgain, Message: text, Data: json.RawMessage(`{"retryable":true}`),
		Status: http.StatusServiceUnavailable, RetryAfter: time.Second,
	}
}

// WithMember returns the error with an object of one member as its data.
func (e *Error) WithMember(name string, value []byte) *Error {
	data := AppendString([]byte{'{'}, name)
	e.Data = append(append(append(data, ':'), value...), '}')
	return e
}
