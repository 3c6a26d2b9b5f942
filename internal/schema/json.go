package schema

import (
	"encoding/json"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// numbers makes a json.Number the number that it is in encoding/json. To the library
// it is a string: a number did not decode into it, and it came out with quotes, which
// tokens sealed in the past still hold.
var numbers = jsonv2.JoinOptions(
	jsonv2.WithMarshalers(MarshalNumber),
	jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(readNumber)),
)

// MarshalNumber writes a json.Number as numbers does. Options with marshalers of their
// own need it besides them.
var MarshalNumber = jsonv2.MarshalToFunc(writeNumber)

func writeNumber(e *jsontext.Encoder, n json.Number) error {
	if isName(e.StackIndex(e.StackDepth())) {
		return e.WriteToken(jsontext.String(n.String()))
	}
	if n == "" {
		n = "0" // as encoding/json has it
	}
	v := jsontext.Value(n)
	if v.Kind() != '0' || !v.IsValid() {
		return fmt.Errorf("the json.Number %q is not a number", n.String())
	}
	return e.WriteValue(v)
}

func readNumber(d *jsontext.Decoder, n *json.Number) error {
	name := isName(d.StackIndex(d.StackDepth()))
	v, err := d.ReadValue()
	if err != nil {
		return err
	}
	switch v.Kind() {
	case 'n':
		return nil
	case '0':
		*n = json.Number(v)
		return nil
	case '"':
		text, err := jsontext.AppendUnquote(nil, v)
		if number := jsontext.Value(text); err == nil && (name || len(text) == 0 || number.Kind() == '0' && number.IsValid()) {
			*n = json.Number(text)
			return nil
		}
	}
	return fmt.Errorf("%s is not a number", v)
}

// isName reports whether what comes next in an object is the name of a member: the
// key of a map, which is a string whatever its type.
func isName(parent jsontext.Kind, length int64) bool { return parent == '{' && length%2 == 0 }

// JSONOptions encode and decode values as package encoding/json would, so that any type
// that authors know to work there works here, only faster.
var JSONOptions = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false), numbers)

// StrictJSONOptions refuse what the type has no place for.
var StrictJSONOptions = jsonv2.JoinOptions(JSONOptions, jsonv2.RejectUnknownMembers(true))
