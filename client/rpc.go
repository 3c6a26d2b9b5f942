package client

import (
	stdjson "encoding/json"
	"strconv"

	"github.com/go-json-experiment/json"
)

// message is a JSON-RPC request, or a notification if it has no id.
type message struct {
	JSONRPC string `json:"jsonrpc"`
	ID      uint64 `json:"id,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

// parseResponse reads the JSON-RPC response to the request with the given id and
// returns its result. Its errors are *Error and *ProtocolError.
func parseResponse(body []byte, id uint64) (stdjson.RawMessage, error) {
	var wire struct {
		JSONRPC string             `json:"jsonrpc"`
		ID      stdjson.RawMessage `json:"id"`
		Result  stdjson.RawMessage `json:"result"`
		Error   *Error             `json:"error"`
	}
	if err := json.Unmarshal(body, &wire); err != nil {
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
