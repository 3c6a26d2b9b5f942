package server

import (
	"encoding/json"
	"time"
)

// Error is the error of a request that [Server.Handle] answered, and what [Hooks] refuse
// with. It can be sent to the client as it is.
type Error struct {
	// Code is a code of JSON-RPC or MCP. Default for hooks: -32600.
	Code int64
	// Message says what is wrong and what to do.
	Message string
	// Data is a JSON value, or nil.
	Data json.RawMessage

	retryAfter time.Duration
}

// Error implements error.
func (e *Error) Error() string { return e.Message }
