package schema

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// DecodeAgain decodes JSON that fits a schema although it could not be decoded with the options, because of
// err: to JSON Schema 1.0 and 1e3 are integers, which encoding/json refuses to decode into Go's. Its error
// is for the caller.
func DecodeAgain(raw []byte, into any, options jsonv2.Options, err error) error {
	if wrong := (*jsonv1.UnmarshalTypeError)(nil); errors.As(err, &wrong) && isInteger(wrong.Type) && strings.HasPrefix(wrong.Value, "number") {
		others, _ := jsonv2.GetOption(options, jsonv2.WithUnmarshalers)
		reflect.ValueOf(into).Elem().SetZero()
		err = jsonv2.Unmarshal(raw, into, options, jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(jsonv2.UnmarshalFromFunc(readInteger), others)))
	}
	// A number may still be too large for its Go type, and a schema of the author's may allow what the
	// type does not.
	if wrong := (*jsonv1.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%s: %s is not of the type %s", wrong.Field, wrong.Value, wrong.Type)
	}
	return err
}

// readInteger reads a number into an integer of any type, however it is written.
func readInteger(d *jsontext.Decoder, into any) error {
	v := reflect.ValueOf(into).Elem()
	if !isInteger(v.Type()) || d.PeekKind() != '0' || isName(d.StackIndex(d.StackDepth())) {
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
	if digits, ok := integer(string(number)); ok && jsonv2.Unmarshal([]byte(digits), into, JSONOptions) == nil {
		return nil
	}
	names := slices.Collect(d.StackPointer().Tokens())
	return &jsonv1.UnmarshalTypeError{Value: "number " + string(number), Type: v.Type(), Field: strings.Join(names, ".")}
}

func isInteger(t reflect.Type) bool {
	return t != nil && t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr
}

// mostDigits has the largest integer of Go.
const mostDigits = 20

// integer returns a number of JSON as digits, if it is an integer that Go may have. It does not
// round: a float64 cannot tell large integers apart.
func integer(number string) (digits string, ok bool) {
	number, negative := strings.CutPrefix(number, "-")
	at := strings.IndexAny(number, "eE")
	exponent := 0
	if at >= 0 {
		var err error
		if exponent, err = strconv.Atoi(number[at+1:]); err != nil {
			return "", false
		}
		number = number[:at]
	}
	whole, fraction, _ := strings.Cut(number, ".")
	fraction = strings.TrimRight(fraction, "0")
	digits = strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0", true
	}
	// The number is digits times ten to the power of zeros.
	trimmed := strings.TrimRight(digits, "0")
	zeros := exponent - len(fraction) + len(digits) - len(trimmed)
	if zeros < 0 || zeros > mostDigits || len(trimmed)+zeros > mostDigits {
		return "", false
	}
	digits = trimmed + strings.Repeat("0", zeros)
	if negative {
		digits = "-" + digits
	}
	return digits, true
}
