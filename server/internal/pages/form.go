package pages

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/steps"
)

// field is a field of a form as the page shows it. Names and values of fields are the author's, and may be anything, so the
// form goes by their places.
type field struct {
	steps.Field
	// Name is that of the input.
	Name string
	// Hint says what may be entered.
	Hint string
	// Widget is what it is entered with: "text", "area", "one" (radio buttons), "list" or "several" (check boxes).
	Widget string
	// Type and Mode are those of an input for text.
	Type, Mode string
	// Value is the text, and Options what there is to choose.
	Value   string
	Options []option
	// Error is the rule that what was entered breaks, or empty.
	Error string
}

// option is something to choose.
type option struct {
	ID, Value, Label string
	Chosen           bool
}

type fields []*field

const (
	// longText is from how many characters on a text gets more than a line.
	longText = 120
	// roomyText is how long such a text may be that is likely to be long.
	roomyText = 500
	// fewOptions are so many that all are shown at once.
	fewOptions = 7
	// localTime is how browsers write a time without a zone, from its beginning on.
	localTime = "2006-01-02T15:04:05"
)

// fieldsOf returns the fields of a form, with the defaults; nil if it has none, or is a link.
func fieldsOf(q *steps.Step) (list fields) {
	form, err := q.Form()
	if err != nil {
		return nil
	}
	for i, spec := range form.Fields {
		list = append(list, newField("f"+strconv.Itoa(i), spec))
	}
	return list
}

func newField(name string, spec steps.Field) *field {
	f := &field{Field: spec, Name: name, Hint: hint(&spec)}
	switch v := spec.Default.(type) {
	case string:
		f.Value = v
	case int64:
		f.Value = strconv.FormatInt(v, 10)
	case float64:
		f.Value = strconv.FormatFloat(v, 'g', -1, 64)
	}
	switch {
	case spec.Multiple:
		f.Widget = "several"
		chosen, _ := spec.Default.([]string)
		for _, c := range spec.Choices {
			f.offer(cmp.Or(c.Title, c.Value), slices.Contains(chosen, c.Value))
		}
	case len(spec.Choices) > 0:
		f.Widget = "list"
		if len(spec.Choices) <= fewOptions {
			f.Widget = "one"
		}
		for _, c := range spec.Choices {
			f.offer(cmp.Or(c.Title, c.Value), spec.Default != nil && spec.Default == c.Value)
		}
		f.leaveOut()
	case spec.Type == "boolean":
		f.Widget = "one"
		f.offer("Yes", spec.Default == true)
		f.offer("No", spec.Default == false)
		f.leaveOut()
	default:
		f.text()
	}
	return f
}

// offer adds an option. Its value is its place.
func (f *field) offer(label string, chosen bool) {
	n := strconv.Itoa(len(f.Options))
	f.Options = append(f.Options, option{ID: f.Name + "-" + n, Value: n, Label: label, Chosen: chosen})
}

// leaveOut adds what stands for no choice.
func (f *field) leaveOut() {
	none := !slices.ContainsFunc(f.Options, func(o option) bool { return o.Chosen })
	switch {
	case !f.Required:
		f.Options = append(f.Options, option{ID: f.Name + "-none", Label: "(leave out)", Chosen: none})
	case f.Widget == "list":
		f.Options = slices.Insert(f.Options, 0, option{ID: f.Name + "-none", Label: "Choose one", Chosen: none})
	}
}

// formats have an input of their own in browsers.
var formats = map[string]struct{ input, hint string }{
	"email":     {"email", "such as name@example.com"},
	"uri":       {"url", "a whole address, such as https://www.example.com"},
	"date":      {"date", "a day, as 2026-12-31"},
	"date-time": {"datetime-local", "a day and a time of UTC, as 2026-12-31T18:00:00Z"},
}

// text makes it a field for text. Numbers are text, too: browsers keep what is none to themselves.
func (f *field) text() {
	f.Widget, f.Type = "text", "text"
	s := &f.Field
	switch {
	case s.Type == "integer" && s.Minimum != nil && *s.Minimum >= 0:
		f.Mode = "numeric"
	case s.Type == "integer" || s.Type == "number":
		f.Mode = "decimal"
		if s.Minimum == nil || *s.Minimum < 0 {
			f.Mode = "text" // keyboards for numbers may have no sign
		}
	case s.Format == "date-time":
		if at, err := time.Parse(time.RFC3339, f.Value); err == nil && at.Nanosecond() == 0 {
			f.Value = at.UTC().Format(localTime)
		}
		if f.Value == "" || len(f.Value) == len(localTime) {
			f.Type = formats[s.Format].input
		}
	case s.Format != "":
		f.Type = cmp.Or(formats[s.Format].input, f.Type)
	case s.MaxLength != nil && *s.MaxLength > roomyText || s.MinLength != nil && *s.MinLength > longText ||
		len(f.Value) > longText || strings.Contains(f.Value, "\n"):
		f.Widget = "area"
	}
}

