package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
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
)

// Encode returns the position's parts, which [Position.Restore] takes. They share
// memory with the position.
func (p *Position) Encode() Encoded {
	n := 16 + len(p.next) + len(p.args) + len(p.kept) + 12*len(p.seen)
	for i := range p.pending {
		n += 16 + len(p.pending[i].id) + len(p.pending[i].params)
		if a := p.pending[i].answer; a != nil {
			n += len(a.raw)
		}
	}
	b := make([]byte, 0, n+64)
	version := byte(bodyApart)
	if !p.Wake.IsZero() || len(p.Parts) > 0 || p.running != nil {
		version = bodyMore
	}
	b = append(b, version)
	b = appendBytes(b, p.next)
	b = binary.AppendUvarint(b, uint64(len(p.pending)))
	for i := range p.pending {
		p := &p.pending[i]
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
	var b body
	b.next = string(r.bytes())
	if n := r.count(2); n > 0 {
		b.pending = make([]pendingStep, n)
		for i := range b.pending {
			p := &b.pending[i]
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
		}
	}
	if n := r.count(len(fingerprint{})); n > 0 {
		b.seen = make([]fingerprint, n)
		for i := range b.seen {
			copy(b.seen[i][:], r.take(len(fingerprint{})))
		}
	}
	b.args = r.bytes()
	var more more
	switch version {
	case bodyOfAll:
		b.log = readEffects(&r)
	case bodyMore:
		more = r.readMore()
		b.running = more.running
	}
	if b.kept = r.b; len(e.State) > 0 {
		b.kept, b.apart = e.State, true
	}
	if r.err != nil {
		return r.err
	}
	var ledger []byte
	if len(e.Effects) > 0 {
		r := reader{b: e.Effects}
		b.log = readEffects(&r)
		if r.err != nil {
			return fmt.Errorf("its effects: %w", r.err)
		}
		ledger = r.b
	}
	switch {
	case more.mine == 0:
	case b.log == nil || more.mine > len(b.log.records):
		return errMine
	default:
		b.log.mine = more.mine
	}
	var yielded content.Blocks
	if len(more.parts) > 0 {
		if err := yielded.UnmarshalJSON(more.parts); err != nil {
			return fmt.Errorf("its parts of the result: %w", err)
		}
	}
	var secrets []byte
	if len(e.Secrets) > 0 {
		var err error
		if secrets, err = b.log.takeSecrets(e.Secrets); err != nil {
			return fmt.Errorf("its secrets: %w", err)
		}
	}
	p.body, p.secrets, p.Wake, p.Parts, p.Ledger = b, secrets, more.wake, yielded, ledger
	return nil
}

// PackFeatures makes bits of features, for tokens and records. Those outlive programs: a bit
// never gets another meaning.
func PackFeatures(f steps.Features) uint64 {
	var bits uint64
	for i, has := range [...]bool{f.Forms, f.Links, f.Sampling, f.SamplingTools, f.SamplingContext, f.Roots} {
		if has {
			bits |= 1 << i
		}
	}
	return bits
}

// UnpackFeatures reads what [PackFeatures] made. It ignores bits that are not known.
func UnpackFeatures(bits uint64) steps.Features {
	has := func(i int) bool { return bits>>i&1 == 1 }
	return steps.Features{Forms: has(0), Links: has(1), Sampling: has(2), SamplingTools: has(3), SamplingContext: has(4), Roots: has(5)}
}

// AppendSecret appends a secret to b: path and value, each with its length.
func AppendSecret[T ~string | ~[]byte](b []byte, path string, value T) []byte {
	return appendBytes(appendBytes(b, path), value)
}

// Secrets returns the secrets in what [AppendSecret] has written, in their order, and
// an error if it was something else.
func Secrets(b []byte) iter.Seq2[NamedSecret, error] {
	return func(yield func(NamedSecret, error) bool) {
		r := reader{b: b}
		for len(r.b) > 0 {
			s := NamedSecret{string(r.bytes()), r.bytes()}
			if !yield(s, r.err) || r.err != nil {
				return
			}
		}
	}
}

// NamedSecret is a value that is kept apart, under the path of its field.
type NamedSecret struct {
	Path  string
	Value []byte
}

// differs says how an input differs from the recorded one. It shows no secrets.
func differs(recorded, now sagahooks.Value) (was, is string) {
	if bytes.Equal(recorded.JSON, now.JSON) {
		return "the input " + clip(recorded.JSON), "the same input but for a Secret in it"
	}
	return "the input " + clip(recorded.JSON), "the input " + clip(now.JSON)
}

// The secrets of effects follow those of the state. Their names have the number of
// the effect, then < for its input or > for its result, then the path; they begin with
// a character that no field's name has.
const effectSecret = "#"

// appendSecrets adds what is secret in the inputs and results to a state's secrets.
func (l *effectLog) appendSecrets(b []byte) []byte {
	b = slices.Clip(b)
	for i, r := range l.records {
		for s := range Secrets(r.In.Secrets) {
			b = AppendSecret(b, fmt.Sprintf("%s%d<%s", effectSecret, i, s.Path), s.Value)
		}
		for s := range Secrets(r.Out.Secrets) {
			b = AppendSecret(b, fmt.Sprintf("%s%d>%s", effectSecret, i, s.Path), s.Value)
		}
	}
	return b
}

// takeSecrets undoes appendSecrets, and returns the secrets of the state, which come first.
func (l *effectLog) takeSecrets(all []byte) (state []byte, err error) {
	effects := false
	for s, err := range Secrets(all) {
		if err != nil {
			return nil, err
		}
		name, ofEffect := strings.CutPrefix(s.Path, effectSecret)
		if !ofEffect && !effects {
			state = AppendSecret(state, s.Path, s.Value)
			continue
		}
		effects = true
		number, path, ofInput := strings.Cut(name, "<")
		if !ofInput {
			number, path, ofEffect = strings.Cut(name, ">")
		}
		i, err := strconv.Atoi(number)
		if err != nil || !ofEffect || l == nil || i < 0 || i >= len(l.records) {
			return nil, errors.New("there is one of an effect that was not begun")
		}
		of := &l.records[i].Out.Secrets
		if ofInput {
			of = &l.records[i].In.Secrets
		}
		*of = AppendSecret(*of, path, s.Value)
	}
	return state, nil
}

func appendBytes[T ~string | ~[]byte](b []byte, v T) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

var errMine = errors.New("a step function has more effects than the saga")

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
