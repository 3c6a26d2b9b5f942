package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcpsaga/mcpsaga/internal/fieldtags"
)

// inferFields returns the fields of a form for t. jsonschema infers the schema;
// what remains is to hold it against what MCP allows and to add the tags.
func inferFields(t reflect.Type) ([]Field, error) {
	if t.Kind() != reflect.Struct || t == timeType {
		return nil, &QuestionError{Where: t.String(), Reason: "a form is made from a struct, whose fields are the form's"}
	}
	goFields, err := formFields(t)
	if err != nil {
		return nil, err
	}
	schema, err := jsonschema.ForType(t, nil)
	if err != nil {
		return nil, &QuestionError{Where: t.String(), Reason: err.Error()}
	}
	fields, problems := make([]Field, 0, len(goFields)), []error(nil)
	for _, gf := range goFields {
		f, err := inferField(gf, schema)
		fields, problems = append(fields, f), append(problems, err)
	}
	return fields, errors.Join(problems...)
}

// goField is a field of T that becomes one of the form.
type goField struct {
	reflect.StructField
	owner    reflect.Type
	name     string // in JSON
	optional bool
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	numberType = reflect.TypeFor[json.Number]()
)

// fail returns an error about the field, and about one of its tags if named.
func (g *goField) fail(tag, reason string) error {
	where := g.owner.String() + "." + g.Name
	if tag != "" {
		where += ", tag " + tag
	}
	return &QuestionError{Where: where, Reason: reason}
}

// base returns the field's type without a pointer.
func (g *goField) base() reflect.Type {
	if g.Type.Kind() == reflect.Pointer {
		return g.Type.Elem()
	}
	return g.Type
}

// formFields lists the fields of t as JSON sees them, and refuses those that a
// form cannot have.
func formFields(t reflect.Type) ([]goField, error) {
	var fields []goField
	var problems []error
	for _, sf := range reflect.VisibleFields(t) {
		g := goField{StructField: sf, owner: t}
		name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if sf.Anonymous {
			if sf.Type.Kind() != reflect.Struct || sf.Tag.Get("json") != "" || sf.Type == timeType {
				problems = append(problems, g.fail("", "only a struct without a json tag can be embedded in a form"))
			} else if fieldtags.Any(sf.Tag) {
				problems = append(problems, g.fail("", "an embedded struct has no field of its own that its tags could be about; put them on its fields"))
			}
			continue
		}
		if !sf.IsExported() || sf.Tag.Get("json") == "-" {
			continue
		}
		if g.name = name; name == "" {
			g.name = sf.Name
		}
		g.optional = sf.Type.Kind() == reflect.Pointer
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "":
			case "omitempty", "omitzero":
				g.optional = true
			default:
				problems = append(problems, g.fail("json", fmt.Sprintf("the option %q is not for forms; use omitempty or omitzero", option)))
			}
		}
		if reason := refused(g.base()); reason != "" {
			problems = append(problems, g.fail("", reason))
		}
		if i := slices.IndexFunc(fields, func(f goField) bool { return f.name == g.name }); i >= 0 {
			problems = append(problems, g.fail("", fmt.Sprintf("has the same name %q as %s", g.name, fields[i].Name)))
		}
		fields = append(fields, g)
	}
	return fields, errors.Join(problems...)
}

// refused says why a form cannot have a field of type t, and what to do instead,
// or "".
func refused(t reflect.Type) string {
	const allowed = "MCP forms hold only text, numbers, booleans and lists of choices"
	if t == numberType || t.Kind() == reflect.Slice && t.Elem() == numberType {
		return fmt.Sprintf("%s is text to Go and a number to JSON; use float64, an integer type, or string", numberType)
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return ""
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return ""
		}
		return fmt.Sprintf("%s is a list of something else than strings; %s: use []string with an enum tag", t, allowed)
	case reflect.Struct:
		if t == timeType {
			return ""
		}
		return fmt.Sprintf("%s is nested; %s: move its fields up, or ask for them in a form of their own", t, allowed)
	case reflect.Map:
		return fmt.Sprintf("%s is a map; %s: name each member as a field", t, allowed)
	case reflect.Interface:
		return fmt.Sprintf("%s can be anything; %s: choose one of these", t, allowed)
	case reflect.Pointer:
		return fmt.Sprintf("%s points to a pointer; one is enough to make a field optional", t)
	}
	return fmt.Sprintf("a form cannot have a %s; %s", t, allowed)
}

func inferField(g goField, schema *jsonschema.Schema) (Field, error) {
	prop := schema.Properties[g.name]
	if prop == nil {
		return Field{}, g.fail("", "jsonschema leaves it out")
	}
	f := Field{Name: g.name, Type: typeString, Description: prop.Description, Required: !g.optional}
	switch g.base().Kind() {
	case reflect.String, reflect.Struct: // a time
	case reflect.Slice:
		f.Multiple = true
	case reflect.Bool:
		f.Type = typeBoolean
	case reflect.Float32, reflect.Float64:
		f.Type = typeNumber
	default:
		f.Type, f.Minimum, f.Maximum = typeInteger, prop.Minimum, prop.Maximum
	}
	if g.base() == timeType {
		f.Format = fieldtags.FormatDateTime
	}
	if chooser, ok := chooserOf(g.base()); ok {
		f.Choices = slices.Clone(chooser.Choices())
		if len(f.Choices) == 0 {
			return Field{}, g.fail("", fmt.Sprintf("the method Choices of %s returns none", g.base()))
		}
	}
	if err := applyTags(&g, &f); err != nil {
		return Field{}, err
	}
	if reason := f.verify(); reason != "" {
		return Field{}, g.fail("", reason)
	}
	return f, nil
}

func chooserOf(t reflect.Type) (Chooser, bool) {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.String {
		return nil, false
	}
	chooser, ok := reflect.Zero(t).Interface().(Chooser)
	return chooser, ok
}
