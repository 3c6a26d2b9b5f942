package steps

import (
	"slices"
	"strconv"

	"github.com/mcpsaga/mcpsaga/internal/secretname"
)

// FormOption changes how a [Form] is asked. See [Message], [Choices], [Default],
// [Title] and [Description].
type FormOption interface{ applyForm(*FormSpec) error }

// LinkOption changes how a [Link] is asked. See [Message] and [URL].
type LinkOption interface{ applyLink(*LinkSpec) error }

// MessageOption is an option for forms and links.
type MessageOption string

// Message replaces the message to the user.
func Message(text string) MessageOption { return MessageOption(text) }

func (m MessageOption) applyForm(s *FormSpec) error {
	s.Message = string(m)
	return nil
}

func (m MessageOption) applyLink(s *LinkSpec) error {
	s.Message = string(m)
	return nil
}

type formOption func(*FormSpec) error

func (o formOption) applyForm(s *FormSpec) error { return o(s) }

// Choices replaces the values that the user can choose for a field. The field
// must be a string or a list of strings, and there must be at least one choice.
// A declared default that is no longer among the choices is dropped.
func Choices(field string, choices ...Choice) FormOption {
	return fieldOption(field, "Choices", func(f *Field) string {
		if f.Type != TypeString {
			return "only a string or a list of strings can have choices"
		}
		if len(choices) == 0 {
			return "there must be at least one choice"
		}
		f.Choices = slices.Clone(choices)
		// Choosing leaves nothing for these to limit.
		f.Format, f.MinLength, f.MaxLength = "", nil, nil
		if f.Default != nil && f.check(valueOf(f.Default)) != "" {
			f.Default = nil
		}
		return ""
	})
}

// Default replaces what the form shows at first in a field. value must be valid
// there: a string (or a type made of one), a number of any type, a bool, a list of
// strings or a time.Time. Nil shows nothing.
func Default(field string, value any) FormOption {
	return fieldOption(field, "Default", func(f *Field) string {
		v, ok := defaultOf(value)
		if !ok {
			return "a value of this type cannot be a default"
		}
		f.Default = f.fitDefault(v)
		return ""
	})
}

// Title replaces the name that the user sees for a field.
func Title(field, title string) FormOption {
	return fieldOption(field, "Title", func(f *Field) string {
		f.Title = title
		if secretname.Looks(title) && f.free() && !f.notSecret {
			return secretReason
		}
		return ""
	})
}

// Description replaces the explanation that the user sees for a field.
func Description(field, text string) FormOption {
	return fieldOption(field, "Description", func(f *Field) string {
		f.Description = text
		return ""
	})
}

func fieldOption(field, option string, apply func(*Field) string) FormOption {
	return formOption(func(s *FormSpec) error {
		where := option + "(" + strconv.Quote(field) + ")"
		f := s.find(field)
		if f == nil {
			return &QuestionError{Where: where, Reason: "the form has no such field; it has " + names(s.Fields)}
		}
		if reason := apply(f); reason != "" {
			return &QuestionError{Where: where, Reason: reason}
		}
		return nil
	})
}

func names(fields []Field) string {
	if len(fields) == 0 {
		return "none"
	}
	var out []byte
	for i, f := range fields {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = strconv.AppendQuote(out, f.Name)
	}
	return string(out)
}

// variedForm is a form with options.
type variedForm struct {
	id       string
	verify   func() error
	declared func() *declaredForm
	options  []FormOption
}

// Step is that of the [Variation].
func (v *variedForm) Step() (Step, error) {
	if err := v.verify(); err != nil {
		return Step{}, err
	}
	declared := v.declared().spec
	spec := &FormSpec{Message: declared.Message, Fields: slices.Clone(declared.Fields)}
	for _, o := range v.options {
		if o == nil {
			continue
		}
		if err := o.applyForm(spec); err != nil {
			return Step{}, withID(v.id, err)
		}
	}
	err := spec.verify()
	if err == nil {
		err = spec.open()
	}
	if err != nil {
		return Step{}, withID(v.id, err)
	}
	return Step{ID: v.id, Kind: Elicitation, Params: spec.AppendParams(nil), Needs: FormElicitation, Varied: true}, nil
}
