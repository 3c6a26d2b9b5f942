package steps

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// FormOption changes how a [Form] is asked. See [Message], [Choices], [Default],
// [Title] and [Description].
type FormOption interface{ applyForm(*FormSpec) error }

// Message replaces the message to the user: a [FormOption] and a [LinkOption].
type Message string

func (m Message) applyForm(s *FormSpec) error {
	s.Message = string(m)
	return nil
}

func (m Message) applyLink(l *Link) { l.Message = string(m) }

type formOption func(*FormSpec) error

func (o formOption) applyForm(s *FormSpec) error { return o(s) }

// Choices replaces the values that the user can choose for a field, which must be a string
// or a list of strings. There must be at least one. A default that is no longer among them
// is dropped.
func Choices(field string, choices ...Choice) FormOption {
	return fieldOption(field, "Choices", func(f *Field) string {
		if f.Type != typeString {
			return "only a string or a list of strings can have choices"
		}
		if len(choices) == 0 {
			return "there must be at least one choice"
		}
		f.Choices = slices.Clone(choices)
		// Choosing leaves nothing for these to limit.
		f.Format, f.MinLength, f.MaxLength = "", nil, nil
		if f.Default != nil && f.check(jsonOf(f.Default)) != "" {
			f.Default = nil
		}
		return ""
	})
}

// Default replaces what the form shows at first in a field: a string (or a type made of
// one), a number of any type, a bool, a list of strings, a time.Time, or nil for nothing.
func Default(field string, value any) FormOption {
	return fieldOption(field, "Default", func(f *Field) string {
		if value == nil {
			f.Default = nil
			return ""
		}
		return f.setDefault(jsonOf(value))
	})
}

// Title replaces the name that the user sees for a field.
func Title(field, title string) FormOption {
	return fieldOption(field, "Title", func(f *Field) string {
		f.Title = title
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
	var names []string
	for _, f := range fields {
		names = append(names, strconv.Quote(f.Name))
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}
