package tokens

import (
	"errors"
	"fmt"
	"log/slog"
)

// ErrRejected matches every *[Rejected] error, with [errors.Is].
var ErrRejected = errors.New("token not accepted")

// Reason is the true cause of a rejection, for logs and metrics. The set is
// small and fixed, so it may be used as a metric label. It is not for clients:
// which check failed is information for whoever forges tokens.
type Reason uint8

// The reasons [Codec.Open] gives, and those callers give with [Reject] for the
// checks that are theirs.
const (
	// ReasonMalformed: not a token in its one spelling: a character outside the
	// alphabet, padding, a line break, stray bits, or too short.
	ReasonMalformed Reason = iota + 1
	// ReasonTooLong: longer than [Options.MaxToken].
	ReasonTooLong
	// ReasonVersion: a token format this program does not know.
	ReasonVersion
	// ReasonUnknownKey: no enabled key of the keyset has the token's key id.
	ReasonUnknownKey
	// ReasonAuthentication: altered, or made for another audience, purpose,
	// tenant or principal; the encryption cannot tell which.
	ReasonAuthentication
	// ReasonExpired: presented after [Claims.ExpiresAt].
	ReasonExpired
	// ReasonNotYetValid: issued in the future.
	ReasonNotYetValid
	// ReasonDeadline: presented after [Claims.Deadline].
	ReasonDeadline
	// ReasonFormat: authentic, but its contents do not decode: it was sealed by a
	// newer program, or by a faulty one.
	ReasonFormat
	// ReasonTooLarge: authentic, but its contents exceed [Options.MaxPlaintext].
	ReasonTooLarge

	// ReasonTool: for callers: the token belongs to another tool.
	ReasonTool
	// ReasonRevision: for callers: a tool revision this program cannot read.
	ReasonRevision
	// ReasonRequest: for callers: the token belongs to other arguments.
	ReasonRequest
	// ReasonPrincipal: for callers: the token belongs to another caller.
	ReasonPrincipal
	// ReasonSpent: for callers: the token has been used before.
	ReasonSpent
	// ReasonState: for callers: the state does not decode into the tool's type.
	ReasonState

	reasonEnd
)

// reasonNames is indexed by Reason.
var reasonNames = [reasonEnd]string{
	"none", "malformed", "too_long", "version", "unknown_key", "authentication", "expired",
	"not_yet_valid", "deadline", "format", "too_large",
	"tool", "revision", "request", "principal", "spent", "state",
}

// String returns the reason's name in snake_case, such as "unknown_key". The
// zero Reason is "none".
func (r Reason) String() string {
	if r < reasonEnd {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason_%d", uint8(r))
}

// Reasons returns every reason there is, for metrics that declare their labels
// in advance.
func Reasons() []Reason {
	all := make([]Reason, 0, reasonEnd-1)
	for r := Reason(1); r < reasonEnd; r++ {
		all = append(all, r)
	}
	return all
}

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
// request, principal and the like. The detail is formatted as by [fmt.Errorf].
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
	attrs := []slog.Attr{slog.String("reason", r.Reason.String())}
	if r.Detail != nil {
		attrs = append(attrs, slog.String("detail", r.Detail.Error()))
	}
	return slog.GroupValue(attrs...)
}
