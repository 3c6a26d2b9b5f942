package steps_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/steps"
)

func TestParseFormReadsWhatIsWritten(t *testing.T) {
	step := mustStep(t, everything)
	spec, err := steps.Step{Params: step.Params}.Form()
	require.NoError(t, err)
	assert.Equal(t, string(step.Params), string(spec.AppendParams(nil)))
	f, ok := spec.Field("legacy")
	require.True(t, ok)
	assert.Equal(t, steps.Field{Name: "legacy", Type: "string", Required: true, LegacyTitles: true,
		Choices: []steps.Choice{{Value: "a", Title: "An A"}, {Value: "b", Title: "A B"}}}, f)
	_, ok = spec.Field("nope")
	assert.False(t, ok)
}

func TestParseFormIsLenientWithOtherServers(t *testing.T) {
	spec, err := steps.Step{Params: json.RawMessage(`{"mode":"form","message":"m","_meta":{},"requestedSchema":{
		"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,"properties":{
		"a":{"type":"string","format":"hostname","pattern":"x","default":"","title":null},
		"b":{"type":"array","items":{"anyOf":[{"const":"x","title":"X"}]},"uniqueItems":true},
		"c":{"type":"integer","default":3.0,"minimum":1e0}},"required":["c"]}}`)}.Form()
	require.NoError(t, err)
	assert.Equal(t, &steps.FormSpec{Message: "m", Fields: []steps.Field{
		{Name: "a", Type: "string", Format: "hostname", Default: ""},
		{Name: "b", Type: "string", Multiple: true, Choices: []steps.Choice{{Value: "x", Title: "X"}}},
		{Name: "c", Type: "integer", Required: true, Default: int64(3), Minimum: new(1.0)},
	}}, spec)
}

func TestParseFormRefusals(t *testing.T) {
	for doc, want := range map[string]string{
		`[`:               "it is not valid JSON",
		`{"mode":"url"}`:  `mode: is not "form"`,
		`{}`:              "message: must be a string",
		`{"message":"m"}`: `requestedSchema.type: must be "object"`,
		`{"message":"m","requestedSchema":{"type":"array"}}`:                                   `requestedSchema.type: must be "object"`,
		`{"message":"m","requestedSchema":{"type":"object"}}`:                                  "requestedSchema.properties: must be an object",
		`{"message":"m","requestedSchema":{"type":"object","properties":{},"required":1}}`:     "requestedSchema.required: must be a list of strings",
		`{"message":"m","requestedSchema":{"type":"object","properties":{},"required":["a"]}}`: "requestedSchema.required: names a field that is not there",
	} {
		_, err := steps.Step{Params: json.RawMessage(doc)}.Form()
		assert.EqualError(t, err, "question: "+want, doc)
	}
	for prop, want := range map[string]string{
		`1`:                                                     `: must be an object`,
		`{}`:                                                    `: type must be string, number, integer, boolean or array`,
		`{"type":["string","null"]}`:                            `.type: must be a string`,
		`{"type":"object"}`:                                     `: type must be string, number, integer, boolean or array`,
		`{"type":"string","title":1}`:                           `.title: must be a string`,
		`{"type":"string","minLength":-1}`:                      `.minLength: must be a whole number from 0 on`,
		`{"type":"string","maxLength":1.5}`:                     `.maxLength: must be a whole number from 0 on`,
		`{"type":"string","enum":[]}`:                           `: enum must be a list of strings`,
		`{"type":"string","enum":[1]}`:                          `: enum must be a list of strings`,
		`{"type":"string","enum":1}`:                            `: enum must be a list of strings`,
		`{"type":"string","oneOf":[]}`:                          `: oneOf must be a list of objects with const and title`,
		`{"type":"string","oneOf":1}`:                           `: oneOf must be a list of objects with const and title`,
		`{"type":"string","oneOf":[{"title":"x"}]}`:             `: oneOf must be a list of objects with const and title`,
		`{"type":"string","enum":["a"],"enumNames":[]}`:         `: enumNames must be as many strings as there are in enum`,
		`{"type":"string","enumNames":["a"]}`:                   `: enumNames must be as many strings as there are in enum`,
		`{"type":"string","default":1}`:                         `: the default 1 is not valid: it must be text`,
		`{"type":"number","minimum":"1"}`:                       `.minimum: must be a number`,
		`{"type":"number","maximum":1e999}`:                     `.maximum: must be a number`,
		`{"type":"number","default":1e999}`:                     `: the default 1e999 is not valid: it must be a number`,
		`{"type":"integer","default":1.5}`:                      `: the default 1.5 is not valid: it must be a whole number`,
		`{"type":"boolean","default":"true"}`:                   `: the default "true" is not valid: it must be yes or no (true or false)`,
		`{"type":"array"}`:                                      `: items must have an enum or anyOf`,
		`{"type":"array","items":{"type":"object"}}`:            `: items must be strings`,
		`{"type":"array","items":{"enum":["a"]},"default":"a"}`: `: the default "a" is not valid: it must be a list of choices`,
	} {
		_, err := steps.Step{Params: json.RawMessage(`{"message":"m","requestedSchema":{"type":"object","properties":{"p":` + prop + `}}}`)}.Form()
		assert.EqualError(t, err, "question: requestedSchema.properties.p"+want, prop)
	}
}

