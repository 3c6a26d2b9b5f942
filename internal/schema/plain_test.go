package schema

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type plainArgs struct {
	Name  string  `json:"name" jsonschema:"what it is called"`
	Count int     `json:"count,omitempty"`
	Share float64 `json:"share,omitempty"`
	Dry   bool    `json:"dry,omitempty"`
}

func plainOf(t testing.TB, s *jsonschema.Schema) *Schema {
	ready, _, err := Resolve(s, nil)
	require.NoError(t, err)
	return ready
}

func inferred(t testing.TB) *jsonschema.Schema {
	s, err := jsonschema.ForType(reflect.TypeFor[plainArgs](), &jsonschema.ForOptions{})
	require.NoError(t, err)
	return s
}

func TestPlainSchemaAccepts(t *testing.T) {
	s := plainOf(t, inferred(t))
	require.NotNil(t, s.plain, "what is made from a struct of simple fields")
	for raw, surely := range map[string]bool{
		`{"name":"a"}`: true, ` {"share":-15,"dry":false,"count":-12,"name":""} `: true,
		`{"name":"a","count":1.0}`:   false, // for the library, which accepts it
		`{"name":"a","share":1e3}`:   false,
		`{"name":"a","share":1.5}`:   false,
		`{"name":"a","share":1e999}`: false,
		`{}`:                         false, `{"name":null}`: false, `{"name":1}`: false, `{"name":"a","name":"a"}`: false, `{"name":"a","more":1}`: false,
		`{"name":"a","count":"1"}`: false, `{"name":"a","count":1.5}`: false, `{"name":"a","dry":0}`: false, `{"name":"a","share":[]}`: false,
		`[]`: false, ``: false, `null`: false, `{"name":"a"`: false, "{\"name\":\"\xff\"}": false,
	} {
		assert.Equal(t, surely, s.plain.accepts(json.RawMessage(raw)), raw)
	}
	require.NoError(t, s.Validate(json.RawMessage(`{"name":"a","count":1.0}`)))
}

func TestSchemasWithConditionsAreNotPlain(t *testing.T) {
	one := 1
	for name, change := range map[string]func(*jsonschema.Schema){
		"type":    func(s *jsonschema.Schema) { s.Type = "" },
		"anyOf":   func(s *jsonschema.Schema) { s.AnyOf = []*jsonschema.Schema{{}} },
		"$ref":    func(s *jsonschema.Schema) { s.Ref = "#/$defs/x" },
		"min":     func(s *jsonschema.Schema) { s.MinProperties = &one },
		"pattern": func(s *jsonschema.Schema) { s.PatternProperties = map[string]*jsonschema.Schema{"x": {}} },
		"others":  func(s *jsonschema.Schema) { s.AdditionalProperties = &jsonschema.Schema{Type: "string"} },
		"enum":    func(s *jsonschema.Schema) { s.Properties["name"].Enum = []any{"a"} },
		"length":  func(s *jsonschema.Schema) { s.Properties["name"].MaxLength = &one },
		"object":  func(s *jsonschema.Schema) { s.Properties["name"].Type = "object" },
		"types": func(s *jsonschema.Schema) {
			p := s.Properties["name"]
			p.Type, p.Types = "", []string{"null", "string"}
		},
	} {
		s := inferred(t)
		change(s)
		assert.Nil(t, newPlain(s), name)
	}
	s := inferred(t)
	s.Title, s.Properties["name"].Extra = "notes", map[string]any{"x-mcp-header": "Name"}
	require.NotNil(t, newPlain(s))
	s.AdditionalProperties = nil
	assert.Nil(t, newPlain(s), "others are allowed")
	for _, raw := range []string{`{"name":"a","more":1e999}`, `{"name":"a","more":{"n":[1e999]}}`} {
		require.Error(t, plainOf(t, s).Validate(json.RawMessage(raw)), raw)
	}
	s = inferred(t)
	s.Required = append(s.Required, "other")
	assert.False(t, newPlain(s).accepts(json.RawMessage(`{"name":"a"}`)))
	var none *plain
	assert.False(t, none.accepts(json.RawMessage(`{}`)))
}

// TestEveryKeywordIsACondition: also one that the library learns some day.
func TestEveryKeywordIsACondition(t *testing.T) {
	harmless := []string{
		"Schema", "Comment", "Title", "Description", "Default", "Examples", "Extra", "Deprecated", "ReadOnly", "WriteOnly",
		"Type", "Properties", "PropertyOrder", "Required", "AdditionalProperties", // looked at, in the schema itself
	}
	keywords := 0
	for field := range reflect.TypeFor[jsonschema.Schema]().Fields() {
		if slices.Contains(harmless[:10], field.Name) {
			continue
		}
		change := func(s *jsonschema.Schema) {
			v := reflect.ValueOf(s).Elem().FieldByIndex(field.Index)
			switch v.Kind() {
			case reflect.Pointer:
				v.Set(reflect.New(v.Type().Elem()))
			case reflect.Map:
				v.Set(reflect.MakeMap(v.Type()))
			case reflect.Slice:
				v.Set(reflect.MakeSlice(v.Type(), 0, 0))
			case reflect.String:
				v.SetString("x")
			case reflect.Bool:
				v.SetBool(true)
			default:
				t.Fatalf("%s is a %s", field.Name, v.Kind())
			}
		}
		if !slices.Contains(harmless, field.Name) {
			s := inferred(t)
			change(s)
			assert.Nil(t, newPlain(s), field.Name)
		}
		s := inferred(t)
		change(s.Properties["name"])
		assert.Nil(t, newPlain(s), "%s of a member", field.Name)
		keywords++
	}
	require.Greater(t, keywords, 40)
}

// FuzzPlainSchema compares with the library: what is accepted here fits there.
func FuzzPlainSchema(f *testing.F) {
	s := plainOf(f, inferred(f))
	for _, raw := range []string{`{"name":"a"}`, `{"name":"a","count":1,"share":-0.5e1,"dry":true,"x":{}}`, `{"name":1}`, `{"n\u0061me":"a","name":1}`,
		`{"name":"a","x":1e999}`, `{"name":"a","x":[{"y":1e999}]}`, `{"name":"a","count":-0}`, `{"name":"a","count":99999999999999999999}`, `{"name":"a","share":-0.0}`,
		`{"name":"a","\u0063ount":1}`, `{"name":"a","\u0063ount":"1"}`, `{"name":null}`, "{\"name\":\"a\",\"x\":" + strings.Repeat("9", 99) + "." + strings.Repeat("9", 400) + "}",
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s.plain.accepts(raw) {
			require.NoError(t, (&Schema{resolved: s.resolved}).Validate(raw))
		}
	})
}

// The same mistake gets the same words.
func TestSurplusNamesAreInOrder(t *testing.T) {
	s := plainOf(t, inferred(t))
	for range 50 {
		err := s.Validate(json.RawMessage(`{"name":"","z":1,"b":2,"m\"] [":3,"c":4,"y":5}`))
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
