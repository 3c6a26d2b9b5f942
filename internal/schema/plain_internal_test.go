package schema

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
)

// A property that is null, or nil, is refused with the schema.
func TestNilPropertiesAreRefused(t *testing.T) {
	for _, raw := range []string{`{"type":"object","properties":{"a":null}}`, `{"properties":{"a":null}}`} {
		s, err := Parse(json.RawMessage(raw))
		require.NoError(t, err)
		_, _, err = Resolve(s, nil)
		require.ErrorContains(t, err, "schema at /properties/a is nil")
	}
}

// TestFitsOnlyWhatTheLibraryAccepts takes each schema with each value, and compares.
func TestFitsOnlyWhatTheLibraryAccepts(t *testing.T) {
	members := []string{
		`{"type":"string","description":"it"}`, `{"type":"boolean"}`, `{"type":"integer"}`, `{"type":"number"}`, `{"type":"null"}`, `{"type":"object"}`,
		`{}`, `true`, `false`, `{"type":"string","minLength":9}`, `{"enum":["x"]}`, `{"type":["string","null"]}`, `{"$ref":"#"}`, `{"type":"integer","maximum":1}`,
		`{"type":"object","properties":{"b":{"type":"string"}}}`, `{"type":"string","format":"date"}`, `{"not":{}}`,
	}
	outer := []string{
		`{"type":"object","properties":{"a":M}}`, `{"type":"object","properties":{"a":M},"required":["a"],"additionalProperties":false}`,
		`{"type":"object","properties":{"a":M},"required":["b"]}`, `{"properties":{"a":M}}`, `{"type":"string","properties":{"a":M}}`,
		`{"type":"object","properties":{"a":M},"additionalProperties":{"type":"boolean"}}`, `{"type":"object","properties":{"a":M},"maxProperties":0}`,
		`{"type":"object","properties":{"a":M},"required":["a","a"]}`, `{"type":"object","anyOf":[{"properties":{"a":M}}]}`,
	}
	values := []string{
		`{}`, `{"a":"x"}`, `{"\u0061":1}`, `{"a":true}`, `{"a":null}`, `{"a":1}`, `{"a":-1}`, `{"a":1.0}`, `{"a":1e3}`, `{"a":1e999}`, `{"a":0.5}`, `{"a":{"b":1}}`,
		`{"a":[]}`, `{"b":1}`, `{"b":1e999}`, `{"b":true}`, `{"a":1,"b":"x"}`, `{"a":1,"a":1}`, `{"A":1}`, "{\"a\":\"\xff\"}", `{"a":01}`, `[]`, `"x"`, `{`, ``, `{"a":99999999999999999999}`,
	}
	fit := 0
	for _, with := range outer {
		for _, member := range members {
			var s jsonschema.Schema
			raw := []byte(strings.Replace(with, "M", member, 1))
			require.NoError(t, json.Unmarshal(raw, &s))
			ready, _, err := Resolve(&s, nil)
			require.NoError(t, err, "%s", raw)
			for _, v := range values {
				if !ready.fits([]byte(v)) {
					continue
				}
				fit++
				ready.plain = false
				require.NoError(t, ready.Validate([]byte(v)), "%s with %s", raw, v)
				ready.plain = true
			}
		}
	}
	require.Greater(t, fit, 100)
}
