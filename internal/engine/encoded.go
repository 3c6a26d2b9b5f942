package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/mcpsaga/mcpsaga/steps"
)

// Encoded is a position in parts, but for its exported fields other than Wake and Parts. The parts are kept
// from each other because they differ in who knows what is in them: the length of
// what is compressed tells something about all of its content to those who choose
// some of it.
type Encoded struct {
	// Body is what the client knows: arguments, answers, what it was asked. It may be
	// compressed.
	Body []byte
	// State is a machine's state without its secrets. It may be compressed, but not
	// together with anything else.
	State []byte
	// Effects are the effects that were begun, with their inputs and results but for
	// the secrets in them. They must not be compressed: the client often chooses part
	// of an input, and a result often repeats it.
	Effects []byte
	// Secrets are the values of all secret fields. They must not be compressed, and
	// must not be shown to anybody.
	Secrets []byte
}

// Versions of the encoding. The first had effects and state in the body; in the last there
// follows what only some positions have.
const (
	bodyOfAll = 1
	bodyApart = 2
	bodyMore  = 3
)

// Flags of a pending step.
const (
	pendingVaried = 1 << iota
	pendingAnswered
	pendingFailed
	pendingOutside
)

// Encode returns the position's parts, which [Position.Restore] takes. They share
// memory with the position.
func (p *Position) Encode() Encoded {
	version := byte(bodyApart)
	if !p.Wake.IsZero() || len(p.Parts) > 0 || p.running != nil {
		version = bodyMore
	}
	b := appendBytes(append(make([]byte, 0, 512), version), p.next)
	b = binary.AppendUvarint(b, uint64(len(p.pending)))
	for i := range p.pending {
		b = p.pending[i].append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(p.seen)))
	for i := range p.seen {
		b = append(b, p.seen[i][:]...)
	}
	b = appendBytes(b, p.args)
	if version == bodyMore {
		b = p.appendMore(b)
	}
	e := Encoded{Body: b, Secrets: p.secrets}
	if p.handles != nil {
		e.Secrets = append(AppendSecret(nil, handlesSecret, p.handles), p.secrets...)
	}
	if p.apart {
		e.State = p.kept
	} else {
		e.Body = append(b, p.kept...)
	}
	if p.HasEffects() {
		e.Effects = append(p.log.append(nil), p.Ledger...) // which older programs do not read
		e.Secrets = p.log.appendSecrets(e.Secrets)
	}
	return e
}

// Restore fills the parts of the position that [Position.Encode] returned. It keeps
// their memory.
func (p *Position) Restore(e Encoded) error {
	r := reader{b: e.Body}
	version := r.take(1)[0]
	if r.err == nil && (version < bodyOfAll || version > bodyMore) {
		return fmt.Errorf("position format %d is not known, only up to %d", version, bodyMore)
	}
	now := *p
	now.body, now.Wake, now.Parts, now.Ledger, now.secrets, now.handles = body{}, time.Time{}, nil, nil, nil, nil
	now.next = string(r.bytes())
	if n := r.count(2); n > 0 {
		now.pending = make([]pendingStep, n)
		for i := range now.pending {
			now.pending[i].read(&r)
		}
	}
	if n := r.count(len(fingerprint{})); n > 0 {
		now.seen = make([]fingerprint, n)
		for i := range now.seen {
			copy(now.seen[i][:], r.take(len(fingerprint{})))
		}
	}
	now.args = r.bytes()
	mine := 0
	switch version {
	case bodyOfAll:
		now.log = readEffects(&r)
	case bodyMore:
		var err error
		if mine, err = now.readMore(&r); err != nil {
			return fmt.Errorf("its parts of the result: %w", err)
		}
	}
	if now.kept = r.b; len(e.State) > 0 {
		now.kept, now.apart = e.State, true
	}
	if r.err != nil {
		return r.err
	}
	if len(e.Effects) > 0 {
		r := reader{b: e.Effects}
		now.log = readEffects(&r)
		if r.err != nil {
			return fmt.Errorf("its effects: %w", r.err)
		}
		now.Ledger = r.b
	}
	switch {
	case mine == 0:
	case mine > len(now.log.records):
		return errors.New("a step function has more effects than the saga")
	default:
		now.log.mine = mine
	}
	if len(e.Secrets) > 0 {
		var err error
		now.handles, e.Secrets = takeHandles(e.Secrets)
		if now.secrets, err = now.log.takeSecrets(e.Secrets); err != nil {
			return fmt.Errorf("its secrets: %w", err)
		}
	}
	*p = now
	return nil
}

