package engine

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
)

// Waiting fails if the turn has ended already as far as the engine is concerned: a flow
// that has suspended or diverged performs nothing more. effect is what it asked for.
func (tc *Turn) Waiting(effect string) error {
	if _, waits := tc.latched.(*suspended); waits {
		if world := sagahooks.From(tc); world != nil {
			world.Late(effect)
		}
	}
	return tc.latched
}

// Effect returns the declared effect of that name, or nil.
func (tc *Turn) Effect(name string) Effect { return tc.program.effects[name] }

// Begin is called before an effect is performed. If it was begun in an earlier turn,
// r is its record, and there is nothing more to do. Otherwise its record is a new one:
// the effect is to be performed with key, and its end is for [EffectRecord.Succeed] or
// [EffectRecord.Fail].
func (tc *Turn) Begin(d Declaration, input sagahooks.Value) (r *EffectRecord, key string, err error) {
	r, n, err := tc.log.find(d.Name, input)
	if err != nil {
		return nil, "", tc.replay.diverges(err)
	}
	if r != nil {
		return r, "", nil
	}
	if err := tc.replay.admit("effect", d.Name); err != nil {
		return nil, "", err
	}
	r = tc.log.begin(d.Name, n, input)
	if d.Irreversible && d.Undoable && tc.log.stopAtFinal {
		tc.log.stopped = &stoppedError{d.Name}
		tc.latched = tc.log.stopped
		return nil, "", tc.latched
	}
	return r, effectKey(tc.id, d.Name, r.n), nil
}

// Succeed records that the effect was performed.
func (r *EffectRecord) Succeed(output sagahooks.Value) { r.status, r.out = effectDone, output }

// Fail records that the effect was not performed, for certain if it was refused, and
// returns the cause to report.
func (r *EffectRecord) Fail(err error, refused bool) error {
	if refused {
		r.status = effectRefused
	}
	r.out = sagahooks.Value{JSON: []byte(err.Error())}
	return r.cause(err)
}

// Failure is the error of an effect that an earlier turn has not performed, or not for
// certain; nil if it was performed.
func (r *EffectRecord) Failure() error {
	if r.status == effectDone {
		return nil
	}
	return r.cause(errors.New(string(r.out.JSON)))
}

func (r *EffectRecord) cause(err error) error {
	if r.status == effectUnknown {
		return &UnknownError{r.name, err}
	}
	return err
}

// Unknown reports whether nobody knows if the effect was performed.
func (r *EffectRecord) Unknown() bool { return r.status == effectUnknown }

// Done reports whether the effect was performed.
func (r *EffectRecord) Done() bool { return r.status == effectDone }

// Old reports whether an earlier revision performed it: the present types may lack
// what is recorded.
func (r *EffectRecord) Old() bool { return r.old }

// Input is what the effect was given.
func (r *EffectRecord) Input() sagahooks.Value { return r.in }

// Output is what the effect has returned, if it is done.
func (r *EffectRecord) Output() sagahooks.Value { return r.out }

// effectKey derives the key of the n-th effect of a name in a saga.
func effectKey(saga [16]byte, name string, n int) string {
	h := sha256.New()
	h.Write([]byte("mcpsaga effect 1\x00"))
	h.Write(saga[:])
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
	h.Write([]byte(name))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
