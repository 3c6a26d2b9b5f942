package tokens

import (
	"errors"
	"fmt"
	"log/slog"
)

// ErrRejected matches every *[Rejected] error, with [errors.Is].
var ErrRejected = errors.New("token not accepted")

// ErrOver is wrapped by errors of [Codec.Seal]: the saga's [Claims.Deadline] has passed.
var ErrOver = errors.New("the saga's deadline has passed")

// Reason is the true cause of a rejection, for logs and metrics. The set is
// small and fixed, so it may be used as a metric label. It is not for clients:
// which check failed is information for a forger of tokens.
type Reason string

// The reasons [Codec.OpenAnyTime] gives, and those callers give with [Reject] for the
// checks that are theirs.
const (
	// ReasonMalformed: not a token in its one spelling: a character outside the
	// alphabet, padding, a line break, stray bits, or too short.
	ReasonMalformed Reason = "malformed"
	// ReasonTooLong: longer than [Options.MaxToken].
	ReasonTooLong Reason = "too_long"
	// ReasonVersion: a token format this program does not know.
	ReasonVersion Reason = "version"
	// ReasonUnknownKey: no enabled key of the keyset has the token's key id.
	ReasonUnknownKey Reason = "unknown_key"
	// ReasonAuthentication: altered, or made for another audience, purpose,
	// tenant or principal; the encryption cannot tell which.
	ReasonAuthentication Reason = "authentication"
	// ReasonExpired: presented after [Claims.ExpiresAt].
	ReasonExpired Reason = "expired"
	// ReasonNotYetValid: issued in the future.
	ReasonNotYetValid Reason = "not_yet_valid"
	// ReasonDeadline: presented after [Claims.Deadline].
	ReasonDeadline Reason = "deadline"
	// ReasonFormat: authentic, but its contents do not decode: it was sealed by a
	// newer program, or by a faulty one.
	ReasonFormat Reason = "format"
	// ReasonTooLarge: authentic, but its contents exceed [Options.MaxPlaintext].
	ReasonTooLarge Reason = "too_large"

	// ReasonTool: for callers: the token belongs to another tool.
	ReasonTool Reason = "tool"
	// ReasonRevision: for callers: a tool revision this program cannot read.
	ReasonRevision Reason = "revision"
	// ReasonRequest: for callers: the token belongs to other arguments.
	ReasonRequest Reason = "request"
	// ReasonSpent: for callers: the token has been used before.
	ReasonSpent Reason = "spent"
	// ReasonState: for callers: the state does not decode into the tool's type.
	ReasonState Reason = "state"
)

// Rejected is the error for a token that is not accepted. Its message is the
// same whatever the cause, so it can be sent to the client as it is; Reason and
// Detail are for logs. It logs itself in full through [log/slog].
type Rejected struct {
	// Reason is the cause, out of a fixed set.
	Reason Reason
	// Detail explains the cause to an operator. It may be nil, and never holds
	// key material or anything sealed in the token other than its claims.
	Detail error
}

// Reject returns a rejection for a check that is the caller's: tool, revision,
// request and the like. The detail is formatted as by [fmt.Errorf].
func Reject(reason Reason, format string, args ...any) *Rejected {
	return &Rejected{Reason: reason, Detail: fmt.Errorf(format, args...)}
}

// Error returns the one message of every rejection.
func (r *Rejected) Error() string { return ErrRejected.Error() }

// Is reports whether target is [ErrRejected].
func (r *Rejected) Is(target error) bool { return target == ErrRejected }

// Unwrap returns Detail.
func (r *Rejected) Unwrap() error { return r.Detail }

// LogValue returns reason and detail as a group.
func (r *Rejected) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("reason", string(r.Reason))}
	if r.Detail != nil {
		attrs = append(attrs, slog.String("detail", r.Detail.Error()))
	}
	return slog.GroupValue(attrs...)
}

// TooLargeError says that something is too large to be sealed.
type TooLargeError struct {
	// What is too large: "token" (in characters), or "contents", "tool",
	// "request" or "trace" (in bytes).
	What string
	// Size is how large it is and Limit how large it may be, in the unit of What.
	Size, Limit int
}

// Error says what is too large, by how much, and what to do.
func (e *TooLargeError) Error() string {
	unit, advice := "bytes", "shorten it"
	const less = "keep less in the state, keep a reference to data stored elsewhere, " +
		"or give a server that has none a ledger, which keeps what does not fit into a token"
	switch e.What {
	case "token":
		unit, advice = "characters", less
	case "contents":
		advice = less
	}
	return fmt.Sprintf("tokens: %s of %d %s exceeds the limit of %d: %s", e.What, e.Size, unit, e.Limit, advice)
}
