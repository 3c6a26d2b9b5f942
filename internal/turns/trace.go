package turns

import (
	"encoding/hex"
	"strings"
)

// Trace is a W3C trace context of version 00 in the form in which tokens hold it: the
// version, the trace's id, the parent's and the flags. The zero value is none.
type Trace [1 + 16 + 8 + 1]byte

// traceparent is how long the text of version 00 is.
const traceparent = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

// ParseTrace reads a traceparent (W3C Trace Context, 3.2). Of versions that are yet to
// come it takes what they have in common with this one, as the standard says. ok is false
// if there is none, or it is not valid: then it must be ignored.
func ParseTrace(s string) (t Trace, ok bool) {
	later := len(s) > traceparent && s[traceparent] == '-' && !strings.HasPrefix(s, "00")
	if len(s) != traceparent && !later || strings.HasPrefix(s, "ff") || strings.ToLower(s[:traceparent]) != s[:traceparent] {
		return Trace{}, false
	}
	parts := strings.Split(s[:traceparent], "-")
	if len(parts) != 4 || len(parts[0]) != 2 || len(parts[1]) != 32 || len(parts[2]) != 16 {
		return Trace{}, false
	}
	b, err := hex.DecodeString(strings.Join(parts, ""))
	if err != nil || [16]byte(b[1:17]) == [16]byte{} || [8]byte(b[17:25]) == [8]byte{} {
		return Trace{}, false
	}
	b[0] = 0
	return Trace(b), true
}

// String returns the traceparent, or "" for none.
func (t Trace) String() string {
	if t == (Trace{}) {
		return ""
	}
	s := hex.EncodeToString(t[:])
	return s[:2] + "-" + s[2:34] + "-" + s[34:50] + "-" + s[50:]
}
