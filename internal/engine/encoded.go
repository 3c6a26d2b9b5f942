package engine

import (
	"encoding/binary"
	"fmt"
)

// Encoded is a position in parts, but for its exported fields. The parts are kept
// from each other because they differ in who knows what is in them: the length of
// what is compressed tells something about all of its content to whoever chooses
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

// Versions of the encoding. The first had effects and state in the body.
const (
	bodyOfAll = 1
	bodyApart = 2
)

// Encode returns the position's parts, which [Position.Restore] takes. They share
// memory with the position.
func (p *Position) Encode() Encoded {
	n := 16 + len(p.next) + len(p.args) + len(p.record) + 12*len(p.seen)
	for i := range p.pending {
		n += 16 + len(p.pending[i].id) + len(p.pending[i].params)
		if a := p.pending[i].answer; a != nil {
			n += len(a.raw)
		}
	}
	b := make([]byte, 0, n+64)
	b = append(b, bodyApart)
	b = appendBytes(b, p.next)
	b = binary.AppendUvarint(b, uint64(len(p.pending)))
	for i := range p.pending {
		b = p.pending[i].append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(p.seen)))
	for i := range p.seen {
		b = append(b, p.seen[i][:]...)
	}
	b = appendBytes(b, p.args)
	e := Encoded{Body: append(b, p.record...), State: p.state, Secrets: p.secrets}
	if p.HasEffects() {
		e.Effects = p.log.append(nil)
		e.Secrets = p.log.appendSecrets(e.Secrets)
	}
	return e
}

// Restore fills the parts of the position that [Position.Encode] returned. It keeps
// their memory.
func (p *Position) Restore(e Encoded) error {
	r := reader{b: e.Body}
	version := r.byte()
	if r.err == nil && version != bodyOfAll && version != bodyApart {
		return fmt.Errorf("position format %d is not known, only up to %d", version, bodyApart)
	}
	var b body
	b.next = r.string()
	if n := r.count(2); n > 0 {
		b.pending = make([]pendingStep, n)
		for i := range b.pending {
			b.pending[i].read(&r)
		}
	}
	if n := r.count(len(fingerprint{})); n > 0 {
		b.seen = make([]fingerprint, n)
		for i := range b.seen {
			copy(b.seen[i][:], r.take(len(fingerprint{})))
		}
	}
	b.args = r.bytes()
	if version == bodyOfAll {
		b.log = readEffects(&r)
	}
	b.record, b.state = r.b, e.State
	if r.err != nil {
		return r.err
	}
	if len(e.Effects) > 0 {
		r := reader{b: e.Effects}
		b.log = readEffects(&r)
		if r.err != nil {
			return fmt.Errorf("its effects: %w", r.err)
		}
	}
	secrets, err := b.log.takeSecrets(e.Secrets)
	if err != nil {
		return fmt.Errorf("its secrets: %w", err)
	}
	p.body, p.secrets = b, secrets
	return nil
}
