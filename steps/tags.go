package steps

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// fieldKind classifies fields by the tags they can have.
type fieldKind uint8

const (
	textField fieldKind = 1 << iota
	timeField
	numberField
	boolField
	choiceField
	listField

	anyField = 1<<iota - 1
)

func (k fieldKind) String() string {
	return map[fieldKind]string{
		textField: "text", timeField: "time.Time", numberField: "a number", boolField: "a boolean",
		choiceField: "a choice", listField: "a list of choices",
	}[k]
}

// tag is one of the struct tags that say more about a form's field. Their names
// are the keywords they become.
type tag struct {
	name  string
	on    fieldKind
	apply func(f *Field, value string) string // returns what is wrong
}

// tags are applied in this order: enum decides what the later ones mean, and a
// default is last.
func tags() []tag {
	return []tag{
		{"title", anyField, func(f *Field, v string) string { f.Title = v; return "" }},
		{"enum", textField | choiceField | listField, tagEnum},
		{"enumNames", choiceField, func(f *Field, v string) string {
			if v != "legacy" {
				return `is "legacy", or left out`
			}
			f.LegacyTitles = true
			return ""
		}},
		{"format", textField | timeField, tagFormat},
		{"minLength", textField, func(f *Field, v string) string { return tagCount(&f.MinLength, v) }},
		{"maxLength", textField, func(f *Field, v string) string { return tagCount(&f.MaxLength, v) }},
		{"minimum", numberField, func(f *Field, v string) string { return tagLimit(f, &f.Minimum, v) }},
		{"maximum", numberField, func(f *Field, v string) string { return tagLimit(f, &f.Maximum, v) }},
		{"minItems", listField, func(f *Field, v string) string { return tagCount(&f.MinItems, v) }},
		{"maxItems", listField, func(f *Field, v string) string { return tagCount(&f.MaxItems, v) }},
		{"default", anyField, tagDefault},
		{"notsecret", anyField, func(f *Field, v string) string {
			if strings.TrimSpace(v) == "" {
				return "says why the field is not a secret"
			}
			f.notSecret = true
			return ""
		}},
	}
}

// refusedTags are keywords of JSON Schema that authors may expect to work.
var refusedTags = []string{
	"pattern", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "const", "uniqueItems", "description", "required",
}

func applyTags(g *goField, f *Field) error {
	for _, name := range refusedTags {
		if _, ok := g.Tag.Lookup(name); !ok {
			continue
		}
		switch name {
		case "description":
			return g.fail(name, "write the description in the tag jsonschema")
		case "required":
			return g.fail(name, "a field is required unless its json tag says omitempty or omitzero or it is a pointer")
		}
		return g.fail(name, "MCP does not allow this keyword in forms; check it in the step function and ask again")
	}
	for _, t := range tags() {
		value, ok := g.Tag.Lookup(t.name)
		if !ok {
			if near := misspelt(g.Tag, t.name); near != "" {
				return g.fail(near, "is written "+t.name)
			}
			continue
		}
		if kind := kindOf(g, f); t.on&kind == 0 {
			return g.fail(t.name, fmt.Sprintf("is not for %s; allowed here: %s", kind, strings.Join(tagsFor(kind), ", ")))
		}
		if reason := t.apply(f, value); reason != "" {
			return g.fail(t.name, reason)
		}
	}
	if !f.notSecret && f.free() && (looksSecret(f.Name) || looksSecret(f.Title)) {
		return g.fail("", secretReason)
	}
	return nil
}

func kindOf(g *goField, f *Field) fieldKind {
	switch {
	case f.Multiple:
		return listField
	case len(f.Choices) > 0:
		return choiceField
	case g.base() == timeType:
		return timeField
	case f.Type == TypeString:
		return textField
	case f.Type == TypeBoolean:
		return boolField
	}
	return numberField
}

func tagsFor(kind fieldKind) []string {
	var names []string
	for _, t := range tags() {
		if t.on&kind != 0 {
			names = append(names, t.name)
		}
	}
	return names
}

// misspelt returns the key in tag that differs from name only in case, or "".
func misspelt(tag reflect.StructTag, name string) string {
	for _, part := range strings.Fields(string(tag)) {
		key, _, ok := strings.Cut(part, ":")
		if ok && key != name && strings.EqualFold(key, name) {
			return key
		}
	}
	return ""
}

func tagEnum(f *Field, v string) string {
	if len(f.Choices) > 0 {
		return "the type has a method Choices already"
	}
	for item := range strings.SplitSeq(v, "|") {
		value, title, _ := strings.Cut(item, "=")
		if value == "" {
			return "has an empty choice; choices are separated by | and may have titles, as in a=Title of a|b=Title of b"
		}
		f.Choices = append(f.Choices, Choice{Value: value, Title: title})
	}
	return ""
}

func tagFormat(f *Field, v string) string {
	if f.Format == FormatDateTime && v != FormatDateTime {
		return "a time.Time is always a date-time; use a string for " + strconv.Quote(v)
	}
	switch v {
	case FormatEmail, FormatURI, FormatDate, FormatDateTime:
		f.Format = v
		return ""
	}
	return fmt.Sprintf("%q is not a format MCP knows; allowed are email, uri, date and date-time", v)
}

func tagCount(n **int, v string) string {
	i, err := strconv.Atoi(v)
	if err != nil || i < 0 {
		return fmt.Sprintf("%q is not a whole number from 0 on", v)
	}
	*n = &i
	return ""
}

// tagLimit sets a limit, which cannot exceed what the Go type holds.
func tagLimit(f *Field, limit **float64, v string) string {
	x, err := strconv.ParseFloat(v, 64)
	switch {
	case err != nil, math.IsInf(x, 0), math.IsNaN(x):
		return fmt.Sprintf("%q is not a number", v)
	case f.Type == TypeInteger && x != math.Trunc(x):
		return fmt.Sprintf("%q is not a whole number", v)
	case f.Minimum != nil && x < *f.Minimum:
		return fmt.Sprintf("%s is less than %v, the least allowed so far", v, *f.Minimum)
	case f.Maximum != nil && x > *f.Maximum:
		return fmt.Sprintf("%s is more than %v, the most allowed so far", v, *f.Maximum)
	}
	*limit = &x
	return ""
}

func tagDefault(f *Field, v string) string {
	var err error
	switch {
	case f.Multiple:
		f.Default = strings.Split(v, "|")
	case f.Type == TypeString:
		f.Default = v
	case f.Type == TypeBoolean:
		f.Default, err = strconv.ParseBool(v)
	case f.Type == TypeInteger:
		f.Default, err = strconv.ParseInt(v, 10, 64)
	default:
		var x float64
		x, err = strconv.ParseFloat(v, 64)
		f.Default = x
	}
	if err != nil {
		return fmt.Sprintf("%q is not of the type %s", v, f.Type)
	}
	return ""
}
