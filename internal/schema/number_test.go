package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func resolved(t *testing.T, schema string) *Schema {
	t.Helper()
	s, err := Parse(json.RawMessage(schema))
	require.NoError(t, err)
	ready, _, err := Resolve(s, json.RawMessage(schema))
	require.NoError(t, err)
	return ready
}

// Every decimal is a multiple of its last digit, as people count.
func TestDecimalsAreMultiples(t *testing.T) {
	cents := resolved(t, `{"multipleOf":0.01,"maximum":100}`)
	for n := range 10_001 {
		price := fmt.Sprintf("%d.%02d", n/100, n%100)
		assert.NoError(t, cents.Validate(json.RawMessage(price)))
		if n < 10_000 {
			require.EqualError(t, cents.Validate(json.RawMessage(price+"1")), "must be a multiple of 0.01")
		}
	}
	assert.EqualError(t, cents.Validate(json.RawMessage("100.01")), "must be at most 100")
}

// Numbers are compared as they are written, wherever a value always passes, and named as people write them.
func TestNumbersAreComparedAsTheyAreWritten(t *testing.T) {
	s := resolved(t, `{
		"$defs":{"d":{"minimum":3}},
		"properties":{
			"step":{"multipleOf":0.1},"low":{"minimum":-0.1},"high":{"maximum":9007199254740992},"above":{"exclusiveMinimum":0.1},"below":{"exclusiveMaximum":1e21},
			"even":{"type":"integer","multipleOf":2},"none":{"multipleOf":0.5,"type":["null","number"]},
			"list":{"items":{"multipleOf":0.1}},"map":{"additionalProperties":{"multipleOf":0.1}},
			"defined":{"$ref":"#/$defs/d"},"either":{"anyOf":[{"maximum":5},{"type":"string"}]},
			"named":{"patternProperties":{"^a":{"type":"number"}},"additionalProperties":{"maximum":5}},
			"tuple":{"prefixItems":[{"maximum":5}],"items":{"maximum":1}}
		}}`)
	for in, want := range map[string]string{
		`{"step":0.3}`: "", `{"step":-0.7}`: "", `{"step":3e-1}`: "", `{"step":0.30}`: "", `{"step":0.35}`: "/step must be a multiple of 0.1",
		`{"step":0.30000000000000004}`: "/step must be a multiple of 0.1", `{"step":0}`: "", `{"step":"x"}`: "",
		`{"low":-0.1}`: "", `{"low":-0.11}`: "/low must be at least -0.1",
		`{"high":9007199254740992}`: "", `{"high":9007199254740993}`: "/high must be at most 9007199254740992", `{"high":9007199254740992.5}`: "/high must be at most 9007199254740992",
		`{"above":0.1}`: "/above must be more than 0.1", `{"above":0.11}`: "", `{"below":1e21}`: "/below must be less than 1e+21", `{"below":999999999999999999999}`: "",
		`{"even":9007199254740993}`: "/even must be a multiple of 2", `{"even":9007199254740994}`: "", `{"none":null}`: "", `{"none":0.25}`: "/none must be a multiple of 0.5",
		`{"list":[0.3,0.31]}`: "/list/1 must be a multiple of 0.1", `{"map":{"a":0.3,"b":0.31}}`: "/map/b must be a multiple of 0.1",
		`{"defined":2}`: "minimum", `{"defined":3}`: "", `{"either":6}`: "anyOf", `{"either":5}`: "",
		`{"named":{"a":6}}`: "", `{"named":{"b":6}}`: "maximum", `{"tuple":[5,1]}`: "", `{"tuple":[5,2]}`: "maximum", `{"tuple":[6]}`: "maximum",
	} {
		err := s.Validate(json.RawMessage(in))
		switch {
		case want == "":
			assert.NoError(t, err, in)
		case strings.HasPrefix(want, "/"):
			assert.EqualError(t, err, want, in)
		default:
			assert.ErrorContains(t, err, want, in)
		}
	}
	tree := resolved(t, `{"properties":{"n":{"maximum":5},"more":{"$ref":"#"}}}`)
	assert.ErrorContains(t, tree.Validate(json.RawMessage(`{"more":{"more":{"n":6}}}`)), "maximum")
	assert.NoError(t, resolved(t, `{"multipleOf":0}`).Validate(json.RawMessage(`"x"`)))
}

