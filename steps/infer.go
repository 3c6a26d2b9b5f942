package steps

import (
	"reflect"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// inferFields returns the fields of a form whose answer is of type t. Its errors are for
// withID.
func inferFields(t reflect.Type) ([]Field, error) {
	s, err := schema.ForForm(t)
	if err != nil {
		return nil, err
	}
	var fields []Field
	for _, name := range s.PropertyOrder {
		f := fieldOf(name, s.Properties[name])
		f.Required = slices.Contains(s.Required, name)
		if v := s.Properties[name].Default; v != nil {
			if reason := f.setDefault(jsontext.Value(v)); reason != "" {
				return nil, &QuestionError{Where: t.String() + ", field " + strconv.Quote(name), Reason: reason}
			}
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// fieldOf returns the field of a form that a member of [schema.ForForm] describes.
func fieldOf(name string, s *jsonschema.Schema) Field {
	f := Field{
		Name: name, Title: s.Title, Description: s.Description, Format: s.Format,
		MinLength: s.MinLength, MaxLength: s.MaxLength, MinItems: s.MinItems, MaxItems: s.MaxItems, Minimum: s.Minimum, Maximum: s.Maximum,
		LegacyTitles: s.Extra["enumNames"] != nil, notSecret: s.Extra["notsecret"] != nil,
	}
	for _, typ := range append(s.Types, s.Type) {
		if typ != "null" && typ != "" {
			f.Type = typ
		}
	}
	if f.Type == "array" {
		f.Type, f.Multiple = typeString, true
		s.Enum, s.OneOf = s.Items.Enum, s.Items.OneOf
	}
	for i, value := range s.Enum {
		if value, ok := value.(string); ok {
			c := Choice{Value: value}
			if s.OneOf != nil {
				c.Title = s.OneOf[i].Title
			}
			f.Choices = append(f.Choices, c)
		}
	}
	return f
}
