package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// message is a JSON-RPC request, or a notification if it has no id.
type message struct {
	JSONRPC string `json:"jsonrpc"`
	ID      uint64 `json:"id,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

// wireMessage is a message of a server that has not been looked at.
type wireMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// outOfPlace is why a request of a server's own is not answered.
func outOfPlace(method string) string {
	return fmt.Sprintf("the server sent the request %.40q, and in MCP %s servers send none: it asks as in older revisions; speak one of these with it (--protocol %s)", method, revision, older[0])
}

// lenient: what a server has done is not thrown away for a name that comes twice.
var lenient = jsontext.AllowDuplicateNames(true)

// sound returns JSON with U+FFFD where a string is no Unicode, such as half of a pair of surrogates, which servers in JavaScript
// write; or JSON itself if it is none.
func sound(raw json.RawMessage) json.RawMessage {
	if jsontext.Value(raw).IsValid(lenient) {
		return raw
	}
	mended, err := jsontext.AppendFormat(nil, raw, lenient, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return raw
	}
	return mended
}

// parseResponse returns the result in the response to the request with that id. Errors are *Error and *ProtocolError.
func parseResponse(body []byte, id uint64) (json.RawMessage, error) {
	var wire struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result"`
		Error   *Error          `json:"error"`
	}
	err := jsonv2.Unmarshal(body, &wire, lenient)
	if err != nil {
		err = jsonv2.Unmarshal(sound(body), &wire, lenient)
	}
	if err != nil {
		return nil, &ProtocolError{Reason: "the server's answer is not a JSON-RPC response", Err: err}
	}
	// A server that could not read the request does not know its id.
	anonymous := wire.Error != nil && (wire.ID == nil || string(wire.ID) == "null")
	switch {
	case wire.JSONRPC != "2.0":
		return nil, malformed("the server's answer is not a JSON-RPC 2.0 response")
	case (wire.Result == nil) == (wire.Error == nil):
		return nil, malformed("the server's answer needs either a result or an error")
	case !anonymous && string(wire.ID) != strconv.FormatUint(id, 10):
		return nil, malformed("the server answered request %.40q instead of %d", wire.ID, id)
	case wire.Error != nil:
		return nil, wire.Error
	}
	return wire.Result, nil
}

// Transport carries requests to one server: [*HTTP] or [*Stdio]. It is safe for
// concurrent use. Only this package implements it, so that it can grow with the
// protocols.
type Transport interface {
	io.Closer
	// exchange sends one request and returns the result of its response. Its
	// errors are *Error, *TransportError, *ProtocolError and ctx's.
	exchange(ctx context.Context, r *request) (json.RawMessage, error)
}

// read decodes what a server sent. Its errors are *ProtocolError and name it.
func read(raw json.RawMessage, into any, what string) error {
	err := jsonv2.Unmarshal(raw, into, lenient)
	if err == nil {
		return nil
	}
	if much, ok := errors.AsType[*LimitError](err); ok { // without where in the JSON
		return tooMuch(much.Limit, much.What)
	}
	return &ProtocolError{Reason: what + " is malformed", Err: err}
}
