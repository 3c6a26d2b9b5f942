package steps

import (
	"cmp"
	"encoding/json"
	"slices"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// formParams are the parameters of elicitation/create in form mode. The mode is left
// out when they are written, which stands for "form" and is understood by clients older
// than the modes.
type formParams struct {
	Mode    *string    `json:"mode,omitzero"`
	Message *string    `json:"message"`
	Schema  formSchema `json:"requestedSchema"`
}

type formSchema struct {
	Type       string         `json:"type"`
	Properties jsontext.Value `json:"properties"` // in the order of the fields
	Required   []string       `json:"required,omitzero"`
}

// property is the JSON Schema of a field, with the keywords that MCP knows. A V is read as
// it stands, as it depends on the type or may be something else in schemas of other
// servers; any value is written.
type property[V any] struct {
	plainField
	Items     V `json:"items,omitzero"`
	Enum      V `json:"enum,omitzero"`
	EnumNames V `json:"enumNames,omitzero"`
	OneOf     V `json:"oneOf,omitzero"`
	Default   V `json:"default,omitzero"`
}

type plainField Field // without its methods

// propertyItems are the choices of a list. Titled ones come without a type.
type propertyItems[V any] struct {
	Type  string `json:"type,omitzero"`
	Enum  V      `json:"enum,omitzero"`
	AnyOf V      `json:"anyOf,omitzero"`
}

type propertyChoice struct {
	Value *string `json:"const"`
	Title string  `json:"title"`
}

// AppendParams appends the parameters of elicitation/create that ask for the
// form to dst: {"message":...,"requestedSchema":...}. The same form always gives
// the same bytes.
func (s *FormSpec) AppendParams(dst []byte) []byte {
	properties := []byte("{")
	var required []string
	for i := range s.Fields {
		f := &s.Fields[i]
		if i > 0 {
			properties = append(properties, ',')
		}
		properties, _ = jsontext.AppendQuote(properties, f.Name)
		properties = appendJSON(append(properties, ':'), propertyOf(f))
		if f.Required {
			required = append(required, f.Name)
		}
	}
	schema := formSchema{Type: "object", Properties: append(properties, '}'), Required: required}
	return appendJSON(dst, &struct { // which, unlike other forms, is not for clients
		formParams
		*others
	}{formParams{Message: &s.Message, Schema: schema}, s.others})
}

func propertyOf(f *Field) *property[any] {
	p := &property[any]{plainField: plainField(*f), Default: f.Default}
	p.Type = cmp.Or(f.Type, typeString)
	var values, labels []string
	var choices []propertyChoice
	titled := false
	for i := range f.Choices {
		c := &f.Choices[i]
		values, labels = append(values, c.Value), append(labels, c.label())
		choices, titled = append(choices, propertyChoice{&c.Value, c.label()}), titled || c.Title != ""
	}
	switch {
	case f.Multiple && titled:
		p.Items = &propertyItems[any]{AnyOf: choices}
	case f.Multiple:
		p.Items = &propertyItems[any]{Type: typeString, Enum: values}
	case len(values) == 0:
	case f.LegacyTitles:
		p.Enum, p.EnumNames = values, labels
	case titled:
		p.OneOf = choices
	default:
		p.Enum = values
	}
	if f.Multiple {
		p.Type = "array"
	}
	return p
}

// Form reads the form that the step asks for, from its Params alone: those of
// elicitation/create in form mode. It accepts every shape that MCP has had for
// fields, old "enumNames" included, and ignores keywords that it does not know. The
// error is a *[QuestionError].
func (s Step) Form() (*FormSpec, error) { return parseForm(s.Params) }

func parseForm(params json.RawMessage) (*FormSpec, error) {
	var p formParams
	if err := readParams(params, &p); err != nil {
		return nil, err
	}
	switch {
	case p.Mode != nil && *p.Mode != "form":
		return nil, &QuestionError{Where: "mode", Reason: `is not "form"`}
	case p.Message == nil:
		return nil, &QuestionError{Where: "message", Reason: "must be a string"}
	case p.Schema.Type != "object":
		return nil, &QuestionError{Where: "requestedSchema.type", Reason: `must be "object"`}
	case p.Schema.Properties.Kind() != '{':
		return nil, &QuestionError{Where: "requestedSchema.properties", Reason: "must be an object"}
	}
	form := &FormSpec{Message: *p.Message}
	// A map, as the form may be a hostile server's, with very many fields.
	at := map[string]int{}
	for name, v := range jsonview.Members(p.Schema.Properties) {
		f, err := parseField(string(name), v)
		if err != nil {
			return nil, err
		}
		at[f.Name] = len(form.Fields)
		form.Fields = append(form.Fields, f)
	}
	for _, name := range p.Schema.Required {
		i, ok := at[name]
		if !ok {
			return nil, &QuestionError{Where: "requestedSchema.required", Reason: "names a field that is not there"}
		}
		form.Fields[i].Required = true
	}
	return form, nil
}

func parseField(name string, schema []byte) (Field, error) {
	where := "requestedSchema.properties." + name
	var p property[jsontext.Value]
	if err := json2.Unmarshal(schema, &p, demands); err != nil {
		return Field{}, misfit(where, err)
	}
	f := Field(p.plainField)
	f.Name = name
	reason := ""
	switch p.Type {
	case typeNumber, typeInteger, typeBoolean:
	case typeString:
		if reason = f.parseChoices(p.Enum, "oneOf", p.OneOf); reason == "" {
			reason = f.parseTitles(p.EnumNames)
		}
	case "array":
		f.Type, f.Multiple = typeString, true
		var items propertyItems[jsontext.Value]
		if p.Items != nil {
			if err := json2.Unmarshal(p.Items, &items, demands); err != nil {
				return f, misfit(where+".items", err)
			}
		}
		switch reason = f.parseChoices(items.Enum, "anyOf", items.AnyOf); {
		case items.Type != "" && items.Type != typeString:
			reason = "items must be strings"
		case reason == "" && len(f.Choices) == 0:
			reason = "items must have an enum or anyOf"
		}
	default:
		reason = "type must be string, number, integer, boolean or array"
	}
	// A default that breaks the field's rules is kept: it is what the server wants shown,
	// and the user can correct it.
	if reason == "" && !absent(p.Default) {
		reason = f.setDefault(p.Default)
	}
	if reason != "" {
		return f, &QuestionError{Where: where, Reason: reason}
	}
	return f, nil
}

// parseChoices reads an enum, or a list of objects with const and title.
func (f *Field) parseChoices(enum jsontext.Value, keyword string, titled jsontext.Value) string {
	if enum != nil {
		values, ok := jsonview.Strings(enum)
		for _, value := range values {
			f.Choices = append(f.Choices, Choice{Value: value})
		}
		if !ok || len(values) == 0 {
			return "enum must be a list of strings"
		}
		return ""
	}
	if titled == nil {
		return ""
	}
	var choices []propertyChoice
	err := json2.Unmarshal(titled, &choices)
	if err != nil || len(choices) == 0 || slices.ContainsFunc(choices, func(c propertyChoice) bool { return c.Value == nil }) {
		return keyword + " must be a list of objects with const and title"
	}
	for _, c := range choices {
		f.Choices = append(f.Choices, Choice{*c.Value, c.Title})
	}
	return ""
}

// parseTitles reads enumNames, the titles of choices in MCP 2025-06-18.
func (f *Field) parseTitles(names jsontext.Value) string {
	if absent(names) {
		return ""
	}
	titles, ok := jsonview.Strings(names)
	if !ok || len(titles) != len(f.Choices) {
		return "enumNames must be as many strings as there are in enum"
	}
	f.LegacyTitles = len(titles) > 0
	for i, title := range titles {
		f.Choices[i].Title = title
	}
	return ""
}
