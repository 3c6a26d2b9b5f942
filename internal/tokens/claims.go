package tokens

import "time"

// Limits of the variable parts of [Claims], in bytes.
const (
	// MaxTool is the longest tool name.
	MaxTool = 255
	// MaxRequest is the longest request digest.
	MaxRequest = 32
	// MaxTrace is the longest binary trace context.
	MaxTrace = 26
)

// Claims say what a token is about. They are sealed with the state, never
// compressed, and checked as soon as the token has been authenticated.
//
// Times are kept in whole seconds between 1970 and 2106; fractions are dropped.
type Claims struct {
	// ID is the saga the token belongs to.
	ID ID
	// Turn counts the turns of the saga that came before this token.
	Turn uint32
	// IssuedAt is when the token was sealed. [Codec.Seal] uses its now argument
	// if IssuedAt is zero.
	IssuedAt time.Time
	// ExpiresAt is when the client must have come back with this token. If it is
	// zero, [Codec.Seal] uses IssuedAt plus [Options.TTL], but not later than
	// Deadline.
	ExpiresAt time.Time
	// Deadline is when the whole saga must be over; zero means never.
	Deadline time.Time
	// Tool is the name of the tool, at most [MaxTool] bytes. [Codec.OpenAnyTime] does not
	// check it: the caller does, and refuses with [Reject] and [ReasonTool].
	Tool string
	// Revision is the revision of the tool that wrote the state. Checked by the
	// caller; see [ReasonRevision].
	Revision uint32
	// Request is an optional digest, at most [MaxRequest] bytes, of the request
	// the token belongs to, for protocols that resend it with the token. Checked
	// by the caller; see [ReasonRequest].
	Request []byte
	// Trace is an optional W3C trace context in binary form, at most [MaxTrace]
	// bytes.
	Trace []byte
}

// Contents are what a token holds.
type Contents struct {
	// Claims say what the token is about.
	Claims Claims
	// State is compressed when that makes the token shorter. Never put a value
	// here that the client must not learn and that shares the state with text
	// the client chooses: the token's length can give it away.
	State []byte
	// Apart is compressed as well, but apart from State, so what the client puts into
	// that has no influence on how short this becomes.
	Apart []byte
	// Plain is encrypted but not compressed: only its size has an influence on the
	// token's length.
	Plain []byte
	// Secret is like Plain, but [Codec.Explain] does not show it.
	Secret []byte
}
