package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/mcpsaga/mcpsaga/internal/fieldtags"
	"github.com/mcpsaga/mcpsaga/steps"
)

// FieldError says what is wrong with a field of the arguments' or the result's
// type. It is the cause of an error about a tool's definition.
type FieldError struct {
	// Field names the type and its field, as "package.Type.Field".
	Field string
	// Tag is the struct tag that is wrong, or empty.
	Tag string
	// Reason says what is wrong, and what to do.
	Reason string
}

// Error implements error.
func (e *FieldError) Error() string {
	if e.Tag == "" {
		return e.Field + ": " + e.Reason
	}
	return e.Field + ", tag " + e.Tag + ": " + e.Reason
}

// Infer returns the schema that follows from a type and from its fields' tags, and
// what decodes a value of the type, with the defaults that tags give. If the author
// gave another schema instead, that must say what the tags say.
func Infer(t reflect.Type, instead *jsonschema.Schema) (*jsonschema.Schema, jsonv2.Options, error) {
	// The library takes a json.Number for the string that it is to Go.
	number := map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[json.Number](): {Type: "number"}}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: number})
	if err != nil {
		return nil, nil, err
	}
	a := annotator{defaults{}}
	if err := a.annotate(s, t, instead); err != nil {
		return nil, nil, err
	}
	return s, a.defaults.options(), nil
}

// annotator adds to a schema that was made from a type what the library leaves out:
// the choices of a [steps.Chooser], the format of times, and what tags say.
type annotator struct{ defaults defaults }

// annotate works on the schema of a type and of all that is in it. If the author gave
// another schema instead, that one is to say the same as the tags.
func (a annotator) annotate(s *jsonschema.Schema, t reflect.Type, given *jsonschema.Schema) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		s.Format = fieldtags.FormatDateTime
	case t.Kind() == reflect.String:
		return annotateChoices(s, t)
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && s.Items != nil:
		return a.annotate(s.Items, t.Elem(), within(given, itemsOf))
	case t.Kind() == reflect.Map && s.AdditionalProperties != nil:
		keys := &jsonschema.Schema{}
		if err := annotateChoices(keys, t.Key()); err != nil {
			return err
		}
		if keys.Enum != nil {
			s.PropertyNames = keys
		}
		return a.annotate(s.AdditionalProperties, t.Elem(), within(given, othersOf))
	case t.Kind() == reflect.Struct && s.Properties != nil:
		return a.annotateStruct(s, t, given)
	}
	return nil
}

func annotateChoices(s *jsonschema.Schema, t reflect.Type) error {
	if t.Kind() != reflect.String {
		return nil
	}
	chooser, ok := reflect.Zero(t).Interface().(steps.Chooser)
	if !ok {
		return nil
	}
	var choices []fieldtags.Choice
	for _, c := range chooser.Choices() {
		choices = append(choices, fieldtags.Choice{Value: c.Value, Title: c.Title})
	}
	if len(choices) == 0 {
		return &FieldError{Field: t.String(), Reason: "its method Choices returns none"}
	}
	choose(s, choices)
	return nil
}

func (a annotator) annotateStruct(s *jsonschema.Schema, t reflect.Type, given *jsonschema.Schema) error {
	members := map[string]string{}
	var found []error
	for _, f := range reflect.VisibleFields(t) {
		found = append(found, a.annotateField(s, t, f, given, members))
	}
	return errors.Join(found...)
}

// annotateField is annotateStruct for one field. members are the fields before it, by
// their names in JSON.
func (a annotator) annotateField(s *jsonschema.Schema, t reflect.Type, f reflect.StructField, given *jsonschema.Schema, members map[string]string) error {
	fail := func(tag, format string, args ...any) error {
		return &FieldError{t.String() + "." + f.Name, tag, fmt.Sprintf(format, args...)}
	}
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if f.Anonymous {
		if reason := notInlined(f, name); reason != "" {
			return fail("", "%s", reason)
		}
		return nil
	}
	if !f.IsExported() || f.Tag.Get("json") == "-" {
		return nil
	}
	if name == "" {
		name = f.Name
	}
	if other, ok := members[name]; ok {
		return fail("", "has the same name %q as %s", name, other)
	}
	members[name] = f.Name
	if slices.Contains(strings.Split(options, ","), "string") {
		return fail("json", `the option "string" is not what the schema says; use a string`)
	}
	member := s.Properties[name]
	given = within(given, func(s *jsonschema.Schema) *jsonschema.Schema { return s.Properties[name] })
	if err := a.annotate(member, f.Type, given); err != nil {
		return err
	}
	kind := kindOf(f.Type, member)
	k := fieldtags.Keywords{Minimum: member.Minimum, Maximum: member.Maximum}
	if err := k.Read(f.Tag, kind, fieldtags.Schema); err != nil {
		var problem *fieldtags.Error
		errors.As(err, &problem)
		return fail(problem.Tag, "%s", problem.Reason)
	}
	if f.Type.Kind() == reflect.Array && member.MinItems != nil && (k.MinItems != nil || k.MaxItems != nil) {
		return fail("", "an array has a fixed number of items; use a slice")
	}
	if reason := put(&k, member); reason != "" {
		return fail("default", "%s", reason)
	}
	if k.Default != nil {
		s.Required = slices.DeleteFunc(slices.Clone(s.Required), func(n string) bool { return n == name })
		if reason := a.defaults.add(t, f, member.Default); reason != "" {
			return fail("default", "%s", reason)
		}
	}
	if given != nil {
		if tag := lacks(given, f.Tag, member); tag != "" {
			return fail(tag, "the schema that was given instead does not say the same of %q; write it there, or leave the tag out", name)
		}
	}
	return nil
}