// A number costs what is sent, whatever its exponent.
func TestNumbersOfHostileClients(t *testing.T) {
	s := resolved(t, `{"items":{"multipleOf":0.01,"minimum":0}}`)
	for _, n := range []string{"1e-999999", "1e-99999999999", "0e999999999", "0." + strings.Repeat("0", 300_000) + "1"} {
		began := time.Now()
		assert.NoError(t, s.Validate(json.RawMessage("["+strings.Repeat(n+",", 100)+n+"]")), n[:9])
		assert.Less(t, time.Since(began), 20*time.Second)
	}
	assert.ErrorContains(t, s.Validate(json.RawMessage(`[1.`+strings.Repeat("1", 1000)+`]`)), "must be a multiple of 0.01")
}

// Defaults satisfy such rules, too.
func TestDefaultsAreNumbersThatAreAllowed(t *testing.T) {
	for in, want := range map[string]string{
		`{"properties":{"n":{"default":0.3,"multipleOf":0.1}}}`:                                      "",
		`{"properties":{"n":{"default":0.35,"multipleOf":0.1}}}`:                                     "its default 0.35 is wrong: must be a multiple of 0.1",
		`{"properties":{"n":{"properties":{"m":{"default":6,"maximum":5}}}}}`:                        "its default 6 is wrong: must be at most 5",
		`{"properties":{"n":{"default":{"m":6},"properties":{"m":{"type":"integer","maximum":5}}}}}`: "is wrong: /m must be at most 5",
	} {
		s, err := Parse(json.RawMessage(in))
		require.NoError(t, err)
		_, _, err = Resolve(s, nil)
		if want == "" {
			assert.NoError(t, err, in)
		} else {
			assert.ErrorContains(t, err, want, in)
		}
	}
}

// What a float64 would round is refused.
func TestLimitsThatWouldBeRounded(t *testing.T) {
	for tag, want := range map[reflect.StructTag]string{
		`maximum:"9007199254740993"`:       "9007199254740993 has more digits than can be enforced; the nearest that can is 9007199254740992",
		`multipleOf:"0.10000000000000001"`: "0.10000000000000001 has more digits than can be enforced; the nearest that can is 0.1",
		`maximum:"9007199254740992"`:       "", `minimum:"0.1"`: "", `multipleOf:"0.01"`: "", `minimum:"1e3"`: "", `minimum:"-.5"`: "",
	} {
		err := (&field{&jsonschema.Schema{}, number, inTool}).errorOf(tag)
		if want == "" {
			assert.NoError(t, err, tag)
		} else {
			assert.ErrorContains(t, err, want, tag)
		}
	}
}

// Integers of 64 bits differ where float64 has one value for two, also where the library compares them.
func TestBigIntegersDiffer(t *testing.T) {
	unique := resolved(t, `{"uniqueItems":true,"items":{"maximum":18446744073709551615}}`)
	for in, want := range map[string]string{
		`[9007199254740992,9007199254740993]`: "", `[18446744073709551614,18446744073709551615]`: "", `[-9007199254740993,-9007199254740992]`: "",
		`[9007199254740993,1,9007199254740993]`: "array items 2 and 0 are equal", `[1000000000000000000,1e18]`: "array items 1 and 0 are equal",
	} {
		if err := unique.Validate(json.RawMessage(in)); want == "" {
			assert.NoError(t, err, in)
		} else {
			assert.ErrorContains(t, err, want, in)
		}
	}
	either := resolved(t, `{"anyOf":[{"maximum":9007199254740992,"type":"integer"},{"type":"string"}]}`)
	assert.NoError(t, either.Validate(json.RawMessage(`9007199254740992`)))
	assert.ErrorContains(t, either.Validate(json.RawMessage(`9007199254740993`)), "anyOf")
	for _, s := range []string{`{"enum":[1,9007199254740993]}`, `{"const":9007199254740993}`} { // which the library reads as a float64
		assert.NoError(t, resolved(t, s).Validate(json.RawMessage(`9007199254740993`)), s)
	}
}
