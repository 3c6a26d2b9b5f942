package steps

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/schema"
)

// Validate checks a value against the field's rules. A value is what encoding/json decodes
// (string, float64, bool, []any), a Go integer or a []string; nil stands for a field that
// was left out. 3.0 is an integer. The error's text is the field's label and the rule that
// the value breaks.
func (f Field) Validate(value any) error {
	if rule := f.check(jsonOf(value)); rule != "" {
		return &checkerr.FieldError{Name: f.Name, Label: f.Label(), Rule: rule}
	}
	return nil
}

// Validate checks what a user entered in all fields. It ignores members that are not in
// the form, as MCP does not forbid them. The error names every broken rule.
func (s *FormSpec) Validate(content map[string]any) error {
	return s.validate("", func(f *Field) jsontext.Value { return jsonOf(content[f.Name]) })
}

// validateJSON is Validate for content that is still JSON: a valid object.
func (s *FormSpec) validateJSON(stepID string, content jsontext.Value) error {
	values := make(map[string]jsontext.Value, len(s.Fields))
	for name, v := range jsonview.Members(content) {
		if f := s.find(string(name)); f != nil {
			values[f.Name] = v
		}
	}
	return s.validate(stepID, func(f *Field) jsontext.Value { return values[f.Name] })
}

func (s *FormSpec) validate(stepID string, value func(*Field) jsontext.Value) error {
	var broken []string
	for i := range s.Fields {
		f := &s.Fields[i]
		if rule := f.check(value(f)); rule != "" {
			broken = append(broken, f.Label()+": "+rule)
		}
	}
	if len(broken) > 0 {
		return &checkerr.InvalidError{StepID: stepID, Reason: strings.Join(broken, "; ")}
	}
	return nil
}

// check returns the first rule that a value breaks, or "". Nil stands for a field that was
// left out.
func (f *Field) check(v jsontext.Value) string {
	switch kind := v.Kind(); {
	case v == nil && f.Required:
		return "is required"
	case v == nil:
	case f.Multiple:
		return f.checkList(v)
	case len(f.Choices) > 0:
		if s, ok := jsonview.String(v); !ok || !offered(f.Choices, s) {
			return "must be one of " + listed(f.Choices)
		}
	case f.Type == typeBoolean:
		if kind != 't' && kind != 'f' {
			return "must be yes or no (true or false)"
		}
	case f.Type == typeNumber, f.Type == typeInteger:
		return f.checkNumber(v)
	default:
		return f.checkString(v)
	}
	return ""
}

func (f *Field) checkString(v jsontext.Value) string {
	s, ok := jsonview.String(v)
	if !ok {
		return "must be text"
	}
	n := utf8.RuneCountInString(s)
	switch least, most := f.MinLength, f.MaxLength; {
	case least != nil && *least == 1 && n == 0:
		return "must not be empty"
	case least != nil && n < *least:
		return "must be at least " + countOf(*least, "character") + " long"
	case most != nil && n > *most:
		return "must be at most " + countOf(*most, "character") + " long"
	}
	return schema.CheckFormat(f.Format, s)
}

func (f *Field) checkNumber(v jsontext.Value) string {
	_, finite := number(v)
	_, whole := jsonview.Int64(v)
	switch {
	case f.Type == typeInteger && !whole:
		return "must be a whole number"
	case !finite:
		return "must be a number"
	case f.Minimum != nil && schema.CompareNumber(string(v), *f.Minimum) < 0:
		return "must be at least " + plainNumber(*f.Minimum)
	case f.Maximum != nil && schema.CompareNumber(string(v), *f.Maximum) > 0:
		return "must be at most " + plainNumber(*f.Maximum)
	}
	return ""
}

func (f *Field) checkList(v jsontext.Value) string {
	list, ok := jsonview.Strings(v)
	if !ok {
		return "must be a list of choices"
	}
	for _, s := range list {
		if !offered(f.Choices, s) {
			return "must be chosen from " + listed(f.Choices)
		}
	}
	switch {
	case f.MinItems != nil && len(list) < *f.MinItems:
		return "needs at least " + countOf(*f.MinItems, "choice")
	case f.MaxItems != nil && len(list) > *f.MaxItems:
		return "takes at most " + countOf(*f.MaxItems, "choice")
	}
	return ""
}

func offered(choices []Choice, s string) bool {
	return slices.ContainsFunc(choices, func(c Choice) bool { return c.Value == s })
}

// maxListed bounds the choices that a message names.
const maxListed = 10

func listed(choices []Choice) string {
	var labels []string
	for _, c := range choices[:min(len(choices), maxListed)] {
		labels = append(labels, strconv.Quote(c.label()))
	}
	if len(choices) > maxListed {
		labels = append(labels, "…")
	}
	return strings.Join(labels, ", ")
}

// plainNumber writes x as people would: without an exponent unless it is very large or
// very small.
func plainNumber(x float64) string { return string(appendJSON(nil, x)) }

func countOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
