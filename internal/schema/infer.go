package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"
)

// FieldError says what is wrong with a field of the type of a form, of a tool's arguments
// or of its result. It is the cause of an error about a tool's definition.
type FieldError struct {
	// Field names the type and its field, as "package.Type.Field".
	Field string
	// Tag is the struct tag that is wrong, or empty.
	Tag string
	// Reason says what is wrong, and what to do.
	Reason string
}

// Where names the field, and the tag if there is one.
func (e *FieldError) Where() string {
	if e.Tag == "" {
		return e.Field
	}
	return e.Field + ", tag " + e.Tag
}

// Error implements error.
func (e *FieldError) Error() string { return e.Where() + ": " + e.Reason }

// ForTool returns the schema of arguments or results of a type, and the options to decode
// them with: these fill in the defaults that tags give. If the author gives another schema
// instead, it must say what the tags say, and is returned.
func ForTool(t reflect.Type, instead *jsonschema.Schema) (*jsonschema.Schema, jsonv2.Options, error) {
	decoding := JSONOptions
	if instead != nil && !respelled(t, instead) {
		// Else a member that differs from one of the schema in case only would be none of its own to the schema, and
		// the same to Go, past what the schema says of it.
		decoding = jsonv2.JoinOptions(JSONOptions, jsonv2.MatchCaseInsensitiveNames(false))
	}
	if instead != nil && !Holds(t, tagged) {
		return instead, decoding, nil
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: ownSchemas(t)})
	if err != nil {
		return nil, nil, err
	}
	in := inference{inTool, defaults{}}
	if err := in.annotate(s, t, cmp.Or(instead, s)); err != nil {
		return nil, nil, err
	}
	return cmp.Or(instead, s), in.defaults.options(decoding), nil
}

// respelled reports whether the author's schema may name fields of a type in other letters than JSON does, as package
// encoding/json allows.
func respelled(t reflect.Type, s *jsonschema.Schema) bool {
	switch t = base(t); {
	case s == nil || t == timeType:
		return false
	case t.Kind() == reflect.Slice || t.Kind() == reflect.Array:
		return respelled(t.Elem(), s.Items)
	case t.Kind() == reflect.Map:
		return respelled(t.Elem(), s.AdditionalProperties)
	case t.Kind() != reflect.Struct:
		return false
	case s.Properties == nil, s.Ref != "", len(s.AllOf)+len(s.AnyOf)+len(s.OneOf)+len(s.PatternProperties) > 0:
		return true // they may be anywhere
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name = cmp.Or(name, f.Name); f.Anonymous || !f.IsExported() || name == "-" {
			continue
		}
		member := s.Properties[name]
		for other := range s.Properties {
			if member == nil && strings.EqualFold(other, name) {
				return true
			}
		}
		if respelled(f.Type, member) {
			return true
		}
	}
	return false
}

// ForForm returns the schema of a form whose answer is of a type. Pointers make fields
// optional. Extra has the flags "enumNames" and "notsecret" of the tags of these names.
func ForForm(t reflect.Type) (*jsonschema.Schema, error) {
	if t.Kind() != reflect.Struct || t == timeType {
		return nil, &FieldError{t.String(), "", "a form is made from a struct, whose fields are the form's"}
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{IgnoreInvalidTypes: true, TypeSchemas: ownSchemas(t)})
	if err != nil {
		return nil, &FieldError{t.String(), "", err.Error()}
	}
	return s, inference{inForm, nil}.annotate(s, t, s)
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	numberType = reflect.TypeFor[json.Number]()
	choiceType = reflect.TypeFor[choice]()
)

