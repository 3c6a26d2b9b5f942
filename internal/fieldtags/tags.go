package fieldtags

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tag is one of the struct tags. Their names are the keywords they become.
type tag struct {
	name  string
	on    Kind
	in    Place
	apply func(k *Keywords, kind Kind, value string) string // returns what is wrong
}

// tags are applied in this order: enum decides what the later ones mean, and a
// default is last.
func tags() []tag {
	const everywhere = Form | Schema
	return []tag{
		{"title", all, everywhere, func(k *Keywords, _ Kind, v string) string { k.Title = v; return "" }},
		{"enum", Text | Choosing | TextList | ChoiceList, everywhere, readEnum},
		{"enumNames", Choosing, Form, func(k *Keywords, _ Kind, v string) string {
			if v != "legacy" {
				return `is "legacy", or left out`
			}
			k.LegacyTitles = true
			return ""
		}},
		{"format", Text | Time, everywhere, readFormat},
		{"pattern", Text, Schema, func(k *Keywords, _ Kind, v string) string {
			if _, err := regexp.Compile(v); err != nil || v == "" {
				return fmt.Sprintf("%q is not a regular expression that package regexp knows", v)
			}
			k.Pattern = v
			return ""
		}},
		{"minLength", Text, everywhere, func(k *Keywords, _ Kind, v string) string { return readCount(&k.MinLength, v) }},
		{"maxLength", Text, everywhere, func(k *Keywords, _ Kind, v string) string { return readCount(&k.MaxLength, v) }},
		{"minimum", numbers, everywhere, func(k *Keywords, kind Kind, v string) string { return k.readLimit(&k.Minimum, kind, v) }},
		{"maximum", numbers, everywhere, func(k *Keywords, kind Kind, v string) string { return k.readLimit(&k.Maximum, kind, v) }},
		{"exclusiveMinimum", numbers, Schema, func(k *Keywords, kind Kind, v string) string { return k.readLimit(&k.ExclusiveMinimum, kind, v) }},
		{"exclusiveMaximum", numbers, Schema, func(k *Keywords, kind Kind, v string) string { return k.readLimit(&k.ExclusiveMaximum, kind, v) }},
		{"multipleOf", numbers, Schema, func(k *Keywords, _ Kind, v string) string {
			x, ok := number(v)
			if !ok || x <= 0 {
				return fmt.Sprintf("%q is not a number greater than 0", v)
			}
			k.MultipleOf = &x
			return ""
		}},
		{"minItems", lists, everywhere, func(k *Keywords, _ Kind, v string) string { return readCount(&k.MinItems, v) }},
		{"maxItems", lists, everywhere, func(k *Keywords, _ Kind, v string) string { return readCount(&k.MaxItems, v) }},
		{"uniqueItems", lists, Schema, func(k *Keywords, _ Kind, v string) string {
			if v != "true" {
				return `is "true", or left out`
			}
			k.UniqueItems = true
			return ""
		}},
		{"header", Text | Choosing | Integer | Bool, Schema, func(k *Keywords, _ Kind, v string) string { k.Header = v; return "" }},
		{"default", all &^ (List | Object | Anything), everywhere, func(k *Keywords, _ Kind, v string) string { k.Default = &v; return "" }},
		{"notsecret", all, everywhere, func(k *Keywords, _ Kind, v string) string {
			if k.NotSecret = strings.TrimSpace(v) != ""; !k.NotSecret {
				return "says why the field is not a secret"
			}
			return ""
		}},
	}
}

// elsewhere are keywords of JSON Schema that authors may expect to be tags.
func elsewhere() []string { return []string{"const", "description", "required"} }

// refused says why a tag is in the wrong place, or "".
func refused(key string, in Place) string {
	switch key {
	case "description":
		return "write the description in the tag jsonschema"
	case "required":
		if in == Schema {
			return "a field is required unless its json tag says omitempty or omitzero or it has a default"
		}
		return "a field is required unless its json tag says omitempty or omitzero or it is a pointer"
	case "const":
		if in == Schema {
			return "an enum with one value says the same"
		}
	case "enumNames":
		if in == Schema {
			return "is for forms; titles of choices are written in the tag enum"
		}
	case "header":
		if in == Form {
			return "is for the arguments of a tool; what a user enters comes in no header"
		}
	}
	elsewhere := func(t tag) bool { return t.name == key && t.in&Form == 0 }
	if in == Form && (key == "const" || slices.ContainsFunc(tags(), elsewhere)) {
		return "MCP does not allow this keyword in forms; check it in the step function and ask again"
	}
	return ""
}

