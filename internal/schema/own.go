package schema

import (
	"encoding"
	"encoding/json"
	"math/big"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/google/jsonschema-go/jsonschema"
)

// ownSchemas are the schemas of the types in t whose JSON is not what their Go is, as which the library takes them: bytes and
// what encodes itself as text are strings, a [big.Int] is a number, and a [json.RawMessage] anything.
func ownSchemas(t reflect.Type) map[reflect.Type]*jsonschema.Schema {
	all := map[reflect.Type]*jsonschema.Schema{
		numberType:                         {Type: "number"},
		reflect.TypeFor[big.Int]():         {Type: "integer"},
		reflect.TypeFor[json.RawMessage](): {},
	}
	addOwn(all, t, map[reflect.Type]bool{})
	return all
}

func addOwn(all map[reflect.Type]*jsonschema.Schema, t reflect.Type, seen map[reflect.Type]bool) {
	if seen[t] || all[t] != nil {
		return
	}
	seen[t] = true
	switch kind := t.Kind(); {
	case kind == reflect.Pointer:
		addOwn(all, t.Elem(), seen)
	case kind == reflect.String, kind == reflect.Interface: // which the library knows
	case asText(t):
		all[t] = &jsonschema.Schema{Type: "string"}
	case kind == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !implements[jsonv1.Marshaler](t) && !asText(t.Elem()):
		all[t] = &jsonschema.Schema{Types: []string{"null", "string"}, ContentEncoding: "base64"}
	case kind == reflect.Slice, kind == reflect.Array, kind == reflect.Map:
		addOwn(all, t.Elem(), seen)
	case kind == reflect.Struct:
		for f := range t.Fields() {
			if f.IsExported() || f.Anonymous {
				addOwn(all, f.Type, seen)
			}
		}
	}
}

// Holds reports whether the function is holds of a type, or of one that its values are made of.
func Holds(t reflect.Type, is func(reflect.Type) bool) bool {
	seen := map[reflect.Type]bool{}
	var within func(reflect.Type) bool
	within = func(t reflect.Type) bool {
		if seen[t] {
			return false
		}
		if seen[t] = true; is(t) {
			return true
		}
		switch t.Kind() {
		case reflect.Map:
			return within(t.Key()) || within(t.Elem())
		case reflect.Pointer, reflect.Slice, reflect.Array:
			return within(t.Elem())
		case reflect.Struct:
			for f := range t.Fields() {
				if within(f.Type) {
					return true
				}
			}
		}
		return false
	}
	return within(t)
}

// asText reports whether values of a type are text to JSON, there and back, as they say themselves.
func asText(t reflect.Type) bool {
	return implements[encoding.TextMarshaler](t) && implements[encoding.TextUnmarshaler](t) && !implements[jsonv1.Marshaler](t) && !implements[jsonv2.MarshalerTo](t)
}

func implements[I any](t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[I]())
}
