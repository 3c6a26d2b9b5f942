package saga

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
)

// declaredEffect is an effect as a tool has it, with what is secret in its input and
// result.
type declaredEffect struct {
	Declared
	in, out []secretField
}

// encodeValue returns an effect's input or result, to which v points, as it is
// recorded: its secrets are beside the JSON.
func encodeValue(secrets []secretField, v any) (sagahooks.Value, error) {
	raw, err := jsonv2.Marshal(v, jsonOptions)
	if err != nil {
		return sagahooks.Value{}, err
	}
	return sagahooks.Value{JSON: raw, Secrets: gather(secrets, reflect.ValueOf(v).Elem())}, nil
}

// decodeValue undoes encodeValue. It fails if something was recorded for which the
// type has no place, unless an old revision recorded it: to undo with half of an input
// would be worse than not to undo.
func decodeValue(secrets []secretField, recorded sagahooks.Value, v any, old bool) error {
	options := strictJSON
	if old {
		options = jsonOptions
	}
	if err := jsonv2.Unmarshal(recorded.JSON, v, options); err != nil {
		return err
	}
	err := scatter(secrets, reflect.ValueOf(v).Elem(), recorded.Secrets)
	if lost := (*lostSecretError)(nil); old && errors.As(err, &lost) {
		return nil
	}
	return err
}

// adopt returns what a test gives in place of an effect's input or result: a value of
// its type, or one that encodes to the same JSON.
func adopt[T any](given any) (v T, err error) {
	switch given := given.(type) {
	case T:
		return given, nil
	case *T:
		if given != nil {
			return *given, nil
		}
	}
	raw, err := jsonv2.Marshal(given, jsonOptions)
	if err != nil {
		return v, err
	}
	return v, jsonv2.Unmarshal(raw, &v, jsonOptions)
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
