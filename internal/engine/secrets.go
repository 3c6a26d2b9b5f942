package engine

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/steps"
)

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

// handlesSecret is the name of [Position].handles, which comes first of all.
const handlesSecret = effectSecret + "handles"

// takeHandles takes what has that name off the secrets.
func takeHandles(all []byte) (handles, rest []byte) {
	r := reader{b: all}
	if name, value := r.bytes(), r.bytes(); r.err == nil && string(name) == handlesSecret {
		return value, r.b
	}
	return nil, all
}

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
		if err != nil || !ofEffect || i < 0 || i >= len(l.records) {
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
