package saga

import (
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"unique"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// Secret is a value in a saga's state, or in the input or result of an [Effect],
// that must not become known to the client.
//
// The state is compressed before it is sealed, and the client often chooses part of
// it, so the length of a token can tell a patient client something about values in
// the same state. A field of type Secret is kept out of the compressed part: only
// the number of its bytes shows. It also never prints or encodes itself, so it cannot
// end up in a log or a result by accident.
//
// A Secret may be the whole state, input or result, or a field of it, or of a struct
// in it; not an element of a slice, a map or behind a pointer.
type Secret struct {
	// value is behind a pointer, since package fmt prints fields that are not exported without calling a method. That is
	// the same one for the same value, so that secrets compare by value.
	value unique.Handle[string]
}

// NewSecret returns a secret with the given value.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{unique.Make(value)}
}

// Reveal returns the value.
func (s Secret) Reveal() string {
	if s.IsZero() {
		return ""
	}
	return s.value.Value()
}

// IsZero reports whether the secret is empty.
func (s Secret) IsZero() bool { return s == Secret{} }

const redacted = "[secret]"

// String returns a placeholder.
func (s Secret) String() string { return redacted }

// Format writes a placeholder, whatever the verb: %d of a Secret must not show it
// either.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

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

// secretField is a secret in a state, or in what an effect records. A path is the
// field's name, with dots; it identifies the secret in the token.
type secretField struct {
	path  string
	index []int
}

// findSecrets finds the secrets in a type. at is what the type is for.
func findSecrets(t reflect.Type, at string) (found []secretField, err error) {
	var walk func(t reflect.Type, path string, index []int, exported bool) error
	walk = func(t reflect.Type, path string, index []int, exported bool) error {
		switch {
		case t == secretType && !exported:
			return fmt.Errorf("%s's field %s is a Secret but not exported, so it would be lost", at, path)
		case t == secretType:
			found = append(found, secretField{path, index})
		case t.Kind() == reflect.Struct && exported:
			for f := range t.Fields() {
				name := strings.TrimPrefix(path+"."+f.Name, ".")
				if err := walk(f.Type, name, slices.Concat(index, f.Index), f.IsExported()); err != nil {
					return err
				}
			}
		case !holdsSecret(t):
		case path == "":
			return fmt.Errorf("%s holds a Secret in a %s; a Secret must be a field of a struct", at, t.Kind())
		default:
			return fmt.Errorf("%s's field %s holds a Secret in a %s; use a field of type Secret or of a struct", at, path, t.Kind())
		}
		return nil
	}
	err = walk(t, "", nil, true)
	return found, err
}

func holdsSecret(t reflect.Type) bool {
	return schema.Holds(t, func(of reflect.Type) bool { return of == secretType })
}

// checkArguments refuses secrets among arguments, which would be dropped as they are read.
func checkArguments(t reflect.Type, p *engine.Problems) {
	if !encodesItself(t) && holdsSecret(t) {
		p.Add(nil, "its arguments have a Secret, which takes nothing of what a client sends: give the field the type string, and keep its value with NewSecret")
	}
}

// gather encodes secrets: path and value, each with its length.
func gather(fields []secretField, of reflect.Value) []byte {
	var b []byte
	for _, f := range fields {
		v := of.FieldByIndex(f.index).Interface().(Secret).Reveal()
		if v == "" {
			continue
		}
		b = engine.AppendSecret(b, f.path, v)
	}
	return b
}

// scatter puts the secrets back that gather returned. It fails with a
// *lostSecretError, having put back the others, if one has no field any more.
func scatter(fields []secretField, to reflect.Value, b []byte) (lost error) {
	for secret, err := range engine.Secrets(b) {
		if err != nil {
			return err
		}
		i := slices.IndexFunc(fields, func(f secretField) bool { return f.path == secret.Path })
		if i < 0 {
			lost = &lostSecretError{secret.Path}
			continue
		}
		to.FieldByIndex(fields[i].index).Set(reflect.ValueOf(NewSecret(string(secret.Value))))
	}
	return lost
}

// lostSecretError says that there is a secret for a field that does not exist.
type lostSecretError struct{ path string }

func (e *lostSecretError) Error() string {
	return fmt.Sprintf("it has a Secret for the field %s, which the type no longer has", e.path)
}
