package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/schema"
	"github.com/mcpsaga/mcpsaga/steps"
)

// fingerprint remembers an answer without its content: 4 bytes tell
// its step, 8 bytes the answer. Both are salted with the saga's id.
//
// It exists to notice a client that sends something else than before for a step
// already answered. That client gains nothing by it, as the saga goes on from
// its own state; so short digests do.
type fingerprint [12]byte

func (f fingerprint) step() [4]byte { return [4]byte(f[:4]) }

func fingerprintOf(saga [16]byte, a steps.Answer) (fingerprint, error) {
	return fingerprintWith(stepTag(saga, a.StepID), saga, a)
}

// fingerprintWith is fingerprintOf for those who know the step's part.
func fingerprintWith(step [4]byte, saga [16]byte, a steps.Answer) (f fingerprint, err error) {
	copy(f[:4], step[:])
	raw, err := canonical(a)
	if err != nil {
		return f, err
	}
	b := append(make([]byte, 0, 256), saga[:]...) // on the stack unless the answer is long
	sum := sha256.Sum256(append(b, raw...))
	copy(f[4:], sum[:])
	return f, nil
}

func stepTag(saga [16]byte, stepID string) [4]byte {
	b := make([]byte, 0, 64)
	b = append(b, saga[:]...)
	b = append(b, stepID...)
	sum := sha256.Sum256(b)
	return [4]byte(sum[:4])
}

// canonical returns the answer as JSON in the form of RFC 8785: a client may
// send the same answer with other spacing or another order of keys. A failure
// never equals a result.
func canonical(a steps.Answer) ([]byte, error) {
	stored, err := store(a)
	if err != nil {
		return nil, err
	}
	raw, err := jsonview.Canonical(stored.raw)
	if err != nil {
		return nil, err
	}
	if stored.failed {
		raw = append(slices.Clip(raw), '!')
	}
	return raw, nil
}

// maxAnswers bounds what one turn may bring; it is far above what a saga asks.
const maxAnswers = 1000

// accept takes the answers of a turn into the position. It fails with an
// *AnswerError if they contradict each other or what was accepted before; the
// position is then not to be used.
func (p *Position) accept(answers []steps.Answer) (fresh []bool, err error) {
	if len(answers) > maxAnswers {
		return nil, &AnswerError{answers[maxAnswers].StepID, fmt.Sprintf("more than %d results were sent", maxAnswers)}
	}
	fresh = make([]bool, len(p.pending))
	for i, a := range answers {
		if a.Result == nil && a.Error == nil {
			return nil, &AnswerError{a.StepID, "neither a result nor an error was sent for it"}
		}
		if a.Result != nil && a.Error != nil {
			return nil, &AnswerError{a.StepID, "both a result and an error were sent for it"}
		}
		for _, b := range answers[:i] {
			if b.StepID != a.StepID {
				continue
			}
			same, err := equalAnswers(a, b)
			if err != nil {
				return nil, &AnswerError{a.StepID, err.Error()}
			}
			if !same {
				return nil, &AnswerError{a.StepID, "two different results were sent for it"}
			}
			break // the others equal this one; to compare with all takes a thousandfold
		}
		if err := p.acceptOne(a, fresh); err != nil {
			return nil, err
		}
	}
	return fresh, nil
}

func (p *Position) acceptOne(a steps.Answer, fresh []bool) error {
	for i := range p.pending {
		pending := &p.pending[i]
		if !pending.is(a.StepID) {
			continue
		}
		if pending.answer == nil {
			stored, err := store(a)
			if err != nil {
				return &AnswerError{a.StepID, err.Error()}
			}
			pending.answer, fresh[i] = &stored, true
			return nil
		}
		same, err := equalAnswers(a, pending.answer.answer(a.StepID))
		if err != nil {
			return &AnswerError{a.StepID, err.Error()}
		}
		if !same {
			return &AnswerError{a.StepID, "its result differs from the one accepted before"}
		}
		return nil
	}
	if len(p.seen) == 0 {
		return nil
	}
	tag := stepTag(p.ID, a.StepID)
	for _, known := range p.seen {
		if known.step() != tag {
			continue
		}
		f, err := fingerprintWith(tag, p.ID, a)
		if err != nil {
			return &AnswerError{a.StepID, err.Error()}
		}
		if f != known {
			return &AnswerError{a.StepID, "its result differs from the one accepted before"}
		}
		return nil
	}
	return nil // unknown: ignored
}

func store(a steps.Answer) (storedAnswer, error) {
	if a.Error == nil {
		return storedAnswer{raw: a.Result}, nil
	}
	raw, err := jsonv2.Marshal(a.Error, schema.JSONOptions) // for HTML it could be six times as long
	return storedAnswer{failed: true, raw: raw}, err
}

func (s *storedAnswer) answer(id string) steps.Answer {
	a := steps.Answer{StepID: id}
	if !s.failed {
		a.Result = s.raw
		return a
	}
	a.Error = new(steps.ClientError)
	if err := json.Unmarshal(s.raw, a.Error); err != nil {
		// It was encoded by store, so this cannot happen; say so rather than
		// pretend that the step was answered.
		a.Error.Message = fmt.Sprintf("unreadable: %v", err)
	}
	return a
}

func equalAnswers(a, b steps.Answer) (bool, error) {
	if a.Error == nil && b.Error == nil && bytes.Equal(a.Result, b.Result) {
		return true, nil
	}
	ca, err := canonical(a)
	if err != nil {
		return false, err
	}
	cb, err := canonical(b)
	if err != nil {
		return false, err
	}
	return bytes.Equal(ca, cb), nil
}

// check asks the question whether the answer is one. It returns an
// *checkerr.InvalidError apart from other errors: the user is asked again.
func check(q steps.Question, s steps.Step, result json.RawMessage) (*checkerr.InvalidError, error) {
	err := q.Check(s, result)
	if err == nil {
		return nil, nil
	}
	var invalid *checkerr.InvalidError
	var malformed *checkerr.MalformedError
	switch {
	case errors.As(err, &invalid):
		return invalid, nil
	case errors.As(err, &malformed):
		return nil, &AnswerError{s.ID, malformed.Reason}
	}
	return nil, err
}