func TestLink(t *testing.T) {
	link := &steps.Link{ID: "pay", Message: "Pay <here>", URL: "https://pay.example/1?a=b&c=d"}
	require.NoError(t, link.Verify())
	step := mustStep(t, link)
	golden(t, "link", step.Params)
	assert.Equal(t, steps.Features{Links: true}, step.Needs)
	assert.False(t, step.Varied)
	spec, err := steps.Step{Params: step.Params}.Link()
	require.NoError(t, err)
	assert.Equal(t, &steps.Link{Message: link.Message, URL: link.URL}, spec)

	varied := mustStep(t, link.With(steps.URL("http://127.0.0.1:8080/x"), steps.Message("m"), nil))
	assert.True(t, varied.Varied)
	assert.Equal(t, `{"mode":"url","message":"m","url":"http://127.0.0.1:8080/x"}`, string(varied.Params))

	for u, want := range map[string]string{
		"":                        "has no URL: declare one, or ask With(steps.URL(...))",
		"/x":                      "the URL is not a valid absolute URL",
		"https://a b/":            "the URL is not a valid absolute URL",
		"http://example.com/":     "the URL must be https (http only on this computer)",
		"http://10.0.0.1/":        "the URL must be https (http only on this computer)",
		"http://localhost.evil/":  "the URL must be https (http only on this computer)",
		"javascript:alert(1)":     "the URL names no host",
		"ftp://a/":                "the URL must be https (http only on this computer)",
		"https://user:pass@host/": "the URL holds a user name or password",
	} {
		_, err := link.With(steps.URL(u)).Step()
		assert.EqualError(t, err, `question "pay": `+want, u)
	}
	for _, u := range []string{"http://localhost/", "http://[::1]:1/", "https://example.com"} {
		mustStep(t, link.With(steps.URL(u)))
	}
	assert.Error(t, (&steps.Link{ID: "l", Message: "m", URL: "http://x/"}).Verify())
	open := &steps.Link{ID: "l", Message: "m"}
	require.NoError(t, open.Verify())
	_, err = open.Step()
	assert.Error(t, err)
	_, err = link.With(steps.Message("")).Step()
	assert.ErrorContains(t, err, "has no Message")

	require.NoError(t, link.Check(step, json.RawMessage(`{"action":"accept"}`)))
	var me *checkerr.MalformedError
	assert.ErrorAs(t, link.Check(step, json.RawMessage(`{"action":"maybe"}`)), &me)
	assert.NoError(t, link.Answer(result("pay", `{"action":"accept"}`)))
	assert.ErrorIs(t, link.Answer(result("pay", `{"action":"decline"}`)), steps.ErrDeclined)

	for _, doc := range []string{``, `{}`, `{"mode":"url"}`, `{"mode":"url","message":"m"}`, `{"mode":"url","message":"m","url":"file:///etc"}`} {
		var qe *steps.QuestionError
		_, err := steps.Step{Params: json.RawMessage(doc)}.Link()
		assert.ErrorAs(t, err, &qe, doc)
	}
}

func TestRoots(t *testing.T) {
	roots := &steps.RootsList{ID: "roots"}
	step := mustStep(t, roots)
	assert.Equal(t, steps.Step{ID: "roots", Kind: steps.Roots, Params: json.RawMessage(`{}`), Needs: steps.Features{Roots: true}}, step)
	got, err := roots.Answer(result("roots", `{"roots":[{"uri":"file:///home/ada","name":"Home"},{"uri":"file:///tmp"}]}`))
	require.NoError(t, err)
	assert.Equal(t, []steps.Root{{URI: "file:///home/ada", Name: "Home"}, {URI: "file:///tmp"}}, got)
	assert.NoError(t, roots.Check(step, json.RawMessage(`{"roots":[]}`)))
	for doc, want := range map[string]string{
		`1`:             "it is not a JSON object",
		`{}`:            "roots: must be an array",
		`{"roots":[1]}`: "roots[0]: must be an object",
		`{"roots":[{"uri":"file:///a"},{"uri":"https://a/"}]}`: "roots[1].uri: must be a file:// URI",
		`{"roots":[{"uri":1}]}`:                                "roots[0].uri: must be a string",
		`{"roots":[{"uri":"file:///a","name":1}]}`:             "roots[0].name: must be a string",
	} {
		var me *checkerr.MalformedError
		require.ErrorAs(t, roots.Check(step, json.RawMessage(doc)), &me)
		assert.Equal(t, want, me.Reason)
		_, err := roots.Answer(result("roots", doc))
		assert.ErrorAs(t, err, &me)
	}
	_, err = roots.Answer(answers{})
	assert.ErrorIs(t, err, steps.ErrNotAsked)
	_, err = (&steps.RootsList{}).Step()
	assert.Error(t, err)
}

func TestNamesOfKindsAndFeatures(t *testing.T) {
	assert.Equal(t, "elicitation sampling roots Kind(9)", strings.Join([]string{
		steps.Elicitation.String(), steps.Sampling.String(), steps.Roots.String(), steps.Kind(9).String()}, " "))
	assert.Equal(t, "elicitation.form, elicitation.url, sampling, sampling.tools, sampling.context, roots", steps.AllFeatures().String())
	assert.True(t, steps.AllFeatures().Has(steps.Features{SamplingTools: true, Roots: true}))
	assert.False(t, steps.Features{Sampling: true}.Has(steps.Features{Sampling: true, Roots: true}))
	assert.ErrorContains(t, &steps.ClientError{Code: 3, Message: "x"}, "x (code 3)")
}
