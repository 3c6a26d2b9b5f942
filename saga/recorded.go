package saga

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// encodeValue returns an effect's input or result, to which v points, as it is
// recorded: its secrets are beside the JSON.
func encodeValue(secrets []secretField, v any) (sagahooks.Value, error) {
	raw, err := jsonv2.Marshal(v, schema.JSONOptions)
	if err != nil {
		return sagahooks.Value{}, err
	}
	return sagahooks.Value{JSON: raw, Secrets: gather(secrets, reflect.ValueOf(v).Elem())}, nil
}

// decodeValue undoes encodeValue. It fails if something was recorded for which the
// type has no place, unless an old revision recorded it: to undo with half of an input
// would be worse than not to undo.
func decodeValue(secrets []secretField, recorded sagahooks.Value, v any, old bool) error {
	options := schema.StrictJSONOptions
	if old {
		options = schema.JSONOptions
	}
	if err := jsonv2.Unmarshal(recorded.JSON, v, options); err != nil {
		return err
	}
	err := scatter(secrets, reflect.ValueOf(v).Elem(), recorded.Secrets)
	if lost := (*lostSecretError)(nil); old && errors.As(err, &lost) {
		return nil
	}
	return err
}

// adopt returns what a test gives in place of an effect's input or result: a value of
// its type, or one that encodes to the same JSON.
func adopt[T any](given any) (v T, err error) {
	switch given := given.(type) {
	case T:
		return given, nil
	case *T:
		if given != nil {
			return *given, nil
		}
	}
	raw, err := jsonv2.Marshal(given, schema.JSONOptions)
	if err != nil {
		return v, err
	}
	return v, jsonv2.Unmarshal(raw, &v, schema.JSONOptions)
}

// shown returns a value as JSON for a test.
func shown(v any) (json.RawMessage, error) {
	return jsonv2.Marshal(v, schema.JSONOptions, withSecrets)
}

// withSecrets encodes secrets so that they can be told from each other, and not read.
var withSecrets = jsonv2.WithMarshalers(jsonv2.JoinMarshalers(
	jsonv2.MarshalFunc(func(s Secret) ([]byte, error) {
		if s.IsZero() {
			return json.Marshal("")
		}
		sum := sha256.Sum256([]byte(s.value))
		return json.Marshal(fmt.Sprintf("[secret %x]", sum[:4]))
	}),
	schema.MarshalNumber,
))
