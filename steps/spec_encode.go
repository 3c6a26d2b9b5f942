package steps

import (
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendParams appends the parameters of elicitation/create that ask for the
// form to dst: {"message":...,"requestedSchema":...}. The same form always gives
// the same bytes. The mode is left out, which stands for "form" and is understood
// by clients older than the modes.
func (s *FormSpec) AppendParams(dst []byte) []byte {
	dst = append(dst, `{"message":`...)
	dst = appendString(dst, s.Message)
	dst = append(dst, `,"requestedSchema":`...)
	dst = s.AppendSchema(dst)
	return append(dst, '}')
}

// AppendSchema appends the form's requestedSchema to dst.
func (s *FormSpec) AppendSchema(dst []byte) []byte {
	dst = append(dst, `{"type":"object","properties":{`...)
	required := 0
	for i := range s.Fields {
		f := &s.Fields[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, f.Name)
		dst = append(dst, ':')
		dst = f.appendSchema(dst)
		if f.Required {
			required++
		}
	}
	dst = append(dst, '}')
	if required > 0 {
		dst = append(dst, `,"required":`...)
		sep := byte('[')
		for i := range s.Fields {
			if s.Fields[i].Required {
				dst = append(dst, sep)
				dst = appendString(dst, s.Fields[i].Name)
				sep = ','
			}
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func (f *Field) appendSchema(dst []byte) []byte {
	typ := string(f.Type)
	if f.Multiple {
		typ = "array"
	} else if typ == "" {
		typ = string(TypeString)
	}
	dst = append(dst, `{"type":`...)
	dst = appendString(dst, typ)
	if f.Title != "" {
		dst = append(dst, `,"title":`...)
		dst = appendString(dst, f.Title)
	}
	if f.Description != "" {
		dst = append(dst, `,"description":`...)
		dst = appendString(dst, f.Description)
	}
	dst = appendCount(dst, "minLength", f.MinLength)
	dst = appendCount(dst, "maxLength", f.MaxLength)
	if f.Format != "" {
		dst = append(dst, `,"format":`...)
		dst = appendString(dst, f.Format)
	}
	dst = appendLimit(dst, "minimum", f.Minimum)
	dst = appendLimit(dst, "maximum", f.Maximum)
	if f.Multiple {
		dst = appendCount(dst, "minItems", f.MinItems)
		dst = appendCount(dst, "maxItems", f.MaxItems)
		dst = append(dst, `,"items":{`...)
		if titled(f.Choices) {
			dst = appendTitled(dst, `"anyOf":`, f.Choices)
		} else {
			dst = append(dst, `"type":"string","enum":`...)
			dst = appendChoices(dst, f.Choices, Choice.value)
		}
		dst = append(dst, '}')
	} else if len(f.Choices) > 0 {
		switch {
		case f.LegacyTitles:
			dst = append(dst, `,"enum":`...)
			dst = appendChoices(dst, f.Choices, Choice.value)
			dst = append(dst, `,"enumNames":`...)
			dst = appendChoices(dst, f.Choices, Choice.label)
		case titled(f.Choices):
			dst = appendTitled(dst, `,"oneOf":`, f.Choices)
		default:
			dst = append(dst, `,"enum":`...)
			dst = appendChoices(dst, f.Choices, Choice.value)
		}
	}
	if f.Default != nil {
		dst = append(dst, `,"default":`...)
		dst = appendDefault(dst, f.Default)
	}
	return append(dst, '}')
}

func (c Choice) value() string { return c.Value }

// titled reports whether any choice has a title.
func titled(choices []Choice) bool {
	for _, c := range choices {
		if c.Title != "" {
			return true
		}
	}
	return false
}

func appendChoices(dst []byte, choices []Choice, text func(Choice) string) []byte {
	dst = append(dst, '[')
	for i, c := range choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, text(c))
	}
	return append(dst, ']')
}

func appendTitled(dst []byte, member string, choices []Choice) []byte {
	dst = append(dst, member...)
	dst = append(dst, '[')
	for i, c := range choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"const":`...)
		dst = appendString(dst, c.Value)
		dst = append(dst, `,"title":`...)
		dst = appendString(dst, c.label())
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendDefault(dst []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendString(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float64:
		return appendNumber(dst, v)
	case []string:
		return appendStrings(dst, v)
	}
	return append(dst, "null"...) // not reached: verify admits only the above
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}

func appendCount(dst []byte, name string, n *int) []byte {
	if n == nil {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return strconv.AppendInt(dst, int64(*n), 10)
}

func appendLimit(dst []byte, name string, x *float64) []byte {
	if x == nil {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return appendNumber(dst, *x)
}

// appendNumber writes x as people would: without an exponent unless it is very
// large or very small.
func appendNumber(dst []byte, x float64) []byte {
	format := byte('f')
	if abs := math.Abs(x); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, x, format, -1, 64)
}

// appendString writes s as a JSON string without escaping what HTML finds
// special. Bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
