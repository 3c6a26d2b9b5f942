package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// early is how many bytes JSON has that is first looked at as it is written.
const early = 4 << 10

// misfit finds what a schema plainly refuses in JSON that is not decoded: a value of another type, a member that is unknown, too
// many of them. It returns where that is and what is wrong, or "". Decoded, and shown in the library's complaint, the value
// would take fifty times as much memory.
func misfit(s *jsonschema.Schema, v []byte) (at, wrong string) {
	if s == nil || s.Ref != "" {
		return "", ""
	}
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	if is := writtenType(v); types != nil && !slices.Contains(types, is) && (is != "number" || !slices.Contains(types, "integer")) {
		return "", fmt.Sprintf("has type %q, want %s", is, strings.Join(types, " or "))
	}
	n := 0
	for name, member := range jsonview.Members(v) {
		n++
		of, known := s.Properties[string(name)]
		if !known && s.PatternProperties == nil {
			if of = s.AdditionalProperties; of != nil && of.Not != nil && reflect.DeepEqual(of.Not, new(jsonschema.Schema)) {
				return "", fmt.Sprintf("has unexpected additional properties [%.*q]", maxComplaint/4, name)
			}
		}
		if s.MaxProperties != nil && n > *s.MaxProperties {
			return "", fmt.Sprintf("has more than %d properties", *s.MaxProperties)
		}
		if at, wrong = misfit(of, member); wrong != "" {
			return fmt.Sprintf("/%.*s%s", maxComplaint/4, name, at), wrong
		}
	}
	for element := range jsonview.Elements(v) {
		n++
		if s.MaxItems != nil && n > *s.MaxItems {
			return "", fmt.Sprintf("has more than %d items", *s.MaxItems)
		}
		if s.PrefixItems == nil && s.ItemsArray == nil {
			if at, wrong = misfit(s.Items, element); wrong != "" {
				return fmt.Sprintf("/%d%s", n-1, at), wrong
			}
		}
	}
	return "", ""
}

// writtenType is a value's type. An integer is a number.
func writtenType(v []byte) string {
	switch jsontext.Value(v).Kind() {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '[':
		return "array"
	case '{':
		return "object"
	}
	return "number"
}
