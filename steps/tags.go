package steps

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcpsaga/mcpsaga/internal/fieldtags"
	"github.com/mcpsaga/mcpsaga/internal/secretname"
)

const secretReason = "looks like a secret, and MCP forbids to ask for secrets in a form: use a steps.Link " +
	`(URL mode), or say why it is none in the tag notsecret:"..."`

// applyTags adds to a field what its tags say.
func applyTags(g *goField, f *Field) error {
	k := fieldtags.Keywords{Minimum: f.Minimum, Maximum: f.Maximum}
	if err := k.Read(g.Tag, kindOf(g, f), fieldtags.Form); err != nil {
		var problem *fieldtags.Error
		errors.As(err, &problem)
		return g.fail(problem.Tag, problem.Reason)
	}
	f.Title, f.LegacyTitles, f.notSecret = k.Title, k.LegacyTitles, k.NotSecret
	f.MinLength, f.MaxLength, f.MinItems, f.MaxItems = k.MinLength, k.MaxLength, k.MinItems, k.MaxItems
	f.Minimum, f.Maximum = k.Minimum, k.Maximum
	if k.Format != "" {
		f.Format = k.Format
	}
	for _, c := range k.Choices {
		f.Choices = append(f.Choices, Choice{Value: c.Value, Title: c.Title})
	}
	if k.Default != nil {
		if reason := f.setDefault(*k.Default); reason != "" {
			return g.fail("default", reason)
		}
	}
	if !f.notSecret && f.free() && (secretname.Looks(f.Name) || secretname.Looks(f.Title)) {
		return g.fail("", secretReason)
	}
	return nil
}

func kindOf(g *goField, f *Field) fieldtags.Kind {
	switch chooses := len(f.Choices) > 0; {
	case f.Multiple && chooses:
		return fieldtags.ChoiceList
	case f.Multiple:
		return fieldtags.TextList
	case chooses:
		return fieldtags.Choosing
	case g.base() == timeType:
		return fieldtags.Time
	}
	return map[string]fieldtags.Kind{
		typeString: fieldtags.Text, typeBoolean: fieldtags.Bool, typeInteger: fieldtags.Integer, typeNumber: fieldtags.Number,
	}[f.Type]
}

// setDefault reads the value of a default tag and returns what is wrong with it.
func (f *Field) setDefault(v string) string {
	var err error
	switch {
	case f.Multiple:
		f.Default = strings.Split(v, "|")
	case f.Type == typeString:
		f.Default = v
	case f.Type == typeBoolean:
		f.Default, err = strconv.ParseBool(v)
	case f.Type == typeInteger:
		f.Default, err = strconv.ParseInt(v, 10, 64)
	default:
		var x float64
		x, err = strconv.ParseFloat(v, 64)
		f.Default = x
	}
	if err != nil {
		return fmt.Sprintf("%q is not of the type %s", v, f.Type)
	}
	return ""
}
