package steps

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
)

// verify reports what MCP does not allow in the form, after what its declaration
// was checked for.
func (s *FormSpec) verify() error {
	if s.Message == "" {
		return &QuestionError{Reason: "has no Message"}
	}
	for i := range s.Fields {
		f := &s.Fields[i]
		if reason := f.verify(); reason != "" {
			return &QuestionError{Where: "field " + strconv.Quote(f.Name), Reason: reason}
		}
	}
	return nil
}

// open reports a field that still needs choices.
func (s *FormSpec) open() error {
	for i := range s.Fields {
		if f := &s.Fields[i]; f.Multiple && len(f.Choices) == 0 {
			return &QuestionError{Where: "field " + strconv.Quote(f.Name),
				Reason: "MCP allows a list only of choices: give it an enum tag, or ask With(steps.Choices(...))"}
		}
	}
	return nil
}

// verify reports what MCP does not allow in the field, or contradicts itself, or
// "".
func (f *Field) verify() string {
	if len(f.Choices) > 0 && f.MinItems != nil && *f.MinItems > len(f.Choices) {
		return fmt.Sprintf("minItems %d is more than there are choices", *f.MinItems)
	}
	for i, c := range f.Choices {
		for _, other := range f.Choices[:i] {
			if other.Value == c.Value {
				return "there are two choices " + strconv.Quote(c.Value)
			}
		}
	}
	if f.Default != nil {
		if f.Multiple && len(f.Choices) == 0 {
			return "has a default but no choices"
		}
		if rule := f.check(valueOf(f.Default)); rule != "" {
			return fmt.Sprintf("the default %v is not valid: it %s", f.Default, rule)
		}
	}
	return ""
}

// free reports whether the user can enter any text or number in the field.
func (f *Field) free() bool { return len(f.Choices) == 0 && !f.Multiple && f.Type != typeBoolean }

// defaultOf returns v as one of the types of [Field.Default]; numbers come as
// float64 or int64.
func defaultOf(v any) (any, bool) {
	if v == nil {
		return nil, true
	}
	if t, ok := v.(time.Time); ok {
		return t.Format(time.RFC3339Nano), true
	}
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.String:
		return r.String(), true
	case reflect.Bool:
		return r.Bool(), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int(), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if r.Uint() > math.MaxInt64 {
			return nil, false
		}
		return int64(r.Uint()), true
	case reflect.Float32, reflect.Float64:
		x := r.Float()
		return x, !math.IsInf(x, 0) && !math.IsNaN(x)
	case reflect.Slice:
		if r.Type().Elem().Kind() != reflect.String {
			return nil, false
		}
		list := make([]string, r.Len())
		for i := range list {
			list[i] = r.Index(i).String()
		}
		return list, true
	}
	return nil, false
}

// fitDefault returns a default as the type that belongs to the field, if it is of
// a type that can be that.
func (f *Field) fitDefault(v any) any {
	switch x := v.(type) {
	case int64:
		if f.Type == typeNumber {
			return float64(x)
		}
	case float64:
		if f.Type == typeInteger && integral(x) {
			return int64(x)
		}
	}
	return v
}
