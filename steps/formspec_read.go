package steps

import (
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
)

// Forms are read member by member, not into a struct: which keywords count, and of
// what type they are, depends on the type of the field. Other servers' schemas have
// all kinds of further keywords, which are ignored.

// Form reads the form that the step asks for, from its Params alone: those of
// elicitation/create in form mode. It accepts every shape that MCP has had for
// fields, old "enumNames" included, and ignores keywords that it does not know. The
// error is a *[QuestionError].
func (s Step) Form() (*FormSpec, error) { return parseForm(s.Params) }

func parseForm(params json.RawMessage) (*FormSpec, error) {
	if reason := checkObject(params); reason != "" {
		return nil, &QuestionError{Reason: reason}
	}
	if mode := get(params, "mode"); mode != nil && text(mode) != "form" {
		return nil, &QuestionError{Where: "mode", Reason: `is not "form"`}
	}
	message, ok := jsonview.String(get(params, "message"))
	if !ok {
		return nil, &QuestionError{Where: "message", Reason: "must be a string"}
	}
	fields, err := parseSchema(get(params, "requestedSchema"))
	if err != nil {
		return nil, err
	}
	return &FormSpec{Message: message, Fields: fields}, nil
}

// get returns the value of an object's member, or nil if there is none.
func get(object []byte, name string) jsontext.Value { return jsonview.Get(object, name) }

// text returns the text of a string, or "" if v is none.
func text(v jsontext.Value) string {
	s, _ := jsonview.String(v)
	return s
}

// absent reports that a member is missing, or null, which peers write for that.
func absent(v jsontext.Value) bool { return v == nil || v.Kind() == 'n' }

func parseSchema(schema jsontext.Value) ([]Field, error) {
	fail := func(where, reason string) ([]Field, error) {
		return nil, &QuestionError{Where: "requestedSchema" + where, Reason: reason}
	}
	if schema.Kind() != '{' {
		return fail("", "must be an object")
	}
	if text(get(schema, "type")) != "object" {
		return fail(".type", `must be "object"`)
	}
	properties := get(schema, "properties")
	if properties.Kind() != '{' {
		return fail(".properties", "must be an object")
	}
	var fields []Field
	for name, v := range jsonview.Members(properties) {
		p := propParser{prop: v, f: Field{Name: string(name)}}
		if p.parse(); p.reason != "" {
			return fail(".properties."+p.f.Name, p.reason)
		}
		fields = append(fields, p.f)
	}
	required := get(schema, "required")
	if absent(required) {
		return fields, nil
	}
	names, ok := jsonview.Strings(required)
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

// propParser reads one property. The first reason stays.
type propParser struct {
	prop   jsontext.Value
	f      Field
	reason string
}

func (p *propParser) fail(reason string) {
	if p.reason == "" {
		p.reason = reason
	}
}

func (p *propParser) parse() {
	if p.prop.Kind() != '{' {
		p.fail("must be an object")
		return
	}
	f := &p.f
	f.Title = p.text("title")
	f.Description = p.text("description")
	switch typ := text(get(p.prop, "type")); typ {
	case "string":
		f.Type = typeString
		f.MinLength, f.MaxLength = p.count("minLength"), p.count("maxLength")
		f.Format = p.text("format")
		p.choices(p.prop, "oneOf")
		p.legacyTitles()
	case "number", "integer":
		f.Type = typ
		f.Minimum, f.Maximum = p.limit("minimum"), p.limit("maximum")
	case "boolean":
		f.Type = typeBoolean
	case "array":
		f.Type, f.Multiple = typeString, true
		f.MinItems, f.MaxItems = p.count("minItems"), p.count("maxItems")
		p.items()
	default:
		p.fail("type must be string, number, integer, boolean or array")
	}
	p.fallback()
}

// items reads the choices of a list. Titled ones come without a type.
func (p *propParser) items() {
	items := get(p.prop, "items")
	if t := get(items, "type"); t != nil && text(t) != "string" {
		p.fail("items must be strings")
		return
	}
	p.choices(items, "anyOf")
	if len(p.f.Choices) == 0 {
		p.fail("items must have an enum or anyOf")
	}
}

// choices reads the choices in v: an enum, or a list of const and title.
func (p *propParser) choices(v jsontext.Value, titled string) {
	enum, list := get(v, "enum"), get(v, titled)
	switch {
	case enum != nil:
		values, ok := jsonview.Strings(enum)
		if !ok || len(values) == 0 {
			p.fail("enum must be a list of strings")
		}
		for _, value := range values {
			p.f.Choices = append(p.f.Choices, Choice{Value: value})
		}
	case list != nil:
		if list.Kind() != '[' {
			p.fail(titled + " must be an array")
		}
		for item := range jsonview.Elements(list) {
			value, ok := jsonview.String(get(item, "const"))
			title := get(item, "title")
			if !ok || !absent(title) && title.Kind() != '"' {
				p.fail(titled + " must hold objects with const and title")
				break
			}
			p.f.Choices = append(p.f.Choices, Choice{Value: value, Title: text(title)})
		}
		if len(p.f.Choices) == 0 {
			p.fail(titled + " must not be empty")
		}
	}
}

func (p *propParser) legacyTitles() {
	v := get(p.prop, "enumNames")
	if absent(v) {
		return
	}
	titles, ok := jsonview.Strings(v)
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
	v := get(p.prop, name)
	if !absent(v) && v.Kind() != '"' {
		p.fail(name + " must be a string")
	}
	return text(v)
}

func (p *propParser) count(name string) *int {
	v := get(p.prop, name)
	if absent(v) {
		return nil
	}
	n, ok := integer(v)
	if !ok || n < 0 || int64(int(n)) != n {
		p.fail(name + " must be a whole number from 0 on")
	}
	return new(int(n))
}

func (p *propParser) limit(name string) *float64 {
	v := get(p.prop, name)
	if absent(v) {
		return nil
	}
	x, ok := number(v)
	if !ok {
		p.fail(name + " must be a number")
	}
	return &x
}

// fallback reads the default. One that breaks the field's own rules is kept: it
// is what the server wants shown, and the user can correct it.
func (p *propParser) fallback() {
	v := get(p.prop, "default")
	if absent(v) || p.reason != "" {
		return
	}
	f := &p.f
	ok := false
	switch {
	case f.Multiple:
		f.Default, ok = jsonview.Strings(v)
	case f.Type == typeString:
		f.Default, ok = jsonview.String(v)
	case f.Type == typeBoolean:
		f.Default, ok = v.Kind() == 't', v.Kind() == 't' || v.Kind() == 'f'
	case f.Type == typeInteger:
		f.Default, ok = integer(v)
	default:
		f.Default, ok = number(v)
	}
	if !ok {
		p.fail("default must be of the field's type")
	}
}

// number returns a JSON number that float64 can hold.
func number(v jsontext.Value) (float64, bool) {
	x, err := strconv.ParseFloat(string(v), 64)
	return x, v.Kind() == '0' && err == nil
}
