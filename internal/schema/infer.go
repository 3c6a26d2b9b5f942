package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/fieldtags"
	"github.com/mcpsaga/mcpsaga/steps"
)

// FieldError says what is wrong with a field of the arguments' or the result's
// type. It is the cause of a [DefinitionError].
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
	s, err := jsonschema.ForType(t, inference())
	if err != nil {
		return nil, nil, err
	}
	var given *givenSchema
	if instead != nil {
		given = &givenSchema{instead}
	}
	a := annotator{defaults{}}
	if err := a.annotate(s, t, given); err != nil {
		return nil, nil, err
	}
	return s, a.defaults.options(), nil
}

// inference is how schemas are made from types. The library takes a json.Number for
// the string that it is to Go.
func inference() *jsonschema.ForOptions {
	return &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.Number](): {Type: "number"},
	}}
}

// annotator adds to a schema that was made from a type what the library leaves out:
// the choices of a [steps.Chooser], the format of times, and what tags say.
type annotator struct{ defaults defaults }

// annotate works on the schema of a type and of all that is in it. If the author gave
// another schema instead, that one is to say the same as the tags.
func (a annotator) annotate(s *jsonschema.Schema, t reflect.Type, given *givenSchema) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[time.Time]():
		s.Format = fieldtags.FormatDateTime
	case t.Kind() == reflect.String:
		return annotateChoices(s, t)
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && s.Items != nil:
		return a.annotate(s.Items, t.Elem(), given.items())
	case t.Kind() == reflect.Map && s.AdditionalProperties != nil:
		keys := &jsonschema.Schema{}
		if err := annotateChoices(keys, t.Key()); err != nil {
			return err
		}
		if keys.Enum != nil {
			s.PropertyNames = keys
		}
		return a.annotate(s.AdditionalProperties, t.Elem(), given.others())
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

func (a annotator) annotateStruct(s *jsonschema.Schema, t reflect.Type, given *givenSchema) error {
	members := map[string]string{}
	var found []error
	for _, f := range reflect.VisibleFields(t) {
		found = append(found, a.annotateField(s, t, f, given, members))
	}
	return errors.Join(found...)
}

// annotateField is annotateStruct for one field. members are the fields before it, by
// their names in JSON.
func (a annotator) annotateField(s *jsonschema.Schema, t reflect.Type, f reflect.StructField, given *givenSchema, members map[string]string) error {
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
	if err := a.annotate(member, f.Type, given.member(name)); err != nil {
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
		if slices.Contains(s.Required, name) {
			return fail("default", "is for what may be left out: say omitempty or omitzero in the json tag")
		}
		if reason := a.defaults.add(t, f, member.Default); reason != "" {
			return fail("default", "%s", reason)
		}
	}
	if given != nil {
		if tag := given.member(name).lacks(f.Tag, member); tag != "" {
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
