package steps

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// lossy writes bytes that are not UTF-8 as U+FFFD.
var lossy = json.JoinOptions(jsontext.AllowInvalidUTF8(true))

// appendJSON writes what cannot fail: strings, numbers, and JSON that was checked.
func appendJSON(dst []byte, v any) []byte {
	raw, _ := json.Marshal(v, lossy)
	return append(dst, raw...)
}

// jsonOf returns a value as JSON, and nothing for nil. What JSON cannot hold, such as NaN,
// becomes null, which no field allows.
func jsonOf(v any) jsontext.Value {
	if v == nil {
		return nil
	}
	if x, ok := v.(float64); ok && x == math.Trunc(x) && x >= math.MinInt64 && x < math.MaxInt64 { // not rounded, as JSON's shortest form would be
		return strconv.AppendInt(nil, int64(x), 10)
	}
	raw, err := json.Marshal(v, lossy)
	if err != nil {
		return jsontext.Value("null")
	}
	return raw
}

// absent reports that a member is missing, or null, which peers write for that.
func absent(v jsontext.Value) bool { return v == nil || v.Kind() == 'n' }

// number returns a JSON number that float64 can hold.
func number(v jsontext.Value) (float64, bool) {
	x, err := strconv.ParseFloat(string(v), 64)
	return x, v.Kind() == '0' && err == nil
}

const notObject = "it is not a JSON object"

// checkObject says why an untrusted message is not a JSON object, or "": valid JSON,
// without duplicate names, in UTF-8.
func checkObject(raw []byte) string {
	switch {
	case !jsontext.Value(raw).IsValid():
		return "it is not valid JSON"
	case jsontext.Value(raw).Kind() != '{':
		return notObject
	}
	return ""
}

// reason is an error of our own among those of the library.
type reason string

func (r reason) Error() string { return string(r) }

// demands are what the library does not ask of the members of questions.
var demands = json.WithUnmarshalers(json.JoinUnmarshalers(
	// JSON that is kept as it is must be an object. Null is taken for none.
	json.UnmarshalFunc(func(raw []byte, o *stdjson.RawMessage) error {
		switch v := jsontext.Value(raw); v.Kind() {
		case 'n':
		case '{':
			*o = bytes.Clone(v)
		default:
			return reason("must be an object")
		}
		return nil
	}),
	// Counts are whole numbers, however they are written: 3, 3.0 and 3e0 are the same.
	json.UnmarshalFunc(func(raw []byte, n *int) error {
		i, ok := jsonview.Int64(raw)
		if *n = int(i); !ok || i < 0 || int64(*n) != i {
			return reason("must be a whole number from 0 on")
		}
		return nil
	}),
	// Nothing is taken for a string that is none, not even null.
	json.UnmarshalFunc(func(raw []byte, l *[]string) error {
		list, ok := jsonview.Strings(raw)
		if *l = list; !ok && jsontext.Value(raw).Kind() != 'n' {
			return reason("must be a list of strings")
		}
		return nil
	}),
	json.UnmarshalFunc(readContent),
	json.UnmarshalFromFunc(readPreferences),
))

// readParams reads what a server sent.
func readParams(params []byte, into any) error {
	if reason := checkObject(params); reason != "" {
		return &QuestionError{Reason: reason}
	}
	if err := json.Unmarshal(params, into, demands); err != nil {
		return misfit("", err)
	}
	return nil
}

// misfit says which member of what a server sent is not of the type it must be. It is
// within a part of that, or where is empty.
func misfit(where string, err error) error {
	var at *json.SemanticError
	if !errors.As(err, &at) || at.GoType == nil {
		return &QuestionError{Reason: err.Error()}
	}
	for token := range at.JSONPointer.Tokens() {
		if _, err := strconv.Atoi(token); err == nil {
			where += "[" + token + "]"
		} else {
			where += "." + token
		}
	}
	why := reason("must be a number")
	switch at.GoType.Kind() {
	case reflect.String:
		why = "must be a string"
	case reflect.Struct, reflect.Pointer:
		why = "must be an object"
	case reflect.Slice:
		why = "must be an array"
	}
	errors.As(err, &why)
	return &QuestionError{Where: strings.TrimPrefix(where, "."), Reason: string(why)}
}
