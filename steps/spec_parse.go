package steps

import (
	"encoding/json"

	"github.com/tidwall/gjson"
)

// ParseForm reads the parameters of elicitation/create in form mode. It accepts
// every shape that MCP has had for fields, old "enumNames" included, and ignores
// keywords that it does not know. The error is a *[QuestionError].
func ParseForm(params json.RawMessage) (*FormSpec, error) {
	obj, reason := parseObject(params)
	if reason != "" {
		return nil, &QuestionError{Reason: reason}
	}
	if mode := member(obj, "mode"); mode.Exists() && mode.Str != "form" {
		return nil, &QuestionError{Where: "mode", Reason: `is not "form"`}
	}
	message := member(obj, "message")
	if message.Type != gjson.String {
		return nil, &QuestionError{Where: "message", Reason: "must be a string"}
	}
	fields, err := parseSchema(member(obj, "requestedSchema"))
	if err != nil {
		return nil, err
	}
	return &FormSpec{Message: message.Str, Fields: fields}, nil
}

func parseSchema(schema gjson.Result) ([]Field, error) {
	fail := func(where, reason string) ([]Field, error) {
		return nil, &QuestionError{Where: "requestedSchema" + where, Reason: reason}
	}
	if !schema.IsObject() {
		return fail("", "must be an object")
	}
	if member(schema, "type").Str != "object" {
		return fail(".type", `must be "object"`)
	}
	properties := member(schema, "properties")
	if !properties.IsObject() {
		return fail(".properties", "must be an object")
	}
	var fields []Field
	var err error
	properties.ForEach(func(key, v gjson.Result) bool {
		p := propParser{prop: v, f: Field{Name: key.Str}}
		if p.parse(); p.reason != "" {
			_, err = fail(".properties."+key.Str, p.reason)
			return false
		}
		fields = append(fields, p.f)
		return true
	})
	if err != nil {
		return nil, err
	}
	required := member(schema, "required")
	if required.Type == gjson.Null {
		return fields, nil
	}
	names, ok := stringList(required)
	if !ok {
		return fail(".required", "must be a list of strings")
	}
	// A map, as the form may be a hostile server's, with very many fields.
	byName := make(map[string]*Field, len(fields))
	for i := range fields {
		byName[fields[i].Name] = &fields[i]
	}
	for _, name := range names {
		f := byName[name]
		if f == nil {
			return fail(".required", "names a field that is not there")
		}
		f.Required = true
	}
	return fields, nil
}

// stringList returns the strings of a JSON array, and false if v is not an array
// of strings.
func stringList(v gjson.Result) ([]string, bool) {
	if !v.IsArray() {
		return nil, false
	}
	ok := true
	list := []string{}
	v.ForEach(func(_, item gjson.Result) bool {
		ok = item.Type == gjson.String
		list = append(list, item.Str)
		return ok
	})
	return list, ok
}

// propParser reads one property. The first reason stays.
type propParser struct {
	prop   gjson.Result
	f      Field
	reason string
}

func (p *propParser) fail(reason string) {
	if p.reason == "" {
		p.reason = reason
	}
}

func (p *propParser) parse() {
	if !p.prop.IsObject() {
		p.fail("must be an object")
		return
	}
	f := &p.f
	f.Title = p.text("title")
	f.Description = p.text("description")
	switch typ := member(p.prop, "type").Str; typ {
	case "string":
		f.Type = TypeString
		f.MinLength, f.MaxLength = p.count("minLength"), p.count("maxLength")
		f.Format = p.text("format")
		p.choices(p.prop, "oneOf")
		p.legacyTitles()
	case "number", "integer":
		f.Type = FieldType(typ)
		f.Minimum, f.Maximum = p.limit("minimum"), p.limit("maximum")
	case "boolean":
		f.Type = TypeBoolean
	case "array":
		f.Type, f.Multiple = TypeString, true
		f.MinItems, f.MaxItems = p.count("minItems"), p.count("maxItems")
		p.items()
	default:
		p.fail("type must be string, number, integer, boolean or array")
	}
	p.fallback()
}

