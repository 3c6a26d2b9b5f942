package schema

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type code [2]byte

func (c code) MarshalText() ([]byte, error)     { return c[:], nil }
func (c *code) UnmarshalText(text []byte) error { copy(c[:], text); return nil }

// What Go writes of a type fits its schema, and comes back.
func TestTypesWithAJSONOfTheirOwn(t *testing.T) {
	type all struct {
		Bytes  []byte                `json:"bytes" maxLength:"8"`
		Raw    json.RawMessage       `json:"raw"`
		Whole  *big.Int              `json:"whole" minimum:"1"`
		Ratio  *big.Rat              `json:"ratio"`
		Addr   *netip.Addr           `json:"addr,omitempty"`
		Code   code                  `json:"code" default:"zz"`
		Codes  map[string][]code     `json:"codes"`
		ByAddr map[netip.Addr][]byte `json:"byAddr"`
		Few    [2]byte               `json:"few"`
		At     time.Time             `json:"at"`
	}
	s, options, err := ForTool(reflect.TypeFor[all](), nil)
	require.NoError(t, err)
	ready, _, err := Resolve(s, nil)
	require.NoError(t, err)
	addr := netip.MustParseAddr("192.0.2.1")
	for _, v := range []all{
		{},
		{
			Bytes: []byte{1, 2}, Raw: json.RawMessage(`{"a":1}`), Whole: big.NewInt(5), Ratio: big.NewRat(1, 3), Addr: &addr, Code: code{'a', 'b'},
			Codes: map[string][]code{"x": {{'c', 'd'}}}, ByAddr: map[netip.Addr][]byte{addr: {3}}, Few: [2]byte{4, 5}, At: time.Unix(0, 0).UTC(),
		},
	} {
		raw, err := jsonv2.Marshal(v, ResultJSONOptions)
		require.NoError(t, err)
		require.NoError(t, ready.Validate(raw), "%s", raw)
		var back all
		require.NoError(t, Decode(raw, &back, options), "%s", raw)
		again, err := jsonv2.Marshal(back, ResultJSONOptions)
		require.NoError(t, err)
		assert.JSONEq(t, string(raw), string(again))
	}
	const rest = `"raw":[],"whole":1,"ratio":null,"codes":{},"byAddr":{},"few":[0,0],"at":"1970-01-01T00:00:00Z"}`
	var got all
	require.NoError(t, Decode([]byte(`{"bytes":"",`+rest), &got, options))
	assert.Equal(t, code{'z', 'z'}, got.Code)
	assert.Error(t, ready.Validate([]byte(`{"bytes":"AAAAAAAAA",`+rest)))
	assert.Error(t, ready.Validate([]byte(`{"bytes":[1],`+rest)))
}

// The TypeScript SDK 1 refuses a whole list of tools if a property's schema is true.
func TestPropertiesOfAnything(t *testing.T) {
	type anything struct {
		Any  any             `json:"any"`
		Raw  json.RawMessage `json:"raw,omitzero"`
		Said any             `json:"said" jsonschema:"What was said."`
		Name string          `json:"name"`
	}
	s, _, err := ForTool(reflect.TypeFor[anything](), nil)
	require.NoError(t, err)
	ready, shown, err := Resolve(s, nil)
	require.NoError(t, err)
	assert.JSONEq(t, `{"type":"object","properties":{
		"any":{"description":"Any JSON value."},"raw":{"description":"Any JSON value."},"said":{"description":"What was said."},"name":{"type":"string"}
	},"required":["any","said","name"],"additionalProperties":false}`, string(shown))
	require.NoError(t, ready.Validate(json.RawMessage(`{"any":1,"raw":[null],"said":{},"name":"x"}`)))
}
