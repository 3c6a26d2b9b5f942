package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// kind classifies fields by the tags that they can have.
type kind uint16

const (
	text kind = 1 << iota
	instant
	number
	wholeNumber
	boolean
	choosing // one of the choices that the type has, or that the tag enum gives it
	textList
	choiceList
	list   // of anything else
	object // a struct or a map
	anything

	numbers  = number | wholeNumber
	lists    = textList | choiceList | list
	allKinds = 1<<iota - 1
)

// String returns what messages call the kind.
func (k kind) String() string {
	return map[kind]string{
		text: "text", instant: "time.Time", number: "a number", wholeNumber: "a number", boolean: "a boolean",
		choosing: "a choice", textList: "a list of text", choiceList: "a list of choices", list: "a list of something else than strings",
		object: "an object", anything: "a field that can hold anything",
	}[k]
}

// kindOf classifies a field by its type and by the schema of its type.
func kindOf(t reflect.Type, s *jsonschema.Schema) kind {
	t = base(t)
	switch typ := typeOf(s); {
	case t == timeType:
		return instant
	case typ == "string" && s.Enum != nil:
		return choosing
	case typ == "array" && t.Elem().Kind() == reflect.String && t.Elem() != numberType:
		if s.Items.Enum != nil {
			return choiceList
		}
		return textList
	default:
		kinds := map[string]kind{"string": text, "integer": wholeNumber, "number": number, "boolean": boolean, "array": list, "object": object}
		return cmp.Or(kinds[typ], anything)
	}
}

// typeOf returns the one type of a schema besides null, or "".
func typeOf(s *jsonschema.Schema) string {
	types := slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" })
	if s.Type == "" && len(types) == 1 {
		return types[0]
	}
	return s.Type
}

// place is where a schema is used. MCP allows fewer keywords in forms than elsewhere.
type place uint8

const (
	inForm     place = 1 << iota // what is asked of a user
	inTool                       // arguments and results
	everywhere = inForm | inTool
)

// field is a field of a struct whose tags are read into the schema of its type.
type field struct {
	*jsonschema.Schema
	kind  kind
	place place
}

// tag is one of the struct tags. It has the name of the keyword that it becomes.
type tag struct {
	name string
	on   kind
	in   place
	set  func(f *field, value string) (wrong string)
}

// tags are read in this order: enum decides what the later ones mean, and a default
// must satisfy all others.
var tags = []tag{
	{"title", allKinds, everywhere, func(f *field, v string) string { f.Title = v; return "" }},
	{"enum", text | choosing | textList | choiceList, everywhere, (*field).setEnum},
	{"enumNames", choosing, inForm, func(f *field, v string) string { f.note("enumNames", true); return only("legacy", v) }},
	{"format", text | instant, everywhere, (*field).setFormat},
	{"pattern", text, inTool, (*field).setPattern},
	{"minLength", text, everywhere, func(f *field, v string) string { return setCount(&f.MinLength, v, nil) }},
	{"maxLength", text, everywhere, func(f *field, v string) string { return setCount(&f.MaxLength, v, f.MinLength) }},
	{"minimum", numbers, everywhere, func(f *field, v string) string { return f.setLimit(&f.Minimum, v) }},
	{"maximum", numbers, everywhere, func(f *field, v string) string { return f.setLimit(&f.Maximum, v) }},
	{"exclusiveMinimum", numbers, inTool, func(f *field, v string) string { return f.setLimit(&f.ExclusiveMinimum, v) }},
	{"exclusiveMaximum", numbers, inTool, func(f *field, v string) string { return f.setLimit(&f.ExclusiveMaximum, v) }},
	{"multipleOf", numbers, inTool, (*field).setMultipleOf},
	{"minItems", lists, everywhere, func(f *field, v string) string { return f.setItems(&f.MinItems, v, nil) }},
	{"maxItems", lists, everywhere, func(f *field, v string) string { return f.setItems(&f.MaxItems, v, f.MinItems) }},
	{"uniqueItems", lists, inTool, func(f *field, v string) string { f.UniqueItems = true; return only("true", v) }},
	{"header", text | choosing | wholeNumber | boolean, inTool, func(f *field, v string) string { f.note(headerKeyword, v); return "" }},
	{"default", allKinds &^ (list | object | anything), everywhere, (*field).setDefault},
	{"notsecret", allKinds, everywhere, (*field).setNotSecret},
}