// items reads the choices of a list. Titled ones come without a type.
func (p *propParser) items() {
	items := member(p.prop, "items")
	if t := member(items, "type"); t.Exists() && t.Str != "string" {
		p.fail("items must be strings")
		return
	}
	p.choices(items, "anyOf")
	if len(p.f.Choices) == 0 {
		p.fail("items must have an enum or anyOf")
	}
}

// choices reads the choices in v: an enum, or a list of const and title.
func (p *propParser) choices(v gjson.Result, titled string) {
	enum, list := member(v, "enum"), member(v, titled)
	switch {
	case enum.Exists():
		values, ok := stringList(enum)
		if !ok || len(values) == 0 {
			p.fail("enum must be a list of strings")
		}
		for _, value := range values {
			p.f.Choices = append(p.f.Choices, Choice{Value: value})
		}
	case list.Exists():
		if !list.IsArray() {
			p.fail(titled + " must be an array")
		}
		list.ForEach(func(_, item gjson.Result) bool {
			value, title := member(item, "const"), member(item, "title")
			if value.Type != gjson.String || title.Type != gjson.String && title.Type != gjson.Null {
				p.fail(titled + " must hold objects with const and title")
				return false
			}
			p.f.Choices = append(p.f.Choices, Choice{Value: value.Str, Title: title.Str})
			return true
		})
		if len(p.f.Choices) == 0 {
			p.fail(titled + " must not be empty")
		}
	}
}

func (p *propParser) legacyTitles() {
	v := member(p.prop, "enumNames")
	if v.Type == gjson.Null {
		return
	}
	titles, ok := stringList(v)
	if !ok || len(titles) != len(p.f.Choices) {
		p.fail("enumNames must be as many strings as there are in enum")
		return
	}
	p.f.LegacyTitles = len(titles) > 0
	for i, title := range titles {
		p.f.Choices[i].Title = title
	}
}

func (p *propParser) text(name string) string {
	v := member(p.prop, name)
	if v.Type != gjson.String && v.Type != gjson.Null {
		p.fail(name + " must be a string")
	}
	return v.Str
}

func (p *propParser) count(name string) *int {
	v := member(p.prop, name)
	if v.Type == gjson.Null {
		return nil
	}
	n, ok := integer(v.Raw)
	if v.Type != gjson.Number || !ok || n < 0 || int64(int(n)) != n {
		p.fail(name + " must be a whole number from 0 on")
	}
	i := int(n)
	return &i
}

func (p *propParser) limit(name string) *float64 {
	v := member(p.prop, name)
	if v.Type == gjson.Null {
		return nil
	}
	if v.Type != gjson.Number || !finite(v.Num) {
		p.fail(name + " must be a number")
	}
	return &v.Num
}

// fallback reads the default. One that breaks the field's own rules is kept: it
// is what the server wants shown, and the user can correct it.
func (p *propParser) fallback() {
	v := member(p.prop, "default")
	if v.Type == gjson.Null || p.reason != "" {
		return
	}
	f := &p.f
	ok := false
	switch {
	case f.Multiple:
		f.Default, ok = stringListAny(v)
	case f.Type == TypeString:
		f.Default, ok = v.Str, v.Type == gjson.String
	case f.Type == TypeBoolean:
		f.Default, ok = v.Bool(), v.IsBool()
	case f.Type == TypeInteger:
		var n int64
		n, ok = integer(v.Raw)
		f.Default, ok = n, ok && v.Type == gjson.Number
	default:
		f.Default, ok = v.Num, v.Type == gjson.Number && finite(v.Num)
	}
	if !ok {
		p.fail("default must be of the field's type")
	}
}

func stringListAny(v gjson.Result) (any, bool) {
	list, ok := stringList(v)
	return list, ok
}
