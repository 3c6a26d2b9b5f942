package saga

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// keptOptions encode states and the inputs of effects. Results of effects may have a text that is not UTF-8: an effect that
// has acted must not fail for it, so it is changed as encoding/json does, before any code reads it.
var keptOptions = jsonv2.JoinOptions(schema.JSONOptions, jsontext.AllowInvalidUTF8(false))

// encodeKept encodes a value, to which v points, that comes back in a later turn. It fails if another value would: JSON
// has only texts that are UTF-8, and its numbers in an any come back as float64, which rounds whole ones beyond 2^53.
func encodeKept(v any, options jsonv2.Options) ([]byte, error) {
	raw, err := jsonv2.Marshal(v, options)
	if err != nil {
		if _, other := jsonv2.Marshal(v, schema.JSONOptions); other == nil {
			err = fmt.Errorf("a text that is not UTF-8 would come back as another one: have it as a []byte, or as strings.ToValidUTF8 makes it if it is only shown: %w", err)
		}
	}
	t := reflect.TypeOf(v).Elem()
	if err != nil || !mayRound(t) {
		return raw, err
	}
	back := reflect.New(t).Interface()
	if err := jsonv2.Unmarshal(raw, back, schema.JSONOptions); err != nil {
		return nil, err
	}
	again, err := jsonv2.Marshal(back, schema.JSONOptions)
	if err != nil || !sameJSON(raw, again) {
		return nil, errors.Join(err, errors.New("a whole number beyond 2^53 in a value of type any would come back rounded, as a float64: give it a type such as int64, or have it as a text"))
	}
	return raw, nil
}

func sameJSON(a, b []byte) bool {
	form := func(raw []byte) jsontext.Value {
		v := jsontext.Value(bytes.Clone(raw))
		_ = v.Format(jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawFloats(true)) // it has just been encoded
		return v
	}
	return bytes.Equal(a, b) || bytes.Equal(form(a), form(b))
}

// rounding has what mayRound has found.
var rounding sync.Map // reflect.Type to bool

// mayRound reports whether values of a type may hold some of type any.
func mayRound(t reflect.Type) bool {
	found, ok := rounding.Load(t)
	if !ok {
		found = schema.Holds(t, func(of reflect.Type) bool { return of.Kind() == reflect.Interface })
		rounding.Store(t, found)
	}
	return found.(bool)
}
