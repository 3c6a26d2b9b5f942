package steps

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// formParams are the parameters of elicitation/create in form mode. The mode is left
// out, which stands for "form" and is understood by clients older than the modes.
type formParams struct {
	Message string     `json:"message"`
	Schema  formSchema `json:"requestedSchema"`
}

type formSchema struct {
	Type       string     `json:"type"`
	Properties properties `json:"properties"`
	Required   []string   `json:"required,omitzero"`
}

// properties are written as an object whose members are in the order of the fields.
type properties []Field

func (p properties) MarshalJSONTo(enc *jsontext.Encoder) error {
	err := enc.WriteToken(jsontext.BeginObject)
	for i := 0; err == nil && i < len(p); i++ {
		if err = enc.WriteToken(jsontext.String(p[i].Name)); err == nil {
			err = json.MarshalEncode(enc, propertyOf(&p[i]))
		}
	}
	if err != nil {
		return err
	}
	return enc.WriteToken(jsontext.EndObject)
}

// property is the JSON Schema of a field, with the keywords that MCP knows.
type property struct {
	Type        string           `json:"type"`
	Title       string           `json:"title,omitzero"`
	Description string           `json:"description,omitzero"`
	MinLength   *int             `json:"minLength,omitzero"`
	MaxLength   *int             `json:"maxLength,omitzero"`
	Format      string           `json:"format,omitzero"`
	Minimum     *float64         `json:"minimum,omitzero"`
	Maximum     *float64         `json:"maximum,omitzero"`
	MinItems    *int             `json:"minItems,omitzero"`
	MaxItems    *int             `json:"maxItems,omitzero"`
	Items       *propertyItems   `json:"items,omitzero"`
	Enum        []string         `json:"enum,omitzero"`
	EnumNames   []string         `json:"enumNames,omitzero"`
	OneOf       []propertyChoice `json:"oneOf,omitzero"`
	Default     any              `json:"default,omitzero"`
}

type propertyItems struct {
	Type  string           `json:"type,omitzero"`
	Enum  []string         `json:"enum,omitzero"`
	AnyOf []propertyChoice `json:"anyOf,omitzero"`
}

type propertyChoice struct {
	Value string `json:"const"`
	Title string `json:"title"`
}

func propertyOf(f *Field) *property {
	p := &property{
		Type: f.Type, Title: f.Title, Description: f.Description,
		MinLength: f.MinLength, MaxLength: f.MaxLength, Format: f.Format,
		Minimum: f.Minimum, Maximum: f.Maximum, Default: f.Default,
	}
	var values, labels []string
	var titled []propertyChoice // nil if no choice has a title
	for _, c := range f.Choices {
		values, labels = append(values, c.Value), append(labels, c.label())
	}
	if slices.ContainsFunc(f.Choices, func(c Choice) bool { return c.Title != "" }) {
		for i := range values {
			titled = append(titled, propertyChoice{values[i], labels[i]})
		}
	}
	switch {
	case f.Multiple:
		p.Type, p.MinItems, p.MaxItems = "array", f.MinItems, f.MaxItems
		p.Items = &propertyItems{AnyOf: titled}
		if titled == nil {
			p.Items.Type, p.Items.Enum = "string", values
		}
		return p
	case f.Type == "":
		p.Type = typeString
	}
	switch {
	case len(values) == 0:
	case f.LegacyTitles:
		p.Enum, p.EnumNames = values, labels
	case titled != nil:
		p.OneOf = titled
	default:
		p.Enum = values
	}
	return p
}

// AppendParams appends the parameters of elicitation/create that ask for the
// form to dst: {"message":...,"requestedSchema":...}. The same form always gives
// the same bytes.
func (s *FormSpec) AppendParams(dst []byte) []byte {
	schema := formSchema{Type: "object", Properties: s.Fields}
	for i := range s.Fields {
		if s.Fields[i].Required {
			schema.Required = append(schema.Required, s.Fields[i].Name)
		}
	}
	return appendJSON(dst, &formParams{s.Message, schema})
}

// lossy writes bytes that are not UTF-8 as U+FFFD.
var lossy = json.JoinOptions(jsontext.AllowInvalidUTF8(true))

// appendJSON writes what cannot fail: strings, numbers, and JSON that was checked.
func appendJSON(dst []byte, v any) []byte {
	raw, _ := json.Marshal(v, lossy)
	return append(dst, raw...)
}
