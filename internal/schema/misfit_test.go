package schema_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/schema"
)

type hidden[T any] struct{ N T }

// A field that JSON cannot set is refused with the type, and not in each call.
func TestHiddenPointersAreRefused(t *testing.T) {
	_, _, err := schema.ForTool(reflect.TypeFor[struct{ *hidden[int] }](), nil)
	require.ErrorContains(t, err, "embed the struct itself")
	_, _, err = schema.ForTool(reflect.TypeFor[struct{ hidden[int] }](), nil)
	require.NoError(t, err)
}

// What a schema plainly refuses is refused before it is decoded, which takes fifty times its memory, or shown.
func TestMisfitsAreNotDecoded(t *testing.T) {
	type arguments struct {
		Text  string            `json:"text,omitempty"`
		List  []string          `json:"list,omitempty"`
		Few   []any             `json:"few,omitempty" maxItems:"3"`
		Map   map[string]string `json:"map,omitempty"`
		Count int               `json:"count,omitempty"`
	}
	s, _, err := schema.ForTool(reflect.TypeFor[arguments](), nil)
	require.NoError(t, err)
	ready, _, err := schema.Resolve(s, nil)
	require.NoError(t, err)
	var names strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&names, `"%x":0,`, i)
	}
	numbers, objects := "["+strings.Repeat("0,", 200_000)+"0]", `{`+names.String()+`"z":0}`
	for raw, wrong := range map[string]string{
		`{"text":` + numbers + `}`:            `/text has type "array", want string`,
		`{"text":` + objects + `}`:            `/text has type "object", want string`,
		`{"list":` + numbers + `}`:            `/list/0 has type "number", want string`,
		`{"few":` + numbers + `}`:             `/few has more than 3 items`,
		`{"map":` + objects + `}`:             `/map/0 has type "number", want string`,
		objects:                               `root has unexpected additional properties ["0"]`,
		numbers:                               `root has type "array", want object`,
		`{"count":"","x":` + objects + `}`:    `/count has type "string", want integer`,
		`{"list":["a",` + numbers[1:] + `}`:   `/list/1 has type "number", want string`,
		`{"text":null,"x":` + objects + `}`:   `/text has type "null", want string`,
		`{"text":true,"few":` + objects + `}`: `/text has type "boolean", want string`,
	} {
		least := testing.AllocsPerRun(3, func() { err = ready.Validate(json.RawMessage(raw)) })
		assert.EqualError(t, err, wrong)
		assert.Less(t, least, 100.0, wrong)
	}
	assert.NoError(t, ready.Validate(json.RawMessage(`{"list":["`+strings.Repeat("x", 10_000)+`"],"map":{"a":"b"},"count":3,"few":[1,null,{}]}`)))
}
