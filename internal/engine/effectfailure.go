package engine

import (
	"errors"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
)

// maxFailure is how much is kept of why an effect was not performed, in bytes: what it did before
// must be undone even if what keeps the record is bounded, as a ledger is.
const maxFailure = 16 << 10

// effectFailure is why an effect was not performed, as its record has it. It is the same in the turn that performs the
// effect and in later ones, so a flow that runs again decides as it did before.
type effectFailure struct {
	text string
	is   []error
}

func (e *effectFailure) Error() string   { return e.text }
func (e *effectFailure) Unwrap() []error { return e.is }

// shownKind begins the kind of an error that the caller may read; the text follows.
const shownKind = "\x00"

// kindsOf returns what is recorded of an error beside its text: the texts of those of the known errors that it wraps, and
// what its caller may read of it.
func kindsOf(err error, known []error) (kinds []string) {
	for _, k := range known {
		if errors.Is(err, k) {
			kinds = append(kinds, k.Error())
		}
	}
	if shown, ok := errors.AsType[*ToolError](err); ok {
		kinds = append(kinds, shownKind+clipped(shown.Text))
	}
	return kinds
}

func clipped(text string) string {
	if len(text) > maxFailure {
		return strings.ToValidUTF8(text[:maxFailure], "") + "…"
	}
	return text
}

// Failed records that the effect was not performed, for certain if it was refused, and returns the
// cause to report; known is as in [EffectRecord.Failure]. It fails if the turn must not go on. [Turn.Performed] is to
// follow.
func (tc *Turn) Failed(r *EffectRecord, err error, known []error, refused bool) (cause, over error) {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if tc.over != nil {
		return nil, tc.over
	}
	switch {
	case refused && r.repeated:
		r.status = effectRefusedAgain
	case refused:
		r.status = effectRefused
	}
	r.Out, r.kinds = sagahooks.Value{JSON: []byte(clipped(err.Error()))}, kindsOf(err, known)
	tc.saves.ended(tc, r, err)
	cause = r.Failure(known)
	if tc.Err() != nil || errors.As(err, new(*PanicError)) { // the turn breaks off, and the driver of the saga sees why
		cause = &effectFailure{cause.Error(), []error{cause, err}}
	}
	return cause, nil
}

// Failure is the error of an effect that was not performed, or not for certain; nil if it was performed. It wraps
// those of the known errors that the effect's own error wrapped.
func (r *EffectRecord) Failure(known []error) error {
	if r.status == effectDone {
		return nil
	}
	failure := &effectFailure{text: string(r.Out.JSON)}
	for _, kind := range r.kinds {
		if text, shown := strings.CutPrefix(kind, shownKind); shown {
			failure.is = append(failure.is, &ToolError{Text: text})
		}
		for _, k := range known {
			if k.Error() == kind {
				failure.is = append(failure.is, k)
			}
		}
	}
	if r.status == effectUnknown {
		return &UnknownError{r.name, failure}
	}
	return failure
}
