package schema

import (
	"fmt"
	"maps"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// The formats of text that MCP knows and that are checked.
const (
	formatEmail    = "email"
	formatURI      = "uri"
	formatDate     = "date"
	formatDateTime = "date-time"
)

// CheckFormat returns the rule that s breaks as a text of the given format, or "".
// Formats that MCP does not know are not checked.
func CheckFormat(format, s string) string {
	switch format {
	case formatEmail:
		// ParseAddress also accepts a name before the address; MCP wants the address.
		if addr, err := mail.ParseAddress(s); err != nil || addr.Address != s {
			return "must be an email address, such as ada@example.com"
		}
	case formatURI:
		if !IsURI(s) {
			return "must be an absolute URI, such as https://example.com/"
		}
	case formatDate:
		if _, err := time.Parse(time.DateOnly, s); err != nil {
			return "must be a date written as 2026-07-28"
		}
	case formatDateTime:
		if !isDateTime(s) {
			return "must be a date and time written as 2026-07-28T15:04:05Z"
		}
	}
	return ""
}

// isDateTime reports whether s is a date-time of RFC 3339. Package time also reads
// hours of one digit, a comma for the decimal point, and offsets beyond a day.
func isDateTime(s string) bool {
	if _, err := time.Parse(time.RFC3339, s); err != nil || s[len("2006-01-02T1")] == ':' || strings.Contains(s, ",") {
		return false
	}
	offset := s[len(s)-len("23:59"):]
	return strings.HasSuffix(s, "Z") || offset[:2] <= "23" && offset[3:] <= "59"
}

// IsURI reports whether s is an absolute URI. The url package lets through
// characters that RFC 3986 wants percent-encoded.
func IsURI(s string) bool {
	if strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", r)
	}) {
		return false
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" {
		return false
	}
	if u.Scheme == "http" || u.Scheme == "https" {
		return u.Hostname() != ""
	}
	return u.Host != "" || u.Path != "" || u.Opaque != ""
}

// brokenRule returns the first format of a schema that a value does not have, or rule about numbers that it breaks,
// or "", and where: a JSON Pointer. The library takes a format for a note, as JSON Schema allows; an author who
// writes it wants it checked.
func (s *Schema) brokenRule(v any) (at, rule string) {
	return firstBroken(s.written, v, func(at *jsonschema.Schema, v any) string {
		if text, ok := v.(string); ok {
			return CheckFormat(at.Format, text)
		}
		return s.numbers.broken(at, v)
	})
}

// firstBroken finds a rule that a value or what is within breaks, where it always passes: in members, in items, in the
// values of a map.
func firstBroken(s *jsonschema.Schema, v any, broken func(*jsonschema.Schema, any) string) (at, rule string) {
	if s == nil {
		return "", ""
	}
	switch v := v.(type) {
	case []any:
		if s.PrefixItems != nil || s.ItemsArray != nil { // some items may be none of Items
			return "", ""
		}
		for i, item := range v {
			if at, rule = firstBroken(s.Items, item, broken); rule != "" {
				return fmt.Sprintf("/%d%s", i, at), rule
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			within, ok := s.Properties[name]
			if !ok && s.PatternProperties == nil {
				within = s.AdditionalProperties
			}
			if at, rule = firstBroken(within, v[name], broken); rule != "" {
				return "/" + name + at, rule
			}
		}
	default:
		return "", broken(s, v)
	}
	return "", ""
}
