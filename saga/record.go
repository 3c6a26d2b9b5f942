package saga

import (
	"encoding/binary"
	"fmt"

	"github.com/mcpsaga/mcpsaga/steps"
)

// record is what a flow remembers between two turns: the answers, in the order
// in which they came, and the times it was told. Answers stay raw until the flow
// reads them.
type record struct {
	entries []recordEntry
	times   []int64
}

type recordEntry struct {
	id     string
	digest [4]byte
	stored storedAnswer
	// old: an earlier revision recorded it, so the present one may leave it.
	old bool
	// reached: this run has asked the question again. taken: and has got this answer.
	reached, taken bool
}

// take looks for the answer to a question that the flow asks now.
func (r *record) take(s steps.Step, tc *turnContext) (bool, error) {
	for i := range r.entries {
		e := &r.entries[i]
		if e.reached || e.id != s.ID {
			continue
		}
		if e.digest != tc.tool.digest(&s) {
			if !e.old && tc.written == tc.tool.Revision {
				return false, &DivergedError{
					Recorded: fmt.Sprintf("question %q in other words", s.ID),
					Came:     "the same question as " + clip(s.Params),
				}
			}
			// The new revision asks something else: ask this one again.
			e.reached = true
			continue
		}
		e.reached, e.taken = true, true
		return true, nil
	}
	return false, nil
}

// answer returns the answer to a question as it was asked last. Entries of one
// question are taken in their order, so that is the last of them.
func (r *record) answer(id string) (steps.Answer, bool) {
	for i := len(r.entries) - 1; i >= 0; i-- {
		if e := &r.entries[i]; e.taken && e.id == id {
			return e.stored.answer(id), true
		}
	}
	return steps.Answer{}, false
}

const (
	recordFailed = 1 << iota
	recordOld
)

// restore decodes the record and adds the answers that came in this turn.
func (r *Run) restore(state []byte) error {
	rd := reader{b: state}
	if len(state) > 0 {
		r.rec.times = make([]int64, rd.count(1))
		for i := range r.rec.times {
			r.rec.times[i] = int64(rd.uvarint())
		}
		n := rd.count(6)
		r.rec.entries = make([]recordEntry, n, n+len(r.turn.answers))
	}
	upgraded := r.turn.written != r.turn.tool.Revision
	for i := range r.rec.entries {
		e := &r.rec.entries[i]
		flags := rd.byte()
		e.id = r.turn.tool.present(rd.string())
		copy(e.digest[:], rd.take(len(e.digest)))
		e.stored = storedAnswer{failed: flags&recordFailed != 0, raw: rd.bytes()}
		e.old = upgraded || flags&recordOld != 0
	}
	if rd.err != nil {
		return rd.err
	}
	for _, a := range r.turn.answers {
		stored, err := store(a.Answer)
		if err != nil {
			return err
		}
		r.rec.entries = append(r.rec.entries, recordEntry{
			id: r.turn.tool.present(a.StepID), digest: a.digest, stored: stored, old: upgraded,
		})
	}
	return nil
}

func (r *Run) encode() []byte {
	n := 16 + 10*len(r.rec.times)
	for i := range r.rec.entries {
		n += 16 + len(r.rec.entries[i].id) + len(r.rec.entries[i].stored.raw)
	}
	b := appendUvarint(make([]byte, 0, n), len(r.rec.times))
	for _, t := range r.rec.times {
		b = binary.AppendUvarint(b, uint64(t))
	}
	b = appendUvarint(b, len(r.rec.entries))
	for i := range r.rec.entries {
		e := &r.rec.entries[i]
		var flags byte
		if e.stored.failed {
			flags |= recordFailed
		}
		if e.old {
			flags |= recordOld
		}
		b = append(b, flags)
		b = appendBytes(b, e.id)
		b = append(b, e.digest[:]...)
		b = appendBytes(b, e.stored.raw)
	}
	return b
}
