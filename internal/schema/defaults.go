package schema

import (
	"encoding/json"
	"errors"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// defaults are the values of the fields of structs that a client may leave out.
type defaults map[reflect.Type][]defaultField

type defaultField struct {
	index []int
	value json.RawMessage
}

// add returns why the field can have no default, or "".
func (d defaults) add(t reflect.Type, f reflect.StructField, value json.RawMessage) string {
	for i := 1; i < len(f.Index); i++ {
		if t.FieldByIndex(f.Index[:i]).Type.Kind() == reflect.Pointer {
			return "is not for a field of an embedded pointer, which may be nil"
		}
	}
	if err := jsonv2.Unmarshal(value, reflect.New(f.Type).Interface(), JSONOptions); err != nil {
		return "does not fit the field's type: " + err.Error()
	}
	d[t] = append(d[t], defaultField{f.Index, value})
	return ""
}

// options decode arguments. Every object begins with its defaults, and what the client
// gave replaces them.
func (d defaults) options() jsonv2.Options {
	if len(d) == 0 {
		return JSONOptions
	}
	begin := jsonv2.UnmarshalFromFunc(func(_ *jsontext.Decoder, target any) error {
		v := reflect.ValueOf(target).Elem()
		for _, field := range d[v.Type()] {
			if err := jsonv2.Unmarshal(field.value, v.FieldByIndex(field.index).Addr().Interface(), JSONOptions); err != nil {
				return err
			}
		}
		return errors.ErrUnsupported // decoded as usual
	})
	return jsonv2.JoinOptions(JSONOptions, jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(begin, readNumber)))
}
