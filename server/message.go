package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// message is one JSON-RPC 2.0 message as it was read. Its parts stay raw:
// package jsonrpc2 reads ids as unsigned integers and rewrites parameters, and
// a response must repeat the id exactly.
type message struct {
	id     jsontext.Value // nil for a notification
	method string
	params jsontext.Value
	// reply holds the whole message if it is a response.
	reply jsontext.Value
	// size is how many bytes the message has; its parts keep all of them in memory.
	size int
}

func (m *message) notification() bool { return m.id == nil && m.reply == nil }

// parseMessage reads one message. The id is set even if the rest is refused, so
// that the error can be sent to whoever waits for it. The parts are in raw's memory,
// which must not change afterwards.
//
// Here the message is validated, once and as a whole: that it is JSON, in UTF-8,
// and that no name occurs twice. So its parts may be read with package jsonview.
func parseMessage(raw []byte) (message, *jsonrpc2.Error) {
	m := message{size: len(raw)}
	if isBatch(raw) {
		return m, rpcError(jsonrpc2.CodeInvalidRequest, batchText)
	}
	if !jsonview.Valid(raw) {
		return m, rpcError(jsonrpc2.CodeParseError, "the message is not valid JSON (or a name occurs twice in an object)")
	}
	if jsontext.Value(raw).Kind() != '{' {
		return m, rpcError(jsonrpc2.CodeInvalidRequest, "the message is not a JSON-RPC 2.0 object")
	}
	var version, id, method, params, outcome jsontext.Value
	for name, v := range jsonview.Members(raw) {
		switch string(name) { // members that are not of JSON-RPC are ignored
		case "jsonrpc":
			version = v
		case "id":
			id = v
		case "method":
			method = v
		case "params":
			params = v
		case "result", "error":
			outcome = v
		}
	}
	if id != nil {
		if len(id) > maxID {
			return m, rpcError(jsonrpc2.CodeInvalidRequest, longIDText)
		}
		if !validID(id) {
			return m, rpcError(jsonrpc2.CodeInvalidRequest, "the id must be a string or an integer")
		}
		m.id = id
	}
	if jsonview.Deeper(raw, maxNesting) {
		return m, rpcError(jsonrpc2.CodeInvalidRequest, deepText)
	}
	if string(version) != `"2.0"` && !isText(version, "2.0") {
		return m, rpcError(jsonrpc2.CodeInvalidRequest, `the member "jsonrpc" must be "2.0"`)
	}
	if method == nil && outcome != nil && m.id != nil {
		m.reply = raw
		return m, nil
	}
	var ok bool
	if m.method, ok = jsonview.String(method); !ok {
		return m, rpcError(jsonrpc2.CodeInvalidRequest, `the member "method" must be a string`)
	}
	if params != nil {
		if params.Kind() != '{' {
			return m, rpcError(jsonrpc2.CodeInvalidRequest, `the member "params" must be an object`)
		}
		m.params = params
	}
	return m, nil
}

// maxNesting is how deep arrays and objects may be nested in a message: the work of
// those who read values from the outside to the inside grows with it.
const maxNesting = 256

// maxID is how long an id may be, in bytes. It is kept for as long as its request
// is open, and repeated in what is told meanwhile.
const maxID = 1 << 10

var (
	deepText      = fmt.Sprintf("the message is nested too deep: %d levels are the most", maxNesting)
	longTokenText = fmt.Sprintf("params._meta.progressToken is too long: %d bytes are the most", maxID)
	longIDText    = fmt.Sprintf("the id is too long: %d bytes are the most", maxID)
)

// isText reports whether v is a JSON string that means text, however it is spelt.
func isText(v jsontext.Value, text string) bool {
	s, ok := jsonview.String(v)
	return ok && s == text
}

// validID accepts what MCP allows as a request id or a progress token: a string or
// an integer (basic/index), never null, of up to maxID bytes.
func validID(id jsontext.Value) bool {
	if len(id) > maxID {
		return false
	}
	switch id.Kind() {
	case '"':
		return true
	case '0':
		_, err := strconv.ParseInt(string(id), 10, 64)
		return err == nil
	}
	return false
}

// appendResponse writes a response. Without an id, an error says null: the
// request's id could not be read (JSON-RPC 2.0, section 5).
func appendResponse(b []byte, id jsontext.Value, result []byte, fail *jsonrpc2.Error) []byte {
	if fail == nil {
		return append(append(beginResponse(b, id), result...), '}')
	}
	return appendError(append(appendID(b, id), ','), fail)
}

// beginResponse writes a response up to its result, after which only a closing
// brace is missing.
func beginResponse(b []byte, id jsontext.Value) []byte {
	return append(appendID(b, id), `,"result":`...)
}

func appendID(b []byte, id jsontext.Value) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	if id == nil {
		return append(b, "null"...)
	}
	return append(b, id...)
}

// appendIDless writes an error response without an id. It is how MCP says from
// 2026-07-28 on that the request's id could not be read (basic/index).
func appendIDless(b []byte, fail *jsonrpc2.Error) []byte {
	return appendError(append(b, `{"jsonrpc":"2.0",`...), fail)
}

func appendError(b []byte, fail *jsonrpc2.Error) []byte {
	b = append(b, `"error":{"code":`...)
	b = strconv.AppendInt(b, fail.Code, 10)
	b = append(b, `,"message":`...)
	b = appendString(b, fail.Message)
	if fail.Data != nil {
		b = append(b, `,"data":`...)
		b = append(b, *fail.Data...)
	}
	return append(b, "}}"...)
}

// appendString writes a JSON string. What is not UTF-8 is replaced.
func appendString(b []byte, s string) []byte {
	out, err := jsontext.AppendQuote(b, s)
	if err != nil {
		out, _ = jsontext.AppendQuote(b, string(bytes.ToValidUTF8([]byte(s), []byte("\uFFFD"))))
	}
	return out
}

// appendToken writes a token as a JSON string. Tokens consist of A-Z a-z 0-9 - _
// alone, so there is nothing to escape.
func appendToken(b []byte, token string) []byte {
	return append(append(append(b, '"'), token...), '"')
}

func rpcError(code int64, text string) *jsonrpc2.Error {
	return &jsonrpc2.Error{Code: code, Message: text}
}

// decodeParams reads a method's parameters. The error says which one is wrong.
func decodeParams(raw jsontext.Value, into any) *jsonrpc2.Error {
	if raw == nil {
		raw = jsontext.Value("{}")
	}
	err := jsonv2.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	var semantic *jsonv2.SemanticError
	if errors.As(err, &semantic) {
		return wrongParam(string(semantic.JSONPointer))
	}
	return wrongParam("")
}

// wrongParam is the error of a parameter of another type than the method's. The
// pointer says which; it may be empty.
func wrongParam(pointer string) *jsonrpc2.Error {
	text := "the parameters are not of the method's form"
	if pointer != "" {
		text += ": see " + pointer
	}
	return rpcError(jsonrpc2.CodeInvalidParams, text)
}

// readText reads a parameter that is a string, or null for none.
func readText(v jsontext.Value, pointer string) (string, *jsonrpc2.Error) {
	if text, ok := jsonview.String(v); ok || v.Kind() == 'n' {
		return text, nil
	}
	return "", wrongParam(pointer)
}

// marshal writes maps in one order, so that the same response is always the same
// bytes, and empty lists as such.
func marshal(v any) (json.RawMessage, error) {
	return jsonv2.Marshal(v, jsonv2.FormatNilSliceAsNull(false), jsonv2.Deterministic(true))
}