// base returns what a pointer leads to.
func base(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// inference adds to a schema that was made from a type what the library leaves out: the
// choices of a steps.Chooser, the format of times, and what tags say.
type inference struct {
	place    place
	defaults defaults
}

// annotate works on the schema of a type and of all that is in it. given is the schema
// that must say the same as the tags: s itself unless the author gave another.
func (in inference) annotate(s *jsonschema.Schema, t reflect.Type, given *jsonschema.Schema) error {
	t = base(t)
	switch {
	case t == timeType:
		s.Format = formatDateTime
	case t.Kind() == reflect.String:
		return addChoices(s, t)
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && s.Items != nil:
		return in.annotate(s.Items, t.Elem(), cmp.Or(given.Items, nothing))
	case t.Kind() == reflect.Map && s.AdditionalProperties != nil:
		keys := &jsonschema.Schema{}
		if err := addChoices(keys, t.Key()); err != nil {
			return err
		}
		if keys.Enum != nil {
			s.PropertyNames = keys
		}
		return in.annotate(s.AdditionalProperties, t.Elem(), cmp.Or(given.AdditionalProperties, nothing))
	case t.Kind() == reflect.Struct && s.Properties != nil:
		return in.annotateStruct(s, t, given)
	}
	return nil
}

var nothing = &jsonschema.Schema{}

// addChoices allows only the choices of a string type that is a steps.Chooser. (Package
// steps imports this one, so its types are only known by what they look like.)
func addChoices(s *jsonschema.Schema, t reflect.Type) error {
	if t.Kind() != reflect.String {
		return nil
	}
	method := reflect.Zero(t).MethodByName("Choices")
	if !method.IsValid() {
		return nil
	}
	if m := method.Type(); m.NumIn() != 0 || m.NumOut() != 1 || m.Out(0).Kind() != reflect.Slice || !m.Out(0).Elem().ConvertibleTo(choiceType) {
		return nil
	}
	var choices []choice
	for _, c := range method.Call(nil)[0].Seq2() {
		choices = append(choices, c.Convert(choiceType).Interface().(choice))
	}
	if len(choices) == 0 {
		return &FieldError{Field: t.String(), Reason: "its method Choices returns none"}
	}
	choose(s, choices)
	return nil
}

func (in inference) annotateStruct(s *jsonschema.Schema, t reflect.Type, given *jsonschema.Schema) error {
	fields := map[string]string{} // by their names in JSON
	var problems []error
	for _, f := range reflect.VisibleFields(t) {
		fail := func(tag, reason string) {
			problems = append(problems, &FieldError{t.String() + "." + f.Name, tag, reason})
		}
		name, tag, reason := in.nameOf(f)
		if other := ambiguous(t, f); reason == "" && other != "" {
			reason = fmt.Sprintf("is embedded beside another struct that has a field %s too, so JSON has neither", other)
		}
		switch other, taken := fields[name]; {
		case reason != "":
			fail(tag, reason)
		case name == "":
		case taken:
			fail("", fmt.Sprintf("has the same name %q as %s", name, other))
		default:
			fields[name] = f.Name
			if byPointer(t, f) { // whose members a nil one does not have
				s.Required = slices.DeleteFunc(s.Required, func(n string) bool { return n == name })
			}
			if err := in.annotate(s.Properties[name], f.Type, cmp.Or(given.Properties[name], nothing)); err != nil {
				problems = append(problems, err)
			} else if tag, reason := in.annotateField(s, name, t, f, given); reason != "" {
				fail(tag, reason)
			}
		}
	}
	return errors.Join(problems...)
}

// ambiguous returns the name of a field of an embedded struct that another one has as well, or "".
func ambiguous(t reflect.Type, embedded reflect.StructField) string {
	of := embedded.Type
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if !embedded.Anonymous || of.Kind() != reflect.Struct {
		return ""
	}
	for f := range of.Fields() {
		if _, ok := t.FieldByName(f.Name); !ok && f.IsExported() && f.Tag.Get("json") != "-" {
			return f.Name
		}
	}
	return ""
}

// byPointer reports whether the way to a field of t leads through an embedded pointer.
func byPointer(t reflect.Type, f reflect.StructField) bool {
	for n := 1; n < len(f.Index); n++ {
		if t.FieldByIndex(f.Index[:n]).Type.Kind() == reflect.Pointer {
			return true
		}
	}
	return false
}

// nameOf returns the name of a field in JSON, or "" if it has none. Otherwise it returns
// what is wrong with the field, and with which tag.
func (in inference) nameOf(f reflect.StructField) (name, tag, reason string) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case f.Anonymous:
		return "", "", in.notInlined(f, name)
	case !f.IsExported() || f.Tag.Get("json") == "-":
		return "", "", ""
	}
	for option := range strings.SplitSeq(options, ",") {
		switch {
		case in.place == inForm && !slices.Contains([]string{"", "omitempty", "omitzero"}, option):
			return "", "json", fmt.Sprintf("the option %q is not for forms; use omitempty or omitzero", option)
		case option == "string":
			return "", "json", `the option "string" is not what the schema says; use a string`
		}
	}
	if in.place == inForm {
		reason = refused(f.Type)
	}
	return cmp.Or(name, f.Name), "", reason
}