// notInlined says why the members of an embedded field are not those that the schema
// has, or "".
func notInlined(f reflect.StructField, name string) string {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() != reflect.Struct && !f.IsExported():
		return "" // nothing to JSON
	case t.Kind() != reflect.Struct || name != "":
		return "is embedded, but not merged into the struct by JSON; make it a field with a name"
	case fieldtags.Any(f.Tag):
		return "an embedded struct has no member of its own that its tags could be about; put them on its fields"
	}
	return ""
}

// within returns a part of an author's own schema, against which the tags of a field are
// held: nil if the author gave none, and empty if it says nothing there.
func within(given *jsonschema.Schema, part func(*jsonschema.Schema) *jsonschema.Schema) *jsonschema.Schema {
	if given == nil {
		return nil
	}
	return cmp.Or(part(given), &jsonschema.Schema{})
}

func itemsOf(s *jsonschema.Schema) *jsonschema.Schema  { return s.Items }
func othersOf(s *jsonschema.Schema) *jsonschema.Schema { return s.AdditionalProperties }

// lacks returns the first of a field's tags that the author's schema does not repeat,
// or "". What the tags come to is in member.
func lacks(given *jsonschema.Schema, tags reflect.StructTag, member *jsonschema.Schema) string {
	names, _ := fieldtags.Keys(tags)
	for _, name := range names {
		keyword := name
		switch {
		case name == "notsecret" || !fieldtags.Any(reflect.StructTag(name+`:""`)):
			continue
		case name == headerTag:
			keyword = headerKeyword
		}
		if !reflect.DeepEqual(keywordOf(given, keyword), keywordOf(member, keyword)) {
			return name
		}
	}
	return ""
}

// keywordOf returns the value of a keyword, or nil. The choices of a list are those
// of its items; whether null is allowed besides them is for the type to say.
func keywordOf(s *jsonschema.Schema, keyword string) any {
	if keyword == "enum" && s.Items != nil {
		s = s.Items
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return nil // what cannot be shown is refused later
	}
	var keywords map[string]any
	if err := json.Unmarshal(raw, &keywords); err != nil {
		return nil
	}
	if list, ok := keywords[keyword].([]any); ok && keyword == "enum" {
		return slices.DeleteFunc(list, func(v any) bool { return v == nil })
	}
	return keywords[keyword]
}

// Tagged reports whether a type, or one in it, has a field with tags.
func Tagged(t reflect.Type) bool { return tagged(t, map[reflect.Type]bool{}) }

func tagged(t reflect.Type, seen map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return tagged(t.Elem(), seen)
	case reflect.Struct:
		if seen[t] {
			return false
		}
		seen[t] = true
		for f := range t.Fields() {
			if fieldtags.Any(f.Tag) || tagged(f.Type, seen) {
				return true
			}
		}
	}
	return false
}

// defaults are the values of the fields of structs that a client may leave out.
type defaults map[reflect.Type][]defaultField

type defaultField struct {
	index []int
	value json.RawMessage
}

// add returns why the field can have no default, or "".
func (d defaults) add(t reflect.Type, f reflect.StructField, value json.RawMessage) string {
	for i := 1; i < len(f.Index); i++ {
		if t.FieldByIndex(f.Index[:i]).Type.Kind() == reflect.Pointer {
			return "is not for a field of an embedded pointer, which may be nil"
		}
	}
	if err := jsonv2.Unmarshal(value, reflect.New(f.Type).Interface(), JSONOptions); err != nil {
		return "does not fit the field's type: " + err.Error()
	}
	d[t] = append(d[t], defaultField{f.Index, value})
	return ""
}

// options decode arguments. Every object begins with its defaults, and what the
// client gave replaces them.
func (d defaults) options() jsonv2.Options {
	if len(d) == 0 {
		return JSONOptions
	}
	known := maps.Clone(d)
	begin := jsonv2.UnmarshalFromFunc(func(_ *jsontext.Decoder, target any) error {
		v := reflect.ValueOf(target).Elem()
		for _, field := range known[v.Type()] {
			if err := jsonv2.Unmarshal(field.value, v.FieldByIndex(field.index).Addr().Interface(), JSONOptions); err != nil {
				return err
			}
		}
		return errors.ErrUnsupported // go on as usual
	})
	return jsonv2.JoinOptions(JSONOptions, jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(begin, jsonv2.UnmarshalFromFunc(readNumber))))
}
