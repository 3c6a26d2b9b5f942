package legacy

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// methods are the requests that a session sends. The SDK's methods of these names would read
// results into its types, which have no tasks: so each is a custom method of the SDK with a
// prefix, which [rename] takes away.
var methods = []string{
	"tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/templates/list",
	"resources/read", "tasks/get", "tasks/result", "tasks/cancel",
}

const ownPrefix = "mcpsaga/"

type rawParams struct {
	mcp.ParamsBase
	raw json.RawMessage
}

// MarshalJSON implements [json.Marshaler].
func (p *rawParams) MarshalJSON() ([]byte, error) { return p.raw, nil }

type rawResult struct {
	mcp.ResultBase
	raw json.RawMessage
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *rawResult) UnmarshalJSON(raw []byte) error {
	r.raw = bytes.Clone(raw)
	return nil
}

// rename gives the method of a message its own name, and reports whether the message cancels a
// request.
func rename(message []byte) (_ []byte, cancels bool) {
	m, err := jsonrpc.DecodeMessage(message)
	request, is := m.(*jsonrpc.Request)
	if err != nil || !is {
		return message, false
	}
	name, own := strings.CutPrefix(request.Method, ownPrefix)
	if !own {
		return message, name == "notifications/cancelled"
	}
	request.Method = name
	if message, err = jsonrpc.EncodeMessage(request); err != nil {
		panic(err) // it was decoded
	}
	return append(message, '\n'), false
}

// unprefixed is an error of the SDK whose text names a method.
type unprefixed struct{ error }

func (e unprefixed) Error() string { return strings.Replace(e.error.Error(), ownPrefix, "", 1) }
func (e unprefixed) Unwrap() error { return e.error }
