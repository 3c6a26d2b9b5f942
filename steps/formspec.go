package steps

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/secretname"
)

// FormSpec is a form as MCP allows it (page "client/elicitation"): a flat list of fields.
// [Form] makes one of a Go type, [Step.Form] of what is sent. Servers and clients validate
// what the user enters with the same code.
type FormSpec struct {
	// Message says to the user what is asked and why.
	Message string
	// Fields are the form's fields, in the order to show them in.
	Fields []Field

	others *others // who answers it, if not the user; it is of what this module makes alone
}

// The types of fields.
const (
	typeString  = "string"
	typeNumber  = "number"
	typeInteger = "integer"
	typeBoolean = "boolean"
)

// Field is one field of a form. Limits that are nil do not apply.
type Field struct {
	// Name is the field's key in the content. It is unique within the form.
	Name string `json:"-"`
	// Type is the JSON type of the value, or of one value if Multiple is set:
	// "string", "number", "integer" or "boolean". Empty stands for "string".
	Type string `json:"type"`
	// Title is the field's name for the user, or empty.
	Title string `json:"title,omitzero"`
	// Description explains the field to the user, or is empty.
	Description string `json:"description,omitzero"`
	// Required reports that the user cannot leave the field out.
	Required bool `json:"-"`

	// MinLength bounds the length of a string, in characters (Unicode code points).
	MinLength *int `json:"minLength,omitzero"`
	// MaxLength bounds it as well.
	MaxLength *int `json:"maxLength,omitzero"`
	// Format is the format of a string, or empty: "email", a bare address (RFC 5322
	// addr-spec); "uri", an absolute URI (RFC 3986); "date" and "date-time" (RFC
	// 3339). Others are kept and not checked.
	Format string `json:"format,omitzero"`

	// Minimum is the least number or integer that is allowed.
	Minimum *float64 `json:"minimum,omitzero"`
	// Maximum is the greatest.
	Maximum *float64 `json:"maximum,omitzero"`

	// Choices are the strings to choose from. If there are none the user enters
	// any string.
	Choices []Choice `json:"-"`
	// LegacyTitles writes the choices' titles as "enumNames", the form of MCP
	// 2025-06-18 that newer revisions keep for old clients. It is not available
	// with Multiple.
	LegacyTitles bool `json:"-"`
	// Multiple lets the user choose several: the value is a list of strings.
	Multiple bool `json:"-"`
	// MinItems is the least number of choices made.
	MinItems *int `json:"minItems,omitzero"`
	// MaxItems is the greatest.
	MaxItems *int `json:"maxItems,omitzero"`

	// Default is what the form shows at first: a string, float64 (number), int64
	// (integer), bool or []string (Multiple), or nil for nothing.
	Default any `json:"-"`

	notSecret bool // the author says that the field is no secret, whatever its name
}

// Choice is one of the values a user can choose.
type Choice struct {
	// Value is what the content holds.
	Value string
	// Title is what the user sees. If it is empty the user sees Value.
	Title string
}

func (c Choice) label() string { return cmp.Or(c.Title, c.Value) }

// Chooser is for string types with a closed set of values. A field of such a type, or of
// a list of it, has these choices.
type Chooser interface {
	// Choices returns the values. It is called on the type's zero value, and must always
	// return the same.
	Choices() []Choice
}

// Label returns what the user knows the field by: its title, or else its name.
func (f Field) Label() string { return cmp.Or(f.Title, f.Name) }

// Field returns the field called name, and false if there is none.
func (s *FormSpec) Field(name string) (Field, bool) {
	if f := s.find(name); f != nil {
		return *f, true
	}
	return Field{}, false
}

// find returns the field called name, or nil. Forms are short: a loop beats a map.
func (s *FormSpec) find(name string) *Field {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return &s.Fields[i]
		}
	}
	return nil
}

// verify reports all that MCP does not allow in the form, apart from what lacks reports.
func (s *FormSpec) verify() error {
	if s.Message == "" {
		return &QuestionError{Reason: "has no Message"}
	}
	var problems []error
	if s.others != nil {
		problems = append(problems, s.others.verify())
	}
	for i := range s.Fields {
		f := &s.Fields[i]
		if reason := f.verify(); reason != "" {
			problems = append(problems, &QuestionError{Where: "field " + strconv.Quote(f.Name), Reason: reason})
		}
	}
	return errors.Join(problems...)
}

// lacks reports a field that still needs choices, and that no one may answer.
func (s *FormSpec) lacks() error {
	if s.others != nil && len(s.others.By) == 0 {
		return &QuestionError{Reason: "has a Within, and no one who may answer: name them in By, or ask With(steps.By{...})"}
	}
	for i := range s.Fields {
		if f := &s.Fields[i]; f.Multiple && len(f.Choices) == 0 {
			return &QuestionError{Where: "field " + strconv.Quote(f.Name),
				Reason: "MCP allows a list only of choices: give it an enum tag, or ask With(steps.Choices(...))"}
		}
	}
	return nil
}

// verify says what MCP does not allow in the field, or what contradicts itself there, or "".
func (f *Field) verify() string {
	if len(f.Choices) > 0 && f.MinItems != nil && *f.MinItems > len(f.Choices) {
		return fmt.Sprintf("minItems %d is more than there are choices", *f.MinItems)
	}
	for i, c := range f.Choices {
		if offered(f.Choices[:i], c.Value) {
			return "there are two choices " + strconv.Quote(c.Value)
		}
	}
	if f.Default != nil && f.Multiple && len(f.Choices) == 0 {
		return "has a default but no choices"
	}
	if f.Default != nil {
		if rule := f.check(jsonOf(f.Default)); rule != "" {
			return fmt.Sprintf("the default %v is not valid: it %s", f.Default, rule)
		}
	}
	// What a user chooses is no secret, whatever its name.
	free := len(f.Choices) == 0 && !f.Multiple && f.Type != typeBoolean
	if free && !f.notSecret && (secretname.Looks(f.Name) || secretname.Looks(f.Title)) {
		return "looks like a secret, and MCP forbids to ask for secrets in a form: use a steps.Link " +
			`(URL mode), or say why it is none in the tag notsecret:"..."`
	}
	return ""
}

// setDefault sets what the form shows at first, and says what is wrong if it is not of
// the field's type.
func (f *Field) setDefault(v jsontext.Value) string {
	ok := false
	switch {
	case f.Multiple:
		f.Default, ok = jsonview.Strings(v)
	case f.Type == typeBoolean:
		f.Default, ok = v.Kind() == 't', v.Kind() == 't' || v.Kind() == 'f'
	case f.Type == typeInteger:
		f.Default, ok = jsonview.Int64(v)
	case f.Type == typeNumber:
		f.Default, ok = number(v)
	default:
		f.Default, ok = jsonview.String(v)
	}
	if !ok {
		return fmt.Sprintf("the default %s is not valid: it %s", v, f.check(v))
	}
	return ""
}
