package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
)

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
			s := NamedSecret{r.string(), r.bytes()}
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
const effectSecret = '#'

// appendSecrets adds what is secret in the inputs and results to a state's secrets.
func (l *effectLog) appendSecrets(b []byte) []byte {
	b = slices.Clip(b)
	for i, r := range l.records {
		b = appendNamed(b, fmt.Sprintf("%c%d<", effectSecret, i), r.in.Secrets)
		b = appendNamed(b, fmt.Sprintf("%c%d>", effectSecret, i), r.out.Secrets)
	}
	return b
}

func appendNamed(b []byte, prefix string, secrets []byte) []byte {
	r := reader{b: secrets}
	for len(r.b) > 0 {
		path, value := r.string(), r.bytes()
		b = appendBytes(b, prefix+path)
		b = appendBytes(b, value)
	}
	return b
}

var errEffectSecret = errors.New("there is one of an effect that was not begun")

// takeSecrets undoes appendSecrets, and returns the secrets of the state.
func (l *effectLog) takeSecrets(all []byte) (state []byte, err error) {
	r := reader{b: all}
	state = all
	for len(r.b) > 0 {
		before := len(all) - len(r.b)
		name, value := r.bytes(), r.bytes()
		if r.err != nil {
			return nil, r.err
		}
		if len(name) == 0 || name[0] != effectSecret {
			if len(state) < before {
				return nil, errEffectSecret // the state's come first
			}
			continue
		}
		state = all[:min(len(state), before)]
		of, path := l.secretsOf(name[1:])
		if of == nil {
			return nil, errEffectSecret
		}
		*of = appendBytes(appendBytes(*of, path), value)
	}
	return slices.Clip(state), nil
}

// secretsOf returns whose secret that is, and the rest of its name.
func (l *effectLog) secretsOf(name []byte) (of *[]byte, path []byte) {
	at := bytes.IndexAny(name, "<>")
	if l == nil || at < 0 {
		return nil, nil
	}
	i, err := strconv.Atoi(string(name[:at]))
	if err != nil || i < 0 || i >= len(l.records) {
		return nil, nil
	}
	if name[at] == '<' {
		return &l.records[i].in.Secrets, name[at+1:]
	}
	return &l.records[i].out.Secrets, name[at+1:]
}

func appendBytes[T ~string | ~[]byte](b []byte, v T) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}
