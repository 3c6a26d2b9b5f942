package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/schema"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Position is where a suspended saga stands: everything that must survive until
// the answers come. Its keeper must protect it from reading and changing;
// tokens and the records of a ledger do so.
type Position struct {
	// ID is the saga: 128 random bits, the same in all its turns.
	ID [16]byte
	// Turn is the number of turns so far: 1 after the call.
	Turn uint32
	// Tool is the tool's name.
	Tool string
	// Revision is the tool's revision when the position was written.
	Revision uint32
	// Deadline ends the saga; the zero time if it has none.
	Deadline time.Time
	// Wake is when the saga continues: it is not to be resumed before. The zero time is at once,
	// or when the answers come. [Position.Encode] carries it.
	Wake time.Time
	// Parts were yielded before and not reported yet, as the driver of the saga could not; it puts
	// them in front of the result. The engine keeps them with an encoded position, and no
	// longer. [Position.Encode] carries them.
	Parts content.Blocks
	// Ledger is of which ledger has the record of the saga, if any has. [Position.Encode] carries
	// it with the effects, which that ledger looks after.
	Ledger []byte

	body
	secrets []byte
	// handles is what the addresses of events are made of; nil if the program waits for none.
	handles []byte
}

// body is the part of a position that only the engine understands.
type body struct {
	// next is the step function that gets the answers.
	next string
	// pending are the steps asked for in the last suspension, answered or not.
	pending []pendingStep
	// seen are fingerprints of the answers taken in earlier turns, also of those
	// that made the engine ask again.
	seen []fingerprint
	args json.RawMessage
	// log lists the effects that were begun.
	log effectLog
	// kept is what the program left for its next turn. What a flow has received is all the
	// client's; what is not, a machine's state, is kept apart in tokens.
	kept  []byte
	apart bool
	// running is the time of the turn in whose middle the position is: what runs again reads the same. It is nil
	// between two turns.
	running *time.Time
}

// pendingStep is a step whose answer the saga waits for.
type pendingStep struct {
	// id is the question's id.
	id string
	// repeat counts from 0 how often the saga has asked this question before. It
	// is part of the id on the wire, so that an old answer is never taken for a
	// new one.
	repeat int
	// refused counts the answers that were not valid.
	refused int
	// digest pins the wording that the tool asked.
	digest [4]byte
	// The step is kept if it differs from the question as declared.
	kind   steps.Kind
	needs  steps.Features
	params json.RawMessage
	// answer holds what arrived, if anything did, while other steps of the same
	// suspension are still missing.
	answer *storedAnswer
	// until is until when an event is waited for; the zero time for a question to the client.
	until time.Time
}

// stepID is the id on the wire.
func (p *pendingStep) stepID() string {
	if p.repeat == 0 {
		return p.id
	}
	return p.id + "~" + strconv.Itoa(p.repeat+1)
}

type storedAnswer struct {
	failed bool // raw is a client error, not a result
	raw    json.RawMessage
}

// DropArguments makes the position shorter for clients that send the arguments
// again in every turn; see [Call].
func (p *Position) DropArguments() { p.args = nil }

// Arguments are the tool's, unless they were dropped.
func (p *Position) Arguments() json.RawMessage { return p.args }

// HasEnded reports whether the saga has ended, and only some of its effects are still to be undone.
func (p *Position) HasEnded() bool { return p.next == "" }

// HasEffects reports whether the saga has begun effects.
func (p *Position) HasEffects() bool { return len(p.log.records) > 0 }

// Effects names the effects that the saga has begun and that may have been performed, in
// the order in which they were begun.
func (p *Position) Effects() (names []string) {
	for _, r := range p.log.records {
		if r.status != effectRefused {
			names = append(names, r.name)
		}
	}
	return names
}

// PendingIDs lists the ids of the steps that still wait for an answer of the client's.
func (p *Position) PendingIDs() []string {
	var ids []string
	for i := range p.pending {
		if p.pending[i].answer == nil && !p.pending[i].outside() {
			ids = append(ids, p.pending[i].stepID())
		}
	}
	return ids
}

// Sent reports whether answers may have been sent to have the next turn taken: there are some, or
// an empty list where none is waited for.
func (p *Position) Sent(answers []steps.Answer) bool {
	return len(answers) > 0 || answers != nil && p.next != "" && len(p.PendingIDs()) == 0
}

// fingerprint remembers an answer without its content: 4 bytes tell
// its step, 8 bytes the answer. Both are salted with the saga's id.
//
// It exists to notice a client that sends something else than before for a step
// already answered. That client gains nothing by it, as the saga continues from
// its own state; so short digests do.
type fingerprint [12]byte