// read puts what the tags of a field say into its schema, which has the limits of the
// field's type: tags can only narrow them. What a tag cannot mean is refused, as a rule
// that its author believes in and that nothing enforces is worse than none. read returns
// which tag is wrong, or "" if it is all of them, and why.
func (f *field) read(st reflect.StructTag) (tag, reason string) {
	written, ok := keys(st)
	if !ok {
		return "", fmt.Sprintf("its tags `%s` are not written as Go wants them, so some are not seen; write them as name:\"value\", separated by a space", st)
	}
	for i, key := range written {
		if slices.Contains(written[:i], key) {
			return key, "is there twice, and only the first is seen"
		}
		if name := misspelt(key); name != "" {
			return key, cmp.Or(misplaced(name, f.place), "is written "+name)
		}
		if reason := misplaced(key, f.place); reason != "" {
			return key, reason
		}
	}
	for _, t := range tags {
		value, ok := st.Lookup(t.name)
		if !ok {
			continue
		}
		if t.on&f.kind == 0 {
			return t.name, fmt.Sprintf("is not for %s; allowed here: %s", f.kind, f.allowed())
		}
		if wrong := t.set(f, value); wrong != "" {
			return t.name, wrong
		}
	}
	return "", ""
}

func (f *field) allowed() string {
	var names []string
	for _, t := range tags {
		if t.on&f.kind != 0 && t.in&f.place != 0 {
			names = append(names, t.name)
		}
	}
	return strings.Join(names, ", ")
}

// hasTags reports whether a field has one of the tags of this package.
func hasTags(st reflect.StructTag) bool {
	written, _ := keys(st)
	return slices.ContainsFunc(tags, func(t tag) bool { return slices.Contains(written, t.name) })
}

// misplaced says why a tag cannot be used in a place, whatever the field, or "".
func misplaced(key string, in place) string {
	const optional = "a field is required unless its json tag says omitempty or omitzero or "
	switch {
	case key == "description":
		return "write the description in the tag jsonschema"
	case key == "required" && in == inTool:
		return optional + "it has a default"
	case key == "required":
		return optional + "it is a pointer"
	case key == "const" && in == inTool:
		return "an enum with one value says the same"
	case key == "enumNames" && in == inTool:
		return "is for forms; titles of choices are written in the tag enum"
	case key == "header" && in == inForm:
		return "is for the arguments of a tool; what a user enters comes in no header"
	case key == "const", in == inForm && slices.ContainsFunc(tags, func(t tag) bool { return t.name == key && t.in == inTool }):
		return "MCP does not allow this keyword in forms; check it in the step function and ask again"
	}
	return ""
}

// note keeps what is no keyword of JSON Schema.
func (f *field) note(name string, value any) {
	if f.Extra == nil {
		f.Extra = map[string]any{}
	}
	f.Extra[name] = value
}

// choice is one of the values of a field that has a closed set of them: a steps.Choice.
type choice struct{ Value, Title string }

func (f *field) setEnum(v string) string {
	if f.kind == choosing || f.kind == choiceList {
		return "the type has a method Choices already"
	}
	var choices []choice
	for item := range strings.SplitSeq(v, "|") {
		value, title, _ := strings.Cut(item, "=")
		if value == "" {
			return "has an empty choice; choices are separated by | and may have titles, as in a=Title of a|b=Title of b"
		}
		if slices.ContainsFunc(choices, func(c choice) bool { return c.Value == value }) {
			return "there are two choices " + strconv.Quote(value)
		}
		choices = append(choices, choice{value, title})
	}
	if f.kind == textList {
		f.kind = choiceList
		choose(f.Items, choices)
	} else {
		f.kind = choosing
		choose(f.Schema, choices)
	}
	return ""
}

// choose allows only the choices. The enum is what every client understands and what
// errors name; the titles are written as in forms.
func choose(s *jsonschema.Schema, choices []choice) {
	titled := slices.ContainsFunc(choices, func(c choice) bool { return c.Title != "" })
	for _, c := range choices {
		s.Enum = append(s.Enum, c.Value)
		if titled {
			s.OneOf = append(s.OneOf, &jsonschema.Schema{Const: new(any(c.Value)), Title: cmp.Or(c.Title, c.Value)})
		}
	}
	if slices.Contains(s.Types, "null") {
		s.Enum = append(s.Enum, nil)
		if titled {
			s.OneOf = append(s.OneOf, &jsonschema.Schema{Type: "null"})
		}
	}
}

