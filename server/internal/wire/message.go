package wire

import (
	"errors"
	"fmt"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Message is one JSON-RPC 2.0 message as it was read. Its parts stay raw:
// package jsonrpc2 reads ids as unsigned integers and rewrites parameters, and
// a response must repeat the id exactly.
type Message struct {
	ID     jsontext.Value // nil for a notification
	Method string
	Params jsontext.Value
	// Reply holds the whole message if it is a response.
	Reply jsontext.Value
	// Size is how many bytes the message has; its parts keep all of them in memory.
	Size int
}

// Notification reports whether nobody waits for an answer to the message.
func (m *Message) Notification() bool { return m.ID == nil && m.Reply == nil }

// Parse reads one message. The ID is set even if the rest is refused, so
// that the error can be sent to whoever waits for it. The parts are in raw's memory,
// which must not change afterwards.
//
// Here the message is validated, once and as a whole: that it is JSON, in UTF-8,
// and that no name occurs twice. So its parts may be read with package jsonview.
func Parse(raw []byte) (Message, *Error) {
	m := Message{Size: len(raw)}
	if IsBatch(raw) {
		return m, NewError(CodeInvalidRequest, BatchText)
	}
	if !jsonview.Valid(raw) {
		return m, NewError(CodeParseError, "the message is not valid JSON (or a name occurs twice in an object)")
	}
	if jsontext.Value(raw).Kind() != '{' {
		return m, NewError(CodeInvalidRequest, "the message is not a JSON-RPC 2.0 object")
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
		if len(id) > MaxID {
			return m, NewError(CodeInvalidRequest, longIDText)
		}
		if !ValidID(id) {
			return m, NewError(CodeInvalidRequest, "the id must be a string or an integer")
		}
		m.ID = id
	}
	if jsonview.Deeper(raw, MaxNesting) {
		return m, NewError(CodeInvalidRequest, DeepText)
	}
	if string(version) != `"2.0"` && !isText(version, "2.0") {
		return m, NewError(CodeInvalidRequest, `the member "jsonrpc" must be "2.0"`)
	}
	if method == nil && outcome != nil && m.ID != nil {
		m.Reply = raw
		return m, nil
	}
	var ok bool
	if m.Method, ok = jsonview.String(method); !ok {
		return m, NewError(CodeInvalidRequest, `the member "method" must be a string`)
	}
	if params != nil {
		if params.Kind() != '{' {
			return m, NewError(CodeInvalidRequest, `the member "params" must be an object`)
		}
		m.Params = params
	}
	return m, nil
}

// MaxNesting is how deep arrays and objects may be nested in a message: the work of
// those who read values from the outside to the inside grows with it.
const MaxNesting = 256

// MaxID is how long an id may be, in bytes. It is kept for as long as its request
// is open, and repeated in what is told meanwhile.
const MaxID = 1 << 10

// DeepText is the text of an error: a message is nested too deep.
var DeepText = fmt.Sprintf("the message is nested too deep: %d levels are the most", MaxNesting)

// LongTokenText is the text of an error: a progress token is too long.
var LongTokenText = fmt.Sprintf("params._meta.progressToken is too long: %d bytes are the most", MaxID)

var (
	longIDText = fmt.Sprintf("the id is too long: %d bytes are the most", MaxID)
)

// isText reports whether v is a JSON string that means text, however it is spelt.
func isText(v jsontext.Value, text string) bool {
	s, ok := jsonview.String(v)
	return ok && s == text
}

// ValidID accepts what MCP allows as a request id or a progress token: a string or
// an integer (basic/index), never null, of up to MaxID bytes.
func ValidID(id jsontext.Value) bool {
	if len(id) > MaxID {
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

// DecodeParams reads a method's parameters. The error says which one is wrong.
func DecodeParams(raw jsontext.Value, into any) *Error {
	if raw == nil {
		raw = jsontext.Value("{}")
	}
	err := jsonv2.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	var semantic *jsonv2.SemanticError
	if errors.As(err, &semantic) {
		return WrongParam(string(semantic.JSONPointer))
	}
	return WrongParam("")
}

// WrongParam is the error of a parameter of another type than the method's. The
// pointer says which; it may be empty.
func WrongParam(pointer string) *Error {
	text := "the parameters are not of the method's form"
	if pointer != "" {
		text += ": see " + pointer
	}
	return NewError(CodeInvalidParams, text)
}

// ReadString reads a parameter that is a string, or null for none.
func ReadString(v jsontext.Value, pointer string) (string, *Error) {
	if text, ok := jsonview.String(v); ok || v.Kind() == 'n' {
		return text, nil
	}
	return "", WrongParam(pointer)
}
