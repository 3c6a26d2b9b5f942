package term

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"charm.land/huh/v2"

	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/steps"
)

const (
	// longText is from how many characters on a text gets an area of its own.
	longText = 120
	// areaLines is the height of such an area.
	areaLines = 12
	// listLines is the height of a list of choices.
	listLines = 10
)

// input is a field of a form and what was entered. It outlives the widget that shows it, so
// that a person can leave a form and return to it.
type input struct {
	field steps.Field
	t     *Terminal

	text    string   // strings and numbers as typed
	initial string   // the text when the form is shown, which an empty line stands for
	yes     bool     // booleans that must be given
	choice  any      // one of a list, nil for none
	choices []string // several of a list
}

// newInput starts from the field's default.
func newInput(t *Terminal, field steps.Field) *input {
	in := &input{field: field, t: t}
	switch v := field.Default.(type) {
	case string:
		in.text = plain.Text(v)
		if slices.ContainsFunc(field.Choices, func(c steps.Choice) bool { return c.Value == v }) {
			in.choice = v
		}
	case []string:
		for _, choice := range field.Choices {
			if slices.Contains(v, choice.Value) {
				in.choices = append(in.choices, choice.Value)
			}
		}
	case bool:
		in.yes, in.choice = v, v
	case int64:
		in.text = strconv.FormatInt(v, 10)
	case float64:
		in.text = strconv.FormatFloat(v, 'g', -1, 64)
	}
	if in.choice == nil && field.Required && len(field.Choices) > 0 {
		in.choice = field.Choices[0].Value // the list marks one anyway, and nothing is sent without being confirmed
	}
	return in
}

func (in *input) isArea() bool {
	f := in.field
	if f.Type != "string" && f.Type != "" || len(f.Choices) > 0 || f.Format != "" {
		return false
	}
	roomy := f.MaxLength != nil && *f.MaxLength > 500 || f.MinLength != nil && *f.MinLength > longText
	return roomy || strings.Contains(in.text, "\n") || len(in.text) > longText
}

// value returns what was entered, and nil if the field was left out.
func (in *input) value() (any, error) {
	switch {
	case in.field.Multiple:
		return in.several(in.choices), nil
	case in.isList():
		return in.choice, nil
	case in.field.Type == "boolean":
		return in.yes, nil
	}
	return in.parse(in.text)
}

// isList reports whether the field is a list to choose one from. That of an optional boolean
// has three choices.
func (in *input) isList() bool {
	return len(in.field.Choices) > 0 || in.field.Type == "boolean" && !in.field.Required
}

func (in *input) several(choices []string) any {
	if len(choices) == 0 && !in.field.Required {
		return nil
	}
	return append([]string{}, choices...)
}

// parse converts what was typed; nil stands for nothing.
func (in *input) parse(text string) (any, error) {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return nil, nil
	}
	switch in.field.Type {
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
	if in.field.Format != "" {
		return trimmed, nil
	}
	return text, nil
}

// check validates a value as the server will.
func (in *input) check(value any, err error) error {
	if in.t.over() {
		return nil
	}
	if err == nil {
		err = in.field.Validate(value)
	}
	if broken, ok := errors.AsType[*checkerr.FieldError](err); ok {
		return errors.New(broken.Rule) // the name stands beside it
	}
	return err
}

// checkText validates what was typed so far.
func (in *input) checkText(text string) error {
	if text == "" && in.t.accessible {
		text = in.initial
	}
	value, err := in.parse(text)
	return in.check(value, err)
}

func (in *input) widget() huh.Field {
	in.initial = in.text
	f, title, description := in.field, in.title(), in.description()
	switch {
	case f.Multiple:
		var choices []huh.Option[string]
		for _, choice := range f.Choices {
			choices = append(choices, huh.NewOption(choiceLabel(choice), choice.Value))
		}
		list := huh.NewMultiSelect[string]().Title(title).Description(description).
			Options(choices...).Height(in.listHeight(len(choices))).Value(&in.choices).
			Validate(func(choices []string) error { return in.check(in.several(choices), nil) })
		if in.t.accessible && f.MaxItems != nil && *f.MaxItems > 0 { // lines say how many
			list.Limit(*f.MaxItems)
		}
		return list
	case in.isList():
		var choices []huh.Option[any]
		for _, choice := range f.Choices {
			choices = append(choices, huh.NewOption[any](choiceLabel(choice), choice.Value))
		}
		if f.Type == "boolean" {
			choices = append(choices, huh.NewOption[any]("Yes", true), huh.NewOption[any]("No", false))
		}
		if !f.Required {
			choices = append(choices, huh.NewOption[any]("(leave out)", nil))
		}
		return huh.NewSelect[any]().Title(title).Description(description).
			Options(choices...).Height(in.listHeight(len(choices))).Value(&in.choice).
			Validate(func(choice any) error { return in.check(choice, nil) })
	case f.Type == "boolean":
		return huh.NewConfirm().Title(title).Description(description).Value(&in.yes)
	case in.isArea():
		return huh.NewText().Title(title).Description(description).
			Lines(areaLines).Value(&in.text).Validate(in.checkText)
	}
	return huh.NewInput().Title(title).Description(description).Value(&in.text).Validate(in.checkText)
}

func choiceLabel(choice steps.Choice) string {
	return plain.Short(cmp.Or(choice.Title, choice.Value), maxLabel)
}

// listHeight includes the title and description, as the form library wants it.
func (in *input) listHeight(choices int) int {
	return min(choices, listLines) + 1 + strings.Count(in.description()+"\n", "\n")
}

func (in *input) title() string {
	title := plain.Short(in.field.Label(), maxLabel)
	if !in.field.Required {
		title += " (optional)"
	}
	if !in.t.accessible {
		return title
	}
	// In a form of lines the library shows only the title.
	if description := in.description(); description != "" {
		title += "\n" + description
	}
	if in.initial != "" {
		title += fmt.Sprintf("\nEmpty for: %s\n", in.initial)
	}
	return title + ":"
}

func (in *input) description() string {
	shown, left := plain.Clip(in.field.Description, maxDescription, maxHelpLines)
	if left > 0 {
		shown += fmt.Sprintf("… (%d more characters are not shown)", left)
	}
	return shown
}