// append encodes a step that is waited for.
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
	if p.outside() {
		flags |= pendingOutside
	}
	b = append(b, flags, byte(p.refused))
	b = binary.AppendUvarint(b, uint64(p.repeat))
	b = appendBytes(b, p.id)
	if p.params != nil {
		b = append(b, byte(p.kind))
		b = binary.AppendUvarint(b, PackFeatures(p.needs))
		b = appendBytes(b, p.params)
	}
	b = append(b, p.digest[:]...)
	if p.answer != nil {
		b = appendBytes(b, p.answer.raw)
	}
	if p.outside() {
		b = appendTime(b, p.until)
	}
	return b
}

// read undoes append.
func (p *pendingStep) read(r *reader) {
	flags := r.take(1)[0]
	p.refused = int(r.take(1)[0])
	p.repeat = int(r.uvarint() & math.MaxInt32)
	p.id = string(r.bytes())
	if flags&pendingVaried != 0 {
		p.kind = steps.Kind(r.take(1)[0])
		p.needs = UnpackFeatures(r.uvarint())
		p.params = r.bytes()
	}
	copy(p.digest[:], r.take(4))
	if flags&pendingAnswered != 0 {
		p.answer = &storedAnswer{failed: flags&pendingFailed != 0, raw: r.bytes()}
	}
	if flags&pendingOutside != 0 {
		p.until = r.time()
	}
}

// Flags of what only some positions have.
const (
	moreWake = 1 << iota
	moreRunning
	_ // was a saga that is being undone
	moreParts
)

// appendMore encodes what only some positions have.
func (p *Position) appendMore(b []byte) []byte {
	var flags byte
	if !p.Wake.IsZero() {
		flags |= moreWake
	}
	if p.running != nil {
		flags |= moreRunning
	}
	var parts []byte
	if len(p.Parts) > 0 {
		var err error
		if parts, err = p.Parts.AppendJSON(nil); err == nil { // what cannot be encoded is in no result
			flags |= moreParts
		}
	}
	b = append(b, flags)
	if flags&moreWake != 0 {
		b = appendTime(b, p.Wake)
	}
	if flags&moreRunning != 0 {
		b = appendTime(b, *p.running)
		b = binary.AppendUvarint(b, uint64(p.log.mine))
	}
	if flags&moreParts != 0 {
		b = appendBytes(b, parts)
	}
	return b
}

// readMore undoes appendMore. It returns how many effects the step function has that runs.
func (p *Position) readMore(r *reader) (mine int, err error) {
	flags := r.take(1)[0]
	if flags&moreWake != 0 {
		p.Wake = r.time()
	}
	if flags&moreRunning != 0 {
		now := r.time()
		p.running, mine = &now, int(r.uvarint()&math.MaxInt32)
	}
	if flags&moreParts != 0 {
		if parts := r.bytes(); r.err == nil {
			err = p.Parts.UnmarshalJSON(parts)
		}
	}
	return mine, err
}

func appendBytes[T ~string | ~[]byte](b []byte, v T) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

// A time is encoded to the nanosecond, the zero time included.
func appendTime(b []byte, t time.Time) []byte {
	b = binary.AppendVarint(b, t.Unix())
	return binary.AppendUvarint(b, uint64(t.Nanosecond()))
}

func (r *reader) time() time.Time {
	seconds, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return time.Time{}
	}
	r.b = r.b[n:]
	return time.Unix(seconds, int64(r.uvarint()&math.MaxInt32)).UTC()
}

var errTruncated = errors.New("the position ends too early")

// reader takes values off a byte slice. After an error it returns zero values.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n > len(r.b) {
		r.fail()
		return make([]byte, n)
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
	return r.take(r.count(1))
}
