package schema

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// JSONOptions encode and decode values as package encoding/json would, so that any type
// that authors know to work there works here, only faster.
var JSONOptions = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false),
	jsonv2.WithMarshalers(MarshalNumber), jsonv2.WithUnmarshalers(readNumber))

// ResultJSONOptions encode results. A nil map is an empty one, as schemas say of maps.
var ResultJSONOptions = jsonv2.JoinOptions(JSONOptions, jsonv2.FormatNilMapAsNull(false))

// StrictJSONOptions refuse what the type has no place for.
var StrictJSONOptions = jsonv2.JoinOptions(JSONOptions, jsonv2.RejectUnknownMembers(true))

// MarshalNumber makes a json.Number the number that it is in encoding/json: to the library
// it is a string. Options with marshalers of their own need it besides them.
var MarshalNumber = jsonv2.MarshalToFunc(func(e *jsontext.Encoder, n json.Number) error {
	if isName(e.StackIndex(e.StackDepth())) {
		return errors.ErrUnsupported
	}
	raw, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("the json.Number %q is not a number", n.String())
	}
	return e.WriteValue(raw)
})

// readNumber is the counterpart of MarshalNumber. Tokens that were sealed when numbers
// were still written as strings hold an empty string for the zero Number.
var readNumber = jsonv2.UnmarshalFromFunc(func(d *jsontext.Decoder, n *json.Number) error {
	if isName(d.StackIndex(d.StackDepth())) {
		return errors.ErrUnsupported
	}
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	if string(v) == `""` {
		*n = ""
		return nil
	}
	if json.Unmarshal(v, n) != nil {
		return fmt.Errorf("%s is not a number", v)
	}
	return nil
})

// isName reports whether what comes next in an object is the name of a member: the
// key of a map, which is a string whatever its type.
func isName(parent jsontext.Kind, length int64) bool { return parent == '{' && length%2 == 0 }

// Decode decodes JSON that fits the schema of a type, or an author's schema that allows
// more. To JSON Schema 1.0 and 1e3 are integers, which decoders of Go refuse, so what
// cannot be decoded is decoded again with [readInteger]. The error is for the caller.
func Decode(raw []byte, into any, options ...jsonv2.Options) error {
	defer jsonview.TakeApart(len(raw))()
	err := jsonv2.Unmarshal(raw, into, options...)
	if err == nil {
		return nil
	}
	reflect.ValueOf(into).Elem().SetZero()
	all := jsonv2.JoinOptions(options...)
	others, _ := jsonv2.GetOption(all, jsonv2.WithUnmarshalers)
	err = jsonv2.Unmarshal(raw, into, all, jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(readInteger, others)))
	if wrong, ok := errors.AsType[*jsonv1.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: %s is not of the type %s", wrong.Field, wrong.Value, wrong.Type)
	}
	return err
}

// Refuses reports whether a field of a flat struct may refuse a value that fits its schema: its type is narrower than a number of
// JSON, or reads its text itself.
func Refuses(t reflect.Type) bool {
	return Holds(t, func(of reflect.Type) bool {
		return of.Kind() == reflect.Float32 || of != t && (implements[encoding.TextUnmarshaler](of) || implements[jsonv1.Unmarshaler](of))
	})
}

// readInteger reads a number into an integer of any type, however it is written.
var readInteger = jsonv2.UnmarshalFromFunc(func(d *jsontext.Decoder, into any) error {
	t := reflect.TypeOf(into).Elem()
	if t.Kind() < reflect.Int || t.Kind() > reflect.Uintptr || d.PeekKind() != '0' || isName(d.StackIndex(d.StackDepth())) {
		return errors.ErrUnsupported
	}
	switch into.(type) {
	case jsonv2.Unmarshaler, jsonv2.UnmarshalerFrom, encoding.TextUnmarshaler:
		return errors.ErrUnsupported
	}
	number, err := d.ReadValue()
	if err != nil {
		return err
	}
	if digits, ok := jsonview.Integer(string(number)); ok && jsonv2.Unmarshal([]byte(digits), into, JSONOptions) == nil {
		return nil
	}
	names := slices.Collect(d.StackPointer().Tokens())
	return &jsonv1.UnmarshalTypeError{Value: "number " + string(number), Type: t, Field: strings.Join(names, ".")}
})

// defaults are the values of the fields of structs that a client may leave out.
type defaults map[reflect.Type][]defaultField

type defaultField struct {
	index []int
	value json.RawMessage
}

// add returns why the field can have no default, or "".
func (d defaults) add(t reflect.Type, f reflect.StructField, value json.RawMessage) string {
	if byPointer(t, f) {
		return "is not for a field of an embedded pointer, which may be nil"
	}
	if err := jsonv2.Unmarshal(value, reflect.New(f.Type).Interface(), JSONOptions); err != nil {
		return "does not fit the field's type: " + err.Error()
	}
	d[t] = append(d[t], defaultField{f.Index, value})
	return ""
}

// options decode arguments as others do. Every object begins with its defaults, and what the client
// gave replaces them.
func (d defaults) options(others jsonv2.Options) jsonv2.Options {
	if len(d) == 0 {
		return others
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
	return jsonv2.JoinOptions(others, jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(begin, readNumber)))
}
