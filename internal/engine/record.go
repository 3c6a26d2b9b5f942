package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/mcpsaga/mcpsaga/steps"
)

// record is what a flow remembers between two turns: the answers, in the order
// in which they came, and the times it has read. Answers stay raw until the flow
// reads them.
type record struct {
	entries []recordEntry
	times   []int64
	// counts are what the last run had taken when it suspended, if counted: records
	// of older revisions, and of older versions of this package, do not say.
	counts  counts
	counted bool
	// delivered is how many parts of the result the client has, whatever revision yielded them.
	delivered int
}

type recordEntry struct {
	id     string
	digest [4]byte
	stored *storedAnswer
	// old: an earlier revision recorded it, so the present one may leave it.
	old bool
	// fresh: the answer came in this turn. again: the turn was begun with it before.
	fresh, again bool
	// reworded: the question waited while its words changed, so it was asked anew, and
	// the answer is never used.
	reworded bool
	// reached: this run has asked the question again. taken: and has got this answer.
	reached, taken bool
}

// maxReworded is how often in a row a question is asked anew because it has other
// words than when it was asked: more is no new version of the tool but chance.
const maxReworded = 3

// next returns the place of the next answer to a question in these words, or -1.
func (r *record) next(s *steps.Step) int {
	return slices.IndexFunc(r.entries, func(e recordEntry) bool {
		return !e.reached && !e.reworded && e.id == s.ID && e.digest == digest(s.Params)
	})
}

// take looks for the answer to a question that the flow asks now.
func (r *record) take(s *steps.Step) (bool, error) {
	reworded := 0
	for i := range r.entries {
		e := &r.entries[i]
		switch {
		case e.id != s.ID:
			continue
		case e.taken:
			reworded = 0
		case e.reworded:
			reworded++
		}
		if e.reached || e.reworded {
			e.reached = true
			continue
		}
		if words := digest(s.Params); e.again || e.digest == words {
			e.reached, e.taken, e.digest = true, true, words
			return true, nil
		}
		if !e.old {
			// It waited for its answer meanwhile, which is to other words: ask it anew.
			// If it was answered in an earlier turn, the flow has gone on from there.
			if reworded++; !e.fresh || reworded >= maxReworded {
				return false, &DivergedError{
					Recorded: fmt.Sprintf("question %q in other words", s.ID),
					Came:     "the same question as " + clip(s.Params),
				}
			}
			e.reworded = true
		}
		// The new code asks something else: ask this one again.
		e.reached = true
	}
	return false, nil
}

// reworded lists the questions that are asked anew in this turn as their words changed.
func (r *record) reworded() (ids []string) {
	for i := range r.entries {
		if e := &r.entries[i]; e.fresh && e.reworded {
			ids = append(ids, e.id)
		}
	}
	return ids
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
	recordReworded
)

// restore decodes the record and adds the answers that came in this turn.
func (r *Replay) restore(state []byte) error {
	rd := reader{b: state}
	if len(state) > 0 {
		r.rec.times = make([]int64, rd.count(1))
		for i := range r.rec.times {
			r.rec.times[i] = int64(rd.uvarint())
		}
		n := rd.count(6)
		r.rec.entries = make([]recordEntry, n, n+len(r.turn.answers))
	}
	upgraded := r.turn.Written != r.turn.program.Revision
	for i := range r.rec.entries {
		e := &r.rec.entries[i]
		flags := rd.take(1)[0]
		e.id = r.turn.program.present(string(rd.bytes()))
		copy(e.digest[:], rd.take(len(e.digest)))
		e.stored = &storedAnswer{failed: flags&recordFailed != 0, raw: rd.bytes()}
		e.old, e.reworded = upgraded || flags&recordOld != 0, flags&recordReworded != 0
	}
	if len(rd.b) > 0 {
		taken := counts{times: int(rd.uvarint() & math.MaxInt32), ids: int(rd.uvarint() & math.MaxInt32)}
		if len(rd.b) > 0 {
			taken.yields = int(rd.uvarint() & math.MaxInt32)
			r.rec.delivered = taken.yields
		}
		if !upgraded {
			r.rec.counts, r.rec.counted = taken, true
		}
	}
	if rd.err != nil {
		return rd.err
	}
	for _, a := range r.turn.answers {
		r.rec.entries = append(r.rec.entries, recordEntry{
			id: r.turn.program.present(a.StepID), digest: a.digest, stored: store(a.Answer), old: upgraded, fresh: true, again: r.turn.again,
		})
	}
	return nil
}

// soFar returns the record as it was before this turn's answers, which a checkpoint holds as
// they came, with all that the run has taken since.
func (r *Replay) soFar() []byte {
	before := r.rec
	before.entries = before.entries[:len(before.entries)-len(r.turn.answers)]
	before.counts = r.taken
	before.counts.yields = max(r.taken.yields, r.rec.delivered)
	return before.encode()
}

func (r *record) encode() []byte {
	b := binary.AppendUvarint(make([]byte, 0, 512), uint64(len(r.times)))
	for _, t := range r.times {
		b = binary.AppendUvarint(b, uint64(t))
	}
	b = binary.AppendUvarint(b, uint64(len(r.entries)))
	for i := range r.entries {
		e := &r.entries[i]
		var flags byte
		if e.stored.failed {
			flags |= recordFailed
		}
		if e.old {
			flags |= recordOld
		}
		if e.reworded {
			flags |= recordReworded
			e.stored.raw = nil
		}
		b = append(b, flags)
		b = appendBytes(b, e.id)
		b = append(b, e.digest[:]...)
		b = appendBytes(b, e.stored.raw)
	}
	b = binary.AppendUvarint(b, uint64(r.counts.times))
	b = binary.AppendUvarint(b, uint64(r.counts.ids))
	if r.counts.yields > 0 {
		b = binary.AppendUvarint(b, uint64(r.counts.yields))
	}
	return b
}
