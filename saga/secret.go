package saga

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"reflect"
)

// Secret is a value in a saga's state whose length must not betray its content.
//
// The state is compressed before it is sealed, and the client chooses part of
// it (its arguments and answers), so the length of a token can tell a patient
// client something about values in the same state. A field of type Secret is
// kept out of the compressed part. It also never prints or encodes itself, so
// it cannot end up in a log or a result by accident.
//
// A Secret may be a field of the state, or of a struct in it; not an element of
// a slice, a map or behind a pointer.
type Secret struct{ value string }

// NewSecret returns a secret with the given value.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the value.
func (s Secret) Reveal() string { return s.value }

// IsZero reports whether the secret is empty.
func (s Secret) IsZero() bool { return s.value == "" }

const redacted = "[secret]"

// String returns a placeholder.
func (s Secret) String() string { return redacted }

// GoString returns a placeholder.
func (s Secret) GoString() string { return redacted }

// LogValue returns a placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON returns null: a secret travels apart from the state.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// UnmarshalJSON accepts anything and changes nothing.
func (s *Secret) UnmarshalJSON([]byte) error { return nil }

// MarshalBinary returns nothing: a secret travels apart from the state.
func (s Secret) MarshalBinary() ([]byte, error) { return nil, nil }

// UnmarshalBinary accepts anything and changes nothing.
func (s *Secret) UnmarshalBinary([]byte) error { return nil }

var secretType = reflect.TypeFor[Secret]()

// secretFields finds the secrets in a state type. A path is the field's
// name, with dots; it identifies the secret in the token.
type secretField struct {
	path  string
	index []int
}

func findSecrets(t reflect.Type) ([]secretField, error) {
	var found []secretField
	var walk func(t reflect.Type, path string, index []int) error
	walk = func(t reflect.Type, path string, index []int) error {
		for f := range t.Fields() {
			name := f.Name
			if path != "" {
				name = path + "." + name
			}
			at := append(append([]int(nil), index...), f.Index...)
			switch {
			case f.Type == secretType:
				if !f.IsExported() {
					return fmt.Errorf("the state's field %s is a Secret but not exported, so it would be lost", name)
				}
				found = append(found, secretField{name, at})
			case f.Type.Kind() == reflect.Struct && f.IsExported():
				if err := walk(f.Type, name, at); err != nil {
					return err
				}
			case holdsSecret(f.Type, map[reflect.Type]bool{}):
				return fmt.Errorf("the state's field %s holds a Secret in a %s; use a field of type Secret or of a struct", name, f.Type.Kind())
			}
		}
		return nil
	}
	if t == secretType || t.Kind() != reflect.Struct {
		if holdsSecret(t, map[reflect.Type]bool{}) {
			return nil, fmt.Errorf("a Secret must be a field of a struct")
		}
		return nil, nil
	}
	return found, walk(t, "", nil)
}

func holdsSecret(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == secretType {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return holdsSecret(t.Elem(), seen)
	case reflect.Map:
		return holdsSecret(t.Key(), seen) || holdsSecret(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if holdsSecret(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

// gather encodes the secrets of a state: path and value, each with its length.
func gather(fields []secretField, state reflect.Value) []byte {
	var b []byte
	for _, f := range fields {
		v := state.FieldByIndex(f.index).Interface().(Secret).value
		if v == "" {
			continue
		}
		b = appendBytes(b, f.path)
		b = appendBytes(b, v)
	}
	return b
}

// restore puts the secrets back. One whose field no longer exists is dropped:
// the state's type has changed, and upgrading it is the tool's business.
func restore(fields []secretField, state reflect.Value, b []byte) error {
	r := reader{b: b}
	for len(r.b) > 0 && r.err == nil {
		path, value := r.string(), r.string()
		if r.err != nil {
			break
		}
		for _, f := range fields {
			if f.path == path {
				state.FieldByIndex(f.index).Set(reflect.ValueOf(Secret{value}))
			}
		}
	}
	return r.err
}

func appendBytes[T ~string | ~[]byte](b []byte, v T) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}