// annotateField reads the tags of a field of t into its member of s. It returns which tag
// is wrong, and why.
func (in inference) annotateField(s *jsonschema.Schema, name string, t reflect.Type, f reflect.StructField, given *jsonschema.Schema) (tag, reason string) {
	member := s.Properties[name]
	if tag, reason := (&field{member, kindOf(f.Type, member), in.place}).read(f.Tag); reason != "" {
		return tag, reason
	}
	optional := in.place == inForm && f.Type.Kind() == reflect.Pointer
	if member.Default != nil && in.place == inTool {
		optional = true
		if reason := in.defaults.add(t, f, member.Default); reason != "" {
			return "default", reason
		}
	}
	if optional {
		s.Required = slices.DeleteFunc(s.Required, func(n string) bool { return n == name })
	}
	if given != s {
		if tag := missing(cmp.Or(given.Properties[name], nothing), f.Tag, member); tag != "" {
			return tag, fmt.Sprintf("the schema that was given instead does not say the same of %q; write it there, or leave the tag out", name)
		}
	}
	return "", ""
}

// notInlined says why the members of an embedded field are not those that the schema
// has, or "".
func (in inference) notInlined(f reflect.StructField, name string) string {
	t := f.Type
	if t.Kind() == reflect.Pointer && in.place == inTool {
		t = t.Elem()
	}
	merged := t.Kind() == reflect.Struct && name == ""
	switch {
	case in.place == inForm && (!merged || t == timeType || f.Tag.Get("json") != ""):
		return "only a struct without a json tag can be embedded in a form"
	case t.Kind() != reflect.Struct && !f.IsExported():
		return "" // nothing to JSON
	case !merged:
		return "is embedded, but not merged into the struct by JSON; make it a field with a name"
	case f.Type.Kind() == reflect.Pointer && !f.IsExported():
		return "is an embedded pointer to a struct that is not exported, which JSON cannot set; embed the struct itself"
	case hasTags(f.Tag):
		return "an embedded struct has no member of its own that its tags could be about; put them on its fields"
	}
	return ""
}

// refused says why a form cannot have a field of a type, and what to do instead, or "".
func refused(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	kind := t.Kind()
	switch {
	case t == numberType || kind == reflect.Slice && t.Elem() == numberType:
		return fmt.Sprintf("%s is text to Go and a number to JSON; use float64, an integer type, or string", numberType)
	case t == timeType, kind == reflect.String, kind == reflect.Slice && t.Elem().Kind() == reflect.String:
		return ""
	case kind >= reflect.Bool && kind <= reflect.Float64 && kind != reflect.Uintptr:
		return ""
	}
	const allowed = "MCP forms hold only text, numbers, booleans and lists of choices"
	advice, ok := map[reflect.Kind][2]string{
		reflect.Slice:     {"is a list of something else than strings", "use []string with an enum tag"},
		reflect.Struct:    {"is nested", "move its fields up, or ask for them in a form of their own"},
		reflect.Map:       {"is a map", "name each member as a field"},
		reflect.Interface: {"can be anything", "choose one of these"},
		reflect.Pointer:   {"points to a pointer", "one is enough to make a field optional"},
	}[kind]
	if !ok {
		return fmt.Sprintf("a form cannot have a %s; %s", t, allowed)
	}
	return fmt.Sprintf("%s %s; %s: %s", t, advice[0], allowed, advice[1])
}

// missing returns the first of a field's tags that the author's schema does not repeat,
// or "". What the tags come to is in member.
func missing(given *jsonschema.Schema, st reflect.StructTag, member *jsonschema.Schema) string {
	for _, t := range tags {
		keyword := t.name
		if t.name == "header" {
			keyword = headerKeyword
		}
		if _, ok := st.Lookup(t.name); ok && !reflect.DeepEqual(valueOf(given, keyword), valueOf(member, keyword)) {
			return t.name
		}
	}
	return ""
}

// valueOf returns the value of a keyword, or nil. The choices of a list are those of its
// items; whether null is allowed besides them is for the type to say.
func valueOf(s *jsonschema.Schema, keyword string) any {
	if keyword == "enum" && s.Items != nil {
		s = s.Items
	}
	var keywords map[string]any
	if raw, err := json.Marshal(s); err != nil || json.Unmarshal(raw, &keywords) != nil {
		return nil // what cannot be shown is refused later
	}
	if list, ok := keywords[keyword].([]any); ok && keyword == "enum" {
		return slices.DeleteFunc(list, func(v any) bool { return v == nil })
	}
	return keywords[keyword]
}

// tagged reports whether a struct has a field with tags of this package.
func tagged(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && slices.ContainsFunc(slices.Collect(t.Fields()), func(f reflect.StructField) bool { return hasTags(f.Tag) })
}