// fingerprintOf returns the fingerprint of an answer to the step with that tag.
func fingerprintOf(step [4]byte, saga [16]byte, a *storedAnswer) (f fingerprint, err error) {
	copy(f[:4], step[:])
	raw, err := a.canonical()
	if err != nil {
		return f, err
	}
	b := append(make([]byte, 0, 256), saga[:]...) // on the stack unless the answer is long
	sum := sha256.Sum256(append(b, raw...))
	copy(f[4:], sum[:])
	return f, nil
}

func stepTag(saga [16]byte, stepID string) [4]byte {
	return digest(append(append(make([]byte, 0, 64), saga[:]...), stepID...))
}

func digest(b []byte) [4]byte {
	sum := sha256.Sum256(b)
	return [4]byte(sum[:4])
}

// canonical returns the answer as JSON in the form of RFC 8785: a client may
// send the same answer with other spacing or another order of keys. A failure
// never equals a result.
func (s *storedAnswer) canonical() ([]byte, error) {
	raw, err := jsonview.Canonical(s.raw)
	if err == nil && s.failed {
		raw = append(slices.Clip(raw), '!')
	}
	return raw, err
}

// same fails with the given error if another answer is not the same.
func (s *storedAnswer) same(other *storedAnswer, differs error) error {
	if s.failed == other.failed && bytes.Equal(s.raw, other.raw) {
		return nil
	}
	a, err := s.canonical()
	if err != nil {
		return err
	}
	b, err := other.canonical()
	if err == nil && !bytes.Equal(a, b) {
		return differs
	}
	return err
}

// maxAnswers bounds what one turn may bring; it is far above what a saga asks.
const maxAnswers = 1000

var (
	errTwoAnswers = errors.New("two different results were sent for it")
	errOther      = errors.New("its result differs from the one accepted before")
)

// accept takes the answers of a turn into the position, a copy of the one that is kept. It fails with an
// *AnswerError if they contradict each other or what was accepted before; the
// position is then not to be used.
func (p *Position) accept(answers []steps.Answer) (fresh []bool, err error) {
	if len(answers) > maxAnswers {
		return nil, &AnswerError{answers[maxAnswers].StepID, fmt.Sprintf("more than %d results were sent", maxAnswers)}
	}
	p.pending, p.seen = slices.Clone(p.pending), slices.Clip(p.seen)
	fresh = make([]bool, len(p.pending))
	for i, a := range answers {
		if err := p.acceptOne(a, answers[:i], fresh); err != nil {
			return nil, &AnswerError{a.StepID, err.Error()}
		}
	}
	return fresh, nil
}

// acceptOne is accept for one answer, after those before it. One that was not asked
// for is ignored.
func (p *Position) acceptOne(a steps.Answer, before []steps.Answer, fresh []bool) error {
	if a.Result == nil && a.Error == nil {
		return errors.New("neither a result nor an error was sent for it")
	}
	if a.Result != nil && a.Error != nil {
		return errors.New("both a result and an error were sent for it")
	}
	answer := store(a)
	// Earlier ones for the same step equal each other; to compare with all takes a thousandfold.
	if i := slices.IndexFunc(before, func(b steps.Answer) bool { return b.StepID == a.StepID }); i >= 0 {
		if err := answer.same(store(before[i]), errTwoAnswers); err != nil {
			return err
		}
	}
	for i := range p.pending {
		switch pending := &p.pending[i]; {
		case pending.stepID() != a.StepID:
		case pending.outside():
			return nil // whatever a client says of it
		case pending.answer == nil:
			pending.answer, fresh[i] = answer, true
			return nil
		default:
			return answer.same(pending.answer, errOther)
		}
	}
	if len(p.seen) == 0 {
		return nil
	}
	tag := stepTag(p.ID, a.StepID)
	for _, known := range p.seen {
		if [4]byte(known[:4]) != tag {
			continue
		}
		f, err := fingerprintOf(tag, p.ID, answer)
		if err == nil && f != known {
			err = errOther
		}
		return err
	}
	return nil
}

func store(a steps.Answer) *storedAnswer {
	if a.Error == nil {
		return &storedAnswer{raw: a.Result}
	}
	raw, _ := jsonv2.Marshal(a.Error, schema.JSONOptions) // for HTML it could be six times as long
	return &storedAnswer{failed: true, raw: raw}
}

func (s *storedAnswer) answer(id string) steps.Answer {
	a := steps.Answer{StepID: id}
	if !s.failed {
		a.Result = s.raw
		return a
	}
	a.Error = new(steps.ClientError)
	_ = json.Unmarshal(s.raw, a.Error) // as store has written it
	return a
}