func (f *field) setFormat(v string) string {
	if f.kind == instant && v != formatDateTime {
		return "a time.Time is always a date-time; use a string for " + strconv.Quote(v)
	}
	if !slices.Contains([]string{formatEmail, formatURI, formatDate, formatDateTime}, v) {
		return fmt.Sprintf("%q is not a format MCP knows; allowed are email, uri, date and date-time", v)
	}
	f.Format = v
	return ""
}

func (f *field) setPattern(v string) string {
	if _, err := regexp.Compile(v); err != nil || v == "" {
		return fmt.Sprintf("%q is not a regular expression that package regexp knows", v)
	}
	f.Pattern = v
	return ""
}

func setCount(n **int, v string, least *int) string {
	i, err := strconv.Atoi(v)
	switch {
	case err != nil || i < 0:
		return fmt.Sprintf("%q is not a whole number from 0 on", v)
	case least != nil && i < *least:
		return fmt.Sprintf("%s is less than %d, the least allowed so far", v, *least)
	}
	*n = &i
	return ""
}

func (f *field) setItems(n **int, v string, least *int) string {
	if *n != nil {
		return "an array has a fixed number of items; use a slice"
	}
	wrong := setCount(n, v, least)
	if f.MinItems != nil && *f.MinItems > 0 {
		f.Type, f.Types = "array", nil // to Go a null is a list without items
	}
	return wrong
}

func (f *field) setLimit(limit **float64, v string) string {
	x, ok := parseNumber(v)
	switch {
	case !ok:
		return fmt.Sprintf("%q is not a number", v)
	case CompareNumber(v, x) != 0:
		return rounded(v, x)
	case f.kind == wholeNumber && x != math.Trunc(x):
		return fmt.Sprintf("%q is not a whole number", v)
	case f.Minimum != nil && x < *f.Minimum:
		return fmt.Sprintf("%s is less than %s, the least allowed so far", v, plain(*f.Minimum))
	case f.Maximum != nil && x > *f.Maximum:
		return fmt.Sprintf("%s is more than %s, the most allowed so far", v, plain(*f.Maximum))
	}
	*limit = &x
	if reaches(f.ExclusiveMinimum, f.Maximum) || reaches(f.Minimum, f.ExclusiveMaximum) || reaches(f.ExclusiveMinimum, f.ExclusiveMaximum) {
		return v + " leaves no number that is allowed"
	}
	return ""
}

func reaches(low, high *float64) bool { return low != nil && high != nil && *low >= *high }

func (f *field) setMultipleOf(v string) string {
	x, ok := parseNumber(v)
	if !ok || x <= 0 {
		return fmt.Sprintf("%q is not a number greater than 0", v)
	}
	if CompareNumber(v, x) != 0 {
		return rounded(v, x)
	}
	f.MultipleOf = &x
	return ""
}

func rounded(v string, x float64) string {
	return fmt.Sprintf("%s has more digits than can be enforced; the nearest that can is %s", v, plain(x))
}

func parseNumber(v string) (float64, bool) {
	x, err := strconv.ParseFloat(v, 64)
	return x, err == nil && !math.IsInf(x, 0) && !math.IsNaN(x)
}

// setDefault is not strict in forms: what they show at first must satisfy the form as
// it is asked, which package steps checks.
func (f *field) setDefault(v string) string {
	f.Default = defaultOf(v, typeOf(f.Schema))
	if f.place == inForm {
		return ""
	}
	s := f.CloneSchemas()
	s.Default = nil
	ready, _, err := Resolve(s, nil)
	if err == nil {
		err = ready.Validate(f.Default)
	}
	if err != nil {
		return fmt.Sprintf("%q is not valid: %v", v, err)
	}
	return ""
}

// defaultOf returns the value of a default tag as JSON.
func defaultOf(v, typ string) json.RawMessage {
	var value any = v
	switch typ {
	case "array":
		value = strings.Split(v, "|")
	case "boolean":
		if b, err := strconv.ParseBool(v); err == nil {
			value = b
		}
	case "integer", "number":
		if n := jsontext.Value(v); n.Kind() == '0' && n.IsValid() {
			return json.RawMessage(v)
		}
	}
	raw, _ := json.Marshal(value) // strings and booleans have a JSON form
	return raw
}

func (f *field) setNotSecret(v string) string {
	if strings.TrimSpace(v) == "" {
		return "says why the field is not a secret"
	}
	if f.place == inForm {
		f.note("notsecret", true)
	}
	return ""
}

// only is for tags that have one value.
func only(want, v string) string {
	if v != want {
		return fmt.Sprintf("is %q, or left out", want)
	}
	return ""
}
