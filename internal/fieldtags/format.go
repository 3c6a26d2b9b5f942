package fieldtags

import (
	"net/mail"
	"net/url"
	"strings"
	"time"
)

// The formats of text that MCP knows and that are checked.
const (
	FormatEmail    = "email"
	FormatURI      = "uri"
	FormatDate     = "date"
	FormatDateTime = "date-time"
)

// CheckFormat returns the rule that s breaks as a text of the given format, or "".
// Formats that MCP does not know are not checked.
func CheckFormat(format, s string) string {
	switch format {
	case FormatEmail:
		// ParseAddress also accepts a name before the address; MCP wants the address.
		if addr, err := mail.ParseAddress(s); err != nil || addr.Address != s {
			return "must be an email address, such as ada@example.com"
		}
	case FormatURI:
		if !IsURI(s) {
			return "must be an absolute URI, such as https://example.com/"
		}
	case FormatDate:
		if _, err := time.Parse(time.DateOnly, s); err != nil {
			return "must be a date written as 2026-07-28"
		}
	case FormatDateTime:
		// UnmarshalText is stricter than time.Parse, and is what reads the value
		// into a time.Time later. Both accept a comma for the decimal point.
		if err := new(time.Time).UnmarshalText([]byte(s)); err != nil || strings.Contains(s, ",") {
			return "must be a date and time written as 2026-07-28T15:04:05Z"
		}
	}
	return ""
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
