package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
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

// options decode arguments. Every object begins with its defaults, and what the
// client gave replaces them.
func (d defaults) options() jsonv2.Options {
	if len(d) == 0 {
		return JSONOptions
	}
	known := maps.Clone(d)
	begin := jsonv2.UnmarshalFromFunc(func(_ *jsontext.Decoder, target any) error {
		v := reflect.ValueOf(target).Elem()
		for _, field := range known[v.Type()] {
			if err := jsonv2.Unmarshal(field.value, v.FieldByIndex(field.index).Addr().Interface(), JSONOptions); err != nil {
				return err
			}
		}
		return errors.ErrUnsupported // go on as usual
	})
	return jsonv2.JoinOptions(JSONOptions, jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(begin, jsonv2.UnmarshalFromFunc(readNumber))))
}

// Decode decodes what fits a schema, with the options that belong to it. A number may
// still be too large for its Go type, and a schema of the author's may allow what the
// type does not.
func Decode(raw json.RawMessage, into any, options jsonv2.Options) error {
	err := jsonv2.Unmarshal(raw, into, options)
	if err == nil {
		return nil
	}
	if wrong := (*jsonv1.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%s: %s is not of the type %s", wrong.Field, wrong.Value, wrong.Type)
	}
	return err
}
