// Package wire is JSON-RPC 2.0 as it is on the wire: messages in; responses, requests and errors out; headers that repeat what a
// message says; and event streams. It knows nothing of what the messages are about. A transport begins with [Parse] and ends with
// [AppendResponse].
package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Message is one JSON-RPC 2.0 message as it was read. Its parts stay raw, as a response must repeat the id exactly.
type Message struct {
	ID     jsontext.Value // nil for a notification
	Method string
	Params jsontext.Value
	// Reply holds the whole message if it is a response.
	Reply jsontext.Value
	// Size is how many bytes the message has; its parts keep all of them in memory.
	Size int
}

// Parse reads one message, whose parts are in raw's memory. The ID is set even if the rest is refused, for the error that is sent.
// Here it is validated as a whole that it is JSON, in UTF-8, and no name occurs twice: its parts may be read with package jsonview.
func Parse(raw []byte) (Message, *Error) {
	m := Message{Size: len(raw)}
	if jsontext.Value(raw).Kind() == '[' {
		return m, NewError(CodeInvalidRequest, BatchText)
	}
	valid, within := jsonview.ValidWithin(raw, MaxNesting)
	if !valid {
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
	if id.Kind() == 'n' && method == nil && outcome != nil {
		id = nil // an error of a peer that could not read the id of ours
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
	if !within {
		return m, NewError(CodeInvalidRequest, Excess(raw, MaxNesting))
	}
	if string(version) != `"2.0"` && !jsonview.Is(version, "2.0") {
		return m, NewError(CodeInvalidRequest, `the member "jsonrpc" must be "2.0"`)
	}
	if method == nil && outcome != nil { // responses are not answered: two peers could do so for ever
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

// MaxNesting is how deep a message may be nested, with which the work of some readers grows.
const MaxNesting = 256

// MaxID is how long an id may be, in bytes, which is kept and repeated while its request is open.
const MaxID = 1 << 10

// Excess says what a message, or a part of one, has too much of to be looked at; "" if that is nothing.
func Excess(raw []byte, levels int) string {
	switch {
	case jsonview.Deeper(raw, levels):
		return fmt.Sprintf("the message is nested too deep: %d levels are the most", MaxNesting)
	case jsonview.Far(raw):
		return "the message has too many numbers beyond 1e100 or nearer to zero than 1e-100"
	}
	return ""
}

// LongTokenText is the text of an error: a progress token is too long.
var LongTokenText = fmt.Sprintf("params._meta.progressToken is too long: %d bytes are the most", MaxID)

var longIDText = fmt.Sprintf("the id is too long: %d bytes are the most", MaxID)

// ValidID accepts what MCP allows as a request id or a progress token (basic/index), of up to MaxID bytes.
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

// CanonicalID is a valid id as all spellings of it are.
func CanonicalID(id jsontext.Value) (canonical string, ok bool) {
	v := id.Clone()
	if !ValidID(v) || v.Canonicalize() != nil {
		return "", false
	}
	return string(v), true
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

// WrongParam is the error of a parameter of a wrong type. The pointer says which; it may be empty.
func WrongParam(pointer string) *Error {
	text := "the parameters are not of the method's form"
	if pointer != "" {
		text += ": see " + pointer
	}
	return NewError(CodeInvalidParams, text)
}

// maxBatch bounds the messages in one batch.
const maxBatch = 64

// BatchText is the text of the error that a batch is where there are none.
const BatchText = "batches are not supported: send one message at a time"

// SplitBatch returns the messages of a batch (JSON-RPC 2.0, section 6), which are parsed one by one.
func SplitBatch(raw []byte) ([]jsontext.Value, *Error) {
	switch valid, within := jsonview.ValidWithin(raw, MaxNesting+1); {
	case !within:
		return nil, NewError(CodeInvalidRequest, Excess(raw, MaxNesting+1))
	case !valid:
		return nil, NewError(CodeParseError, "the batch is not valid JSON")
	}
	var list []jsontext.Value
	for v := range jsonview.Elements(raw) {
		if list = append(list, v); len(list) > maxBatch {
			return nil, NewError(CodeInvalidRequest, "the batch has too many messages")
		}
	}
	if len(list) == 0 {
		return nil, NewError(CodeInvalidRequest, "the batch is empty")
	}
	return list, nil
}

// Codes of errors: those of JSON-RPC 2.0, and those that MCP 2026-07-28 adds (basic/index).
const (
	CodeParseError     = jsonrpc2.CodeParseError
	CodeInvalidRequest = jsonrpc2.CodeInvalidRequest
	CodeMethodNotFound = jsonrpc2.CodeMethodNotFound
	CodeInvalidParams  = jsonrpc2.CodeInvalidParams
	CodeInternalError  = jsonrpc2.CodeInternalError

	CodeHeaderMismatch      = -32020
	CodeMissingCapability   = -32021
	CodeUnsupportedProtocol = -32022

	// CodeTryAgain says that the same request may succeed on another replica, or a little later. It lies outside the range of
	// JSON-RPC and MCP.
	CodeTryAgain = -31503
)

// Error is an error as it is sent to a client.
type Error struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitzero"`
	// Status is the HTTP status of a response that is this error; 0 is 200: it was delivered and answered.
	Status int `json:"-"`
	// RetryAfter is when to send the request again, if that is to be said.
	RetryAfter time.Duration `json:"-"`
	// Challenge is the header WWW-Authenticate, or empty.
	Challenge string `json:"-"`
	// Bound is which of the server's bounds the request has met, in a word for observers, or empty.
	Bound string `json:"-"`
	// Fault: it lies inside, and says nothing of what the client may do.
	Fault bool `json:"-"`
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Auth reports whether it is for want of a credential or a permission: then HTTP has its status, whatever the dialect.
func (e *Error) Auth() bool {
	return e != nil && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden)
}

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

// Later returns an error that says that the same request may succeed after a while, as it has met a bound.
func Later(status int, bound, text string, after time.Duration) *Error {
	e := TryAgain(text)
	e.Status, e.Bound, e.RetryAfter = status, bound, after
	e.Data = fmt.Appendf(nil, `{"retryable":true,"retryAfterMs":%d}`, (after+time.Millisecond-1)/time.Millisecond)
	return e
}

// WithData returns the error with an object as its data: before, and a string as the last value.
func (e *Error) WithData(before, text string) *Error {
	e.Data = append(AppendString([]byte(before), text), '}')
	return e
}

// Headers for gateways, which say what the body says (MCP 2026-07-28, basic/transports/streamable-http; SEP-2243).
const (
	MethodHeader = "Mcp-Method"
	NameHeader   = "Mcp-Name"
)

// VersionHeader names the protocol revision of an HTTP request, spelled as package http keeps it.
const VersionHeader = "Mcp-Protocol-Version"

// SessionHeader names the session of an HTTP request.
const SessionHeader = "Mcp-Session-Id"

// HeaderValue returns the value of a header that may be there once. problem says why it cannot be used.
func HeaderValue(h http.Header, name string) (value string, present bool, problem string) {
	values := h.Values(name)
	switch len(values) {
	case 0:
		return "", false, ""
	case 1:
	default:
		return "", true, "is there more than once"
	}
	value = strings.Trim(values[0], " \t") // optional whitespace (RFC 9110, 5.5)
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", true, "holds a control character or one that is not ASCII; encode such values"
	}
	return value, true, ""
}

// MatchHeader demands that a header has a value, which may be encoded.
func MatchHeader(h http.Header, name, want string, encoded bool) *Error {
	read := HeaderValue
	if encoded {
		read = DecodedHeader
	}
	value, present, problem := read(h, name)
	switch {
	case problem != "":
	case !present:
		problem = "is missing"
	case value != want:
		problem = "is not what the body says"
	}
	return Mismatch(name, problem)
}

// DecodedHeader is HeaderValue for a header that may be encoded, as =?base64?...?=. It is strict: each value means one thing.
func DecodedHeader(h http.Header, name string) (value string, present bool, problem string) {
	value, present, problem = HeaderValue(h, name)
	encoded, begins := strings.CutPrefix(value, "=?base64?")
	encoded, ends := strings.CutSuffix(encoded, "?=")
	if !begins || !ends {
		return value, present, problem
	}
	// The decoder skips line ends; HeaderValue has refused those.
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || !utf8.Valid(raw) {
		return "", true, "is encoded, but not in base64 of UTF-8"
	}
	return string(raw), true, ""
}

// Mismatch is the error of a header that has a problem; it is nil without one.
func Mismatch(name, problem string) *Error {
	if problem == "" {
		return nil
	}
	return Refuse(http.StatusBadRequest, CodeHeaderMismatch, "the header "+name+" "+problem)
}
