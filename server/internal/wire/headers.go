package wire

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Headers by which gateways route without reading the body. They must say what
// the body says (MCP 2026-07-28, basic/transports/streamable-http; SEP-2243).
const (
	MethodHeader = "Mcp-Method"
	NameHeader   = "Mcp-Name"
)

// VersionHeader names the protocol revision of an HTTP request: MCP-Protocol-Version,
// spelled as package http keeps it, which saves respelling it in every request.
const VersionHeader = "Mcp-Protocol-Version"

// SessionHeader names the session of an HTTP request.
const SessionHeader = "Mcp-Session-Id"

// HeaderValue returns the value of a header that may be there once. problem is
// not empty if it cannot be used.
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
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return "", true, "holds a control character or one that is not ASCII; encode such values"
		}
	}
	return value, true, ""
}

// MatchHeader demands that a header has exactly a value.
func MatchHeader(h http.Header, name, want string) *Error {
	value, present, problem := HeaderValue(h, name)
	return match(name, value, want, present, problem)
}

// MatchEncodedHeader demands that a header has a value, perhaps encoded.
func MatchEncodedHeader(h http.Header, name, want string) *Error {
	value, present, problem := DecodedHeader(h, name)
	return match(name, value, want, present, problem)
}

func match(name, value, want string, present bool, problem string) *Error {
	switch {
	case problem != "":
	case !present:
		problem = "is missing"
	case value != want:
		problem = "is not what the body says"
	}
	return Mismatch(name, problem)
}

// DecodedHeader is HeaderValue for a header that may be encoded.
func DecodedHeader(h http.Header, name string) (value string, present bool, problem string) {
	value, present, problem = HeaderValue(h, name)
	if problem == "" && present {
		var ok bool
		if value, ok = decodeHeader(value); !ok {
			problem = "is encoded, but not in base64 of UTF-8"
		}
	}
	return value, present, problem
}

// Mismatch is the error of a header that has a problem; it is nil without one.
func Mismatch(name, problem string) *Error {
	if problem == "" {
		return nil
	}
	return Refuse(http.StatusBadRequest, CodeHeaderMismatch, "the header "+name+" "+problem)
}

// decodeHeader decodes a value in the form =?base64?...?=. Anything else is
// literal. It is strict, so that there is one meaning to each value.
func decodeHeader(v string) (string, bool) {
	encoded, ok := strings.CutPrefix(v, "=?base64?")
	if !ok {
		return v, true
	}
	if encoded, ok = strings.CutSuffix(encoded, "?="); !ok {
		return v, true
	}
	// The decoder skips line ends; HeaderValue has refused those.
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || !utf8.Valid(raw) {
		return "", false
	}
	return string(raw), true
}
