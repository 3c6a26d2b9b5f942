package revision

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/steps"
)

// Titles of a single choice are written as 2025-06-18 has them. What has no titles, or is a choice of
// several, which did not exist, stays as it is.
func TestTitlesOfChoices(t *testing.T) {
	form := func(field string) json.RawMessage {
		return json.RawMessage(`{"message":"m","requestedSchema":{"type":"object","properties":{"f":` + field + `}}}`)
	}
	for name, c := range map[string]struct{ field, before string }{
		"titled":             {`{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}]}`, `{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]}`},
		"one title":          {`{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"g"}]}`, `{"type":"string","enum":["r","g"],"enumNames":["Red","g"]}`},
		"without titles":     {`{"type":"string","enum":["r","g"]}`, ""},
		"titled before":      {`{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]}`, ""},
		"several, titled":    {`{"type":"array","items":{"anyOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}]}}`, ""},
		"several, no titles": {`{"type":"array","items":{"type":"string","enum":["r","g"]}}`, ""},
		"a text":             {`{"type":"string","title":"Text"}`, ""},
	} {
		if c.before == "" {
			c.before = c.field
		}
		s := steps.Step{ID: "s", Kind: steps.Elicitation, Params: form(c.field)}
		for _, version := range []string{"2025-06-18", "2025-03-26", "2024-11-05"} {
			got, err := Negotiate(version).Question(s)
			require.NoError(t, err, name)
			assert.JSONEq(t, string(form(c.before)), string(got), "%s, %s", name, version)
		}
	}
}
