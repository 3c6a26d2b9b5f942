package server

import "encoding/json"

// Error is the error of a request that [Server.Handle] answered. It can be sent to the
// client as it is.
type Error struct {
	Code    int64
	Message string
	Data    json.RawMessage
}

// Error implements error.
func (e *Error) Error() string { return e.Message }