// hint says what may be entered.
func hint(f *steps.Field) string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	switch {
	case f.Multiple:
		return bounds("", "%s to %s can be chosen", "at least %s must be chosen", "at most %s can be chosen", strconv.Itoa, f.MinItems, f.MaxItems)
	case len(f.Choices) > 0 || f.Type == "boolean":
		return ""
	case f.Type == "integer":
		return bounds("a whole number", "a whole number from %s to %s", "a whole number, at least %s", "a whole number, at most %s", number, f.Minimum, f.Maximum)
	case f.Type == "number":
		return bounds("a number, such as 1.5", "a number from %s to %s", "a number, at least %s", "a number, at most %s", number, f.Minimum, f.Maximum)
	}
	return cmp.Or(formats[f.Format].hint, bounds("", "%s to %s characters", "at least %s characters", "at most %s characters", strconv.Itoa, f.MinLength, f.MaxLength))
}

// bounds says what two bounds say, of which either may not be there.
func bounds[N any](none, both, least, most string, write func(N) string, from, to *N) string {
	switch {
	case from != nil && to != nil:
		return fmt.Sprintf(both, write(*from), write(*to))
	case from != nil:
		return fmt.Sprintf(least, write(*from))
	case to != nil:
		return fmt.Sprintf(most, write(*to))
	}
	return none
}

// read reads what was entered, and shows it from now on. fits is false if a field has an error.
func (list fields) read(form url.Values) (content map[string]any, fits bool) {
	content, fits = map[string]any{}, true
	for _, f := range list {
		value, err := f.read(form[f.Name])
		if err == nil {
			err = f.Validate(value)
		}
		if err != nil {
			f.Error, fits = err.Error(), false
			var broken *checkerr.FieldError
			if errors.As(err, &broken) {
				f.Error = broken.Rule // the name stands beside it
			}
		}
		if value != nil {
			content[f.Field.Name] = value
		}
	}
	return content, fits
}

// read returns what was entered in a field, nil if it was left out.
func (f *field) read(sent []string) (any, error) {
	if len(f.Options) > 0 {
		return f.readChoice(sent)
	}
	f.Value = ""
	if len(sent) > 0 {
		f.Value = strings.ReplaceAll(sent[0], "\r\n", "\n")
	}
	trimmed := strings.TrimSpace(f.Value)
	if trimmed == "" {
		return nil, nil
	}
	switch f.Field.Type {
	case "integer":
		n, err := strconv.ParseInt(trimmed, 10, 64)
		if err != nil {
			return nil, errors.New("must be a whole number")
		}
		return n, nil
	case "number":
		n, err := strconv.ParseFloat(trimmed, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, errors.New("must be a number")
		}
		return n, nil
	}
	switch f.Format {
	case "":
		return f.Value, nil
	case "date-time":
		return zoned(trimmed), nil
	}
	return trimmed, nil
}

// zoned adds to a time what browsers leave out: the seconds, if they are 0, and the zone.
func zoned(text string) string {
	if at, err := time.Parse(localTime[:len("2006-01-02T15:04")], text); err == nil {
		return at.Format(time.RFC3339)
	}
	if at, err := time.Parse(localTime, text); err == nil {
		return at.Format(time.RFC3339Nano)
	}
	return text
}

// readChoice is read for a field that has options.
func (f *field) readChoice(sent []string) (any, error) {
	offered := []string{""}
	chosen := []int{}
	for i := range f.Options {
		o := &f.Options[i]
		offered = append(offered, o.Value)
		if o.Chosen = slices.Contains(sent, o.Value); o.Chosen && o.Value != "" {
			n, _ := strconv.Atoi(o.Value) // it was made of a number
			chosen = append(chosen, n)
		}
	}
	for _, s := range sent {
		if !slices.Contains(offered, s) {
			return nil, errNotOffered
		}
	}
	switch {
	case len(chosen) == 0 && (!f.Multiple || !f.Required):
		return nil, nil
	case f.Multiple:
		several := make([]string, len(chosen))
		for i, n := range chosen {
			several[i] = f.Choices[n].Value
		}
		return several, nil
	case len(chosen) > 1:
		return nil, errNotOffered
	case f.Field.Type == "boolean":
		return chosen[0] == 0, nil
	}
	return f.Choices[chosen[0]].Value, nil
}

var errNotOffered = errors.New("must be one of those that are offered")

// piece is how much of a text is written as HTML at once, which takes several times as much memory.
const piece = 4 << 10

// Pieces are the parts of Value.
func (f *field) Pieces() (list []string) {
	for rest := f.Value; rest != ""; {
		n := min(piece, len(rest))
		for n < len(rest) && !utf8.RuneStart(rest[n]) {
			n++
		}
		list, rest = append(list, rest[:n]), rest[n:]
	}
	return list
}

// Failed reports whether what was entered in any field breaks a rule.
func (list fields) Failed() bool {
	return slices.ContainsFunc(list, func(f *field) bool { return f.Error != "" })
}

// First is the name of the input that a person is sent to for the field.
func (f *field) First() string {
	if f.Widget == "one" || f.Widget == "several" {
		return f.Options[0].ID
	}
	return f.Name
}

// DescribedBy names what is said of the field, for screen readers.
func (f *field) DescribedBy() string {
	var ids []string
	for _, part := range []struct{ suffix, text string }{{"-about", f.Description}, {"-hint", f.Hint}, {"-error", f.Error}} {
		if part.text != "" {
			ids = append(ids, f.Name+part.suffix)
		}
	}
	return strings.Join(ids, " ")
}
