package schema

import (
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// isPlain reports whether a schema has no keywords but those that [Schema.fits] looks at, as those of most tools.
func isPlain(s *jsonschema.Schema) bool {
	for _, of := range s.Properties {
		if of == nil || !isBare(*of) { // nil is refused as the schema is resolved
			return false
		}
	}
	rest := *s
	rest.Properties, rest.PropertyOrder, rest.Required, rest.AdditionalProperties = nil, nil, nil, nil
	return s.Type == "object" && isBare(rest)
}

// isBare reports whether a schema demands nothing but a type.
func isBare(s jsonschema.Schema) bool {
	s.Type, s.Schema, s.Title, s.Description, s.Default, s.Examples, s.Extra = "", "", "", "", nil, nil, nil
	return reflect.ValueOf(s).IsZero()
}

// fits reports whether an object surely fits a plain schema, in a tenth of the time that the library takes. What it does not
// accept may fit all the same.
func (s *Schema) fits(raw []byte) bool {
	if !s.plain || len(raw) > early || jsontext.Value(raw).Kind() != '{' || !jsonview.Valid(raw) {
		return false
	}
	missing := len(s.written.Required)
	for name, v := range jsonview.Members(raw) {
		of, known := s.written.Properties[string(name)]
		if slices.Contains(s.written.Required, string(name)) {
			missing--
		}
		switch is := writtenType(v); {
		case !known && s.written.AdditionalProperties != nil, is == "object", is == "array":
			return false
		case is == "number" && (len(v) > 15 || strings.Trim(string(v), "0123456789") != ""): // others may be no integers, or too large
			return false
		case known && of.Type != is && of.Type != "" && (is != "number" || of.Type != "integer"):
			return false
		}
	}
	return missing == 0
}