func readEnum(k *Keywords, kind Kind, v string) string {
	if kind == Choosing || kind == ChoiceList {
		return "the type has a method Choices already"
	}
	for item := range strings.SplitSeq(v, "|") {
		value, title, _ := strings.Cut(item, "=")
		if value == "" {
			return "has an empty choice; choices are separated by | and may have titles, as in a=Title of a|b=Title of b"
		}
		for _, c := range k.Choices {
			if c.Value == value {
				return "there are two choices " + strconv.Quote(value)
			}
		}
		k.Choices = append(k.Choices, Choice{value, title})
	}
	return ""
}

func readFormat(k *Keywords, kind Kind, v string) string {
	if kind == Time && v != FormatDateTime {
		return "a time.Time is always a date-time; use a string for " + strconv.Quote(v)
	}
	switch v {
	case FormatEmail, FormatURI, FormatDate, FormatDateTime:
		k.Format = v
		return ""
	}
	return fmt.Sprintf("%q is not a format MCP knows; allowed are email, uri, date and date-time", v)
}

func readCount(n **int, v string) string {
	i, err := strconv.Atoi(v)
	if err != nil || i < 0 {
		return fmt.Sprintf("%q is not a whole number from 0 on", v)
	}
	*n = &i
	return ""
}

// readLimit sets a limit, which cannot exceed what the Go type holds.
func (k *Keywords) readLimit(limit **float64, kind Kind, v string) string {
	x, ok := number(v)
	switch {
	case !ok:
		return fmt.Sprintf("%q is not a number", v)
	case kind == Integer && x != math.Trunc(x):
		return fmt.Sprintf("%q is not a whole number", v)
	case k.Minimum != nil && x < *k.Minimum:
		return fmt.Sprintf("%s is less than %v, the least allowed so far", v, *k.Minimum)
	case k.Maximum != nil && x > *k.Maximum:
		return fmt.Sprintf("%s is more than %v, the most allowed so far", v, *k.Maximum)
	}
	*limit = &x
	return ""
}

func number(v string) (float64, bool) {
	x, err := strconv.ParseFloat(v, 64)
	return x, err == nil && !math.IsInf(x, 0) && !math.IsNaN(x)
}

// Keys returns the names of the tags of a field, and false if a part of the tags is
// not written in the way that package reflect reads.
func Keys(st reflect.StructTag) (keys []string, ok bool) {
	rest := string(st)
	for {
		rest = strings.TrimLeft(rest, " ")
		if rest == "" {
			return keys, true
		}
		key, after, found := strings.Cut(rest, ":")
		if !found || key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7f }) {
			return keys, false
		}
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil || quoted[0] != '"' {
			return keys, false
		}
		keys = append(keys, key)
		rest = after[len(quoted):]
	}
}

// misspelt returns the tag of ours that key was probably meant to be, or "". Tags
// of other packages must not be taken for ours: form is no misspelt format.
func misspelt(key string) string {
	names := append(elsewhere(), "jsonschema")
	for _, t := range tags() {
		names = append(names, t.name)
	}
	if slices.Contains(names, key) {
		return ""
	}
	plain := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
	for edits := range 3 {
		for _, name := range names {
			lower, most := strings.ToLower(name), 0
			switch {
			case len(name) > 6:
				most = 2
			case name != "const" && plain != "" && plain[0] == lower[0]:
				most = 1
			}
			if edits <= most && within(edits, plain, lower) {
				return name
			}
		}
	}
	return ""
}

// within reports whether to add, remove, replace or exchange with its neighbour so many
// letters at most makes b of a.
func within(edits int, a, b string) bool {
	switch {
	case a == "" || b == "":
		return len(a)+len(b) <= edits
	case a[0] == b[0] && within(edits, a[1:], b[1:]):
		return true
	case edits == 0:
		return false
	}
	return within(edits-1, a[1:], b) || within(edits-1, a, b[1:]) || within(edits-1, a[1:], b[1:]) ||
		len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] && within(edits-1, a[2:], b[2:])
}
