package server

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Headers by which gateways route without reading the body. They must say what
// the body says (MCP 2026-07-28, basic/transports/streamable-http; SEP-2243).
const (
	methodHeader = "Mcp-Method"
	nameHeader   = "Mcp-Name"
)

// headerValue returns the value of a header that may be there once. problem is
// not empty if it cannot be used.
func headerValue(h http.Header, name string) (value string, present bool, problem string) {
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

// matchHeader demands that a header has exactly a value.
func matchHeader(h http.Header, name, want string) *refusal {
	value, present, problem := headerValue(h, name)
	switch {
	case problem != "":
	case !present:
		problem = "is missing"
	case value != want:
		problem = "is not what the body says"
	}
	return mismatch(name, problem)
}

// matchEncodedHeader demands that a header has a value, perhaps encoded.
func matchEncodedHeader(h http.Header, name, want string) *refusal {
	value, present, problem := decodedHeader(h, name)
	switch {
	case problem != "":
	case !present:
		problem = "is missing"
	case value != want:
		problem = "is not what the body says"
	}
	return mismatch(name, problem)
}

func decodedHeader(h http.Header, name string) (value string, present bool, problem string) {
	value, present, problem = headerValue(h, name)
	if problem == "" && present {
		var ok bool
		if value, ok = decodeHeader(value); !ok {
			problem = "is encoded, but not in base64 of UTF-8"
		}
	}
	return value, present, problem
}

// mismatch is nil without a problem.
func mismatch(name, problem string) *refusal {
	if problem == "" {
		return nil
	}
	return refuse(http.StatusBadRequest, codeHeaderMismatch, "the header "+name+" "+problem)
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
	// The decoder skips line ends; headerValue has refused those.
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || !utf8.Valid(raw) {
		return "", false
	}
	return string(raw), true
}
