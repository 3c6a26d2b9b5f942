package engine

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/steps"
)

// Position is where a suspended saga stands: everything that must survive until
// the answers come. Whoever keeps it must protect it from reading and changing;
// package codec does so.
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

	body
	secrets []byte
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
	// log lists the effects that were begun; nil if there are none.
	log *effectLog
	// record is what a flow was told: all of it came from the client. state is a
	// machine's.
	record, state []byte
}

// kept returns what the program left for its next turn: a record or a state.
func (b *body) kept() []byte {
	if len(b.state) > 0 {
		return b.state
	}
	return b.record
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
}

// stepID is the id on the wire.
func (p *pendingStep) stepID() string {
	if p.repeat == 0 {
		return p.id
	}
	return p.id + "~" + strconv.Itoa(p.repeat+1)
}

// is reports whether id is the step's, without making that.
func (p *pendingStep) is(id string) bool {
	rest, ok := strings.CutPrefix(id, p.id)
	if p.repeat == 0 || !ok || rest == "" {
		return ok && p.repeat == 0 && rest == ""
	}
	return rest[0] == '~' && rest[1:] == strconv.Itoa(p.repeat+1)
}

type storedAnswer struct {
	failed bool // raw is a client error, not a result
	raw    json.RawMessage
}

// Flags of a pending step.
const (
	pendingVaried = 1 << iota
	pendingAnswered
	pendingFailed
)

func (p *pendingStep) append(b []byte) []byte {
	var flags byte
	if p.params != nil {
		flags |= pendingVaried
	}
	if p.answer != nil {
		flags |= pendingAnswered
		if p.answer.failed {
			flags |= pendingFailed
		}
	}
	b = append(b, flags, byte(p.refused))
	b = appendUvarint(b, p.repeat)
	b = appendBytes(b, p.id)
	if p.params != nil {
		b = append(b, byte(p.kind))
		b = binary.AppendUvarint(b, packFeatures(p.needs))
		b = appendBytes(b, p.params)
	}
	b = append(b, p.digest[:]...)
	if p.answer != nil {
		b = appendBytes(b, p.answer.raw)
	}
	return b
}

func (p *pendingStep) read(r *reader) {
	flags := r.byte()
	p.refused = int(r.byte())
	p.repeat = r.int()
	p.id = r.string()
	if flags&pendingVaried != 0 {
		p.kind = steps.Kind(r.byte())
		p.needs = unpackFeatures(r.uvarint())
		p.params = r.bytes()
	}
	copy(p.digest[:], r.take(4))
	if flags&pendingAnswered != 0 {
		p.answer = &storedAnswer{failed: flags&pendingFailed != 0, raw: r.bytes()}
	}
}

// DropArguments makes the position shorter for clients that send the arguments
// again in every turn; see [Resumption.Arguments].
func (p *Position) DropArguments() { p.args = nil }

// PendingIDs lists the ids of the steps that still wait for an answer.
func (p *Position) PendingIDs() []string {
	var ids []string
	for i := range p.pending {
		if p.pending[i].answer == nil {
			ids = append(ids, p.pending[i].stepID())
		}
	}
	return ids
}

// Next is the name of the step function that runs when the answers are there. It is
// empty if there is none: such a position can only be cancelled ([UndoReport.Again]).
func (p *Position) Next() string { return p.next }

var errTruncated = errors.New("the position ends too early")

// reader takes values off a byte slice. After an error it returns zero values.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n > len(r.b) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) fail() {
	if r.err == nil {
		r.err = errTruncated
	}
	r.b = nil
}

func (r *reader) byte() byte {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

// int reads a number that cannot be negative.
func (r *reader) int() int { return int(r.uvarint() & math.MaxInt32) }

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads a number of items of at least size bytes each, so that a number
// that cannot be true allocates nothing.
func (r *reader) count(size int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	return r.take(int(n))
}

func (r *reader) string() string { return string(r.bytes()) }

func appendUvarint(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }
