package stateless

import (
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// matchParams demands that the headers of a tool's arguments say what the
// arguments say (MCP 2026-07-28, basic/transports/streamable-http, custom
// headers).
func (d *stateless) matchParams(r *request, tool string, args jsontext.Value) *wire.Error {
	if r.Header == nil || r.Client != nil && !r.served.saga {
		return nil // there are none, or others see to them
	}
	for _, p := range d.params[tool] {
		value, present, problem := wire.DecodedHeader(r.Header, p.Header)
		arg := jsontext.Value(jsonview.Get(args, p.Path...))
		if arg.Kind() == 'n' {
			arg = nil
		}
		switch {
		case problem != "":
		case arg == nil && present:
			problem = "is there, but its argument is not"
		case arg != nil && !present:
			if !r.served.saga { // SDKs send these headers for MCP's own methods only
				problem = "is missing"
			}
		case arg != nil && !sameParam(arg, value):
			problem = "is not what the argument says"
		}
		if problem != "" {
			return wire.Mismatch(p.Header, problem)
		}
	}
	return nil
}

// sameParam compares an argument with a header: strings as they are, numbers by
// value, as 42 and 42.0 are one integer.
func sameParam(arg jsontext.Value, value string) bool {
	switch arg.Kind() {
	case '"':
		s, ok := jsonview.String(arg)
		return ok && s == value
	case 't', 'f':
		return value == string(arg)
	case '0':
		a, ok := safeInteger(string(arg))
		b, same := safeInteger(value)
		return ok && same && a == b
	}
	return false // an object or a list has no form in a header
}

// safeInteger reads an integer that all clients can represent (within 2^53).
func safeInteger(s string) (float64, bool) {
	if jsontext.Value(s).Kind() != '0' || !jsontext.Value(s).IsValid() {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && f == math.Trunc(f) && math.Abs(f) <= 1<<53-1
}
