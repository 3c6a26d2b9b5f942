package saga

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// ownJSON are the ways in which a type can take care of its own JSON, there and back.
var ownJSON = [][2]reflect.Type{
	{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler]()},
	{reflect.TypeFor[jsonv2.MarshalerTo](), reflect.TypeFor[jsonv2.UnmarshalerFrom]()},
	{reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()},
}

func implements(t, i reflect.Type) bool { return t.Implements(i) || reflect.PointerTo(t).Implements(i) }

// checkKept finds the secrets in a type that is kept between turns, and fails if values of it would lose
// something: better to know when the tool is registered than in the middle of a saga. What another encoding
// than JSON keeps is not known; it must be able to encode the zero value.
func checkKept(t reflect.Type, e Encoding, at string) ([]secretField, error) {
	secrets, err := findSecrets(t, at)
	if err != nil {
		return nil, err
	}
	if _, ok := e.(jsonEncoding); ok {
		if err := jsonKeeps(t, at, map[reflect.Type]bool{}); err != nil {
			return nil, err
		}
	}
	err = engine.Protect(func() error {
		b, err := e.Marshal(reflect.New(t).Interface())
		if err != nil {
			return err
		}
		return e.Unmarshal(b, reflect.New(t).Interface())
	})
	if err != nil {
		return nil, fmt.Errorf("the zero value of %s does not come back: %w", at, err)
	}
	return secrets, nil
}

// jsonKeeps returns what JSON loses of values of a type, or nil. Types that encode themselves are taken at their word.
func jsonKeeps(t reflect.Type, at string, seen map[reflect.Type]bool) error {
	if seen[t] || t == secretType {
		return nil
	}
	if seen[t] = true; encodesItself(t) {
		return embeddedAlone(t, at)
	}
	if implements(t, ownJSON[0][0]) || implements(t, ownJSON[1][0]) {
		return fmt.Errorf("%s encodes itself as JSON but does not decode itself, so what it leaves out would be lost", at)
	}
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Complex64, reflect.Complex128, reflect.Uintptr:
		return fmt.Errorf("%s is a %s, which cannot be encoded", at, t.Kind())
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("%s is the interface %v; a decoder cannot know what to put there, use a concrete type", at, t)
		}
	case reflect.Map:
		if k := t.Key(); implements(k, ownJSON[2][0]) && !implements(k, ownJSON[2][1]) {
			return fmt.Errorf("%s has keys of the type %v, which encodes itself as text but does not decode itself", at, k)
		}
		return jsonKeeps(t.Elem(), at+"'s element", seen)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return jsonKeeps(t.Elem(), at+"'s element", seen)
	case reflect.Struct:
		var found engine.Problems
		found.Join(sameName(t, at, map[string]string{}, map[reflect.Type]bool{}))
		for f := range t.Fields() {
			name := fmt.Sprintf("field %s of %s", f.Name, at)
			switch {
			case f.Type == secretType: // findSecrets looks after it
			case f.Tag.Get("json") == "-":
				found.Join(fmt.Errorf("%s is tagged json:\"-\", so it would be lost", name))
			case !f.IsExported() && (!f.Anonymous || f.Type.Kind() != reflect.Struct):
				found.Join(fmt.Errorf("%s is not exported, so it would be lost", name))
			default:
				found.Join(jsonKeeps(f.Type, name, seen))
			}
		}
		return found.Err()
	}
	return nil
}

func encodesItself(t reflect.Type) bool {
	return slices.ContainsFunc(ownJSON, func(own [2]reflect.Type) bool { return implements(t, own[0]) && implements(t, own[1]) })
}

// embeddedAlone fails if a struct encodes itself as one that it embeds does, whose methods it then has: its other fields are lost.
func embeddedAlone(t reflect.Type, at string) error {
	if t.Kind() != reflect.Struct || t.NumField() == 1 {
		return nil
	}
	for f := range t.Fields() {
		if !f.Anonymous || f.Type.Kind() == reflect.Interface || !encodesItself(f.Type) {
			continue
		}
		whole, part := reflect.New(t), reflect.New(f.Type)
		if f.Type.Kind() == reflect.Pointer && f.IsExported() {
			part.Elem().Set(reflect.New(f.Type.Elem()))
			whole.Elem().FieldByIndex(f.Index).Set(part.Elem())
		}
		var a, b []byte
		err := engine.Protect(func() (err error) {
			if a, err = jsonv2.Marshal(whole.Interface(), schema.JSONOptions); err == nil {
				b, err = jsonv2.Marshal(part.Interface(), schema.JSONOptions)
			}
			return err
		})
		if err == nil && string(a) == string(b) {
			return fmt.Errorf("%s has the JSON of its embedded field %s alone, so the others would be lost: give that field a name", at, f.Name)
		}
	}
	return nil
}

// sameName fails if two fields of a struct, or of those that it embeds, have one name in JSON: at most one is kept.
func sameName(t reflect.Type, at string, fields map[string]string, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	defer delete(seen, t) // what is embedded on another way counts again
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if f.Anonymous && name == "" && of.Kind() == reflect.Struct {
			if err := sameName(of, at, fields, seen); err != nil {
				return err
			}
			continue
		}
		name = cmp.Or(name, f.Name)
		if other, twice := fields[name]; twice {
			return fmt.Errorf("fields %s and %s of %s are both %q in JSON, so one would be lost", other, f.Name, at, name)
		}
		fields[name] = f.Name
	}
	return nil
}
