package schema

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The same mistake gets the same words.
func TestSurplusNamesAreInOrder(t *testing.T) {
	s, err := Parse(json.RawMessage(`{"properties":{"name":{"type":"string"}},"additionalProperties":false}`))
	require.NoError(t, err)
	ready, _, err := Resolve(s, nil)
	require.NoError(t, err)
	for range 50 {
		err := ready.Validate(json.RawMessage(`{"name":"","z":1,"b":2,"m\"] [":3,"c":4,"y":5}`))
		require.ErrorContains(t, err, `unexpected additional properties ["b" "c" "m\"] [" "y" "z"]`)
	}
}

// A null where none belongs is called so.
func TestNullIsCalledNull(t *testing.T) {
	s, err := Parse(json.RawMessage(`{"properties":{"type":{"type":"string"},"enum":{"enum":["a"]},"const":{"const":"a"}}}`))
	require.NoError(t, err)
	ready, _, err := Resolve(s, nil)
	require.NoError(t, err)
	for keyword, want := range map[string]string{
		"type": `type: null has type "null", want "string"`, "enum": "enum: null does not equal any of: [a]", "const": "const: null does not equal a",
	} {
		assert.ErrorContains(t, ready.Validate(json.RawMessage(`{"`+keyword+`":null}`)), want)
	}
}

// A property that is null is refused with the schema.
func TestNullPropertiesAreRefused(t *testing.T) {
	for _, raw := range []string{`{"type":"object","properties":{"a":null}}`, `{"properties":{"a":null}}`} {
		s, err := Parse(json.RawMessage(raw))
		require.NoError(t, err)
		_, _, err = Resolve(s, nil)
		require.ErrorContains(t, err, "schema at /properties/a is nil")
	}
}
