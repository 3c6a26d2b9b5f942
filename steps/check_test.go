package steps_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/steps"
)

type Rules struct {
	Text  string   `json:"text,omitempty" title:"The text" minLength:"2" maxLength:"3"`
	Full  string   `json:"full,omitempty" minLength:"1"`
	Email string   `json:"email,omitempty" format:"email"`
	URI   string   `json:"uri,omitempty" format:"uri"`
	Day   string   `json:"day,omitempty" format:"date"`
	When  string   `json:"when,omitempty" format:"date-time"`
	Int   int      `json:"int,omitempty" minimum:"1" maximum:"5"`
	Num   float64  `json:"num,omitempty" minimum:"0.5"`
	Yes   bool     `json:"yes,omitempty"`
	One   string   `json:"one,omitempty" enum:"staging=The stage|production"`
	Many  []string `json:"many,omitempty" enum:"a|b|c" minItems:"1" maxItems:"2"`
}

var rules = &steps.Form[Rules]{ID: "r", Message: "m"}

// checked is the reason a value is refused, by the three ways to validate it.
func checked(t *testing.T, doc string) string {
	t.Helper()
	step := mustStep(t, rules)
	result := json.RawMessage(`{"action":"accept","content":` + doc + `}`)
	declared := rules.Check(step, result)
	step.Varied = true
	assert.Equal(t, declared, rules.Check(step, result), "a varied step is validated alike")
	spec, err := steps.Step{Params: step.Params}.Form()
	require.NoError(t, err)
	var content map[string]any
	require.NoError(t, json.Unmarshal([]byte(doc), &content))
	client := spec.Validate(content)
	if declared == nil {
		assert.NoError(t, client)
		return ""
	}
	var ie, ce *checkerr.InvalidError
	require.ErrorAs(t, declared, &ie)
	require.ErrorAs(t, client, &ce)
	assert.Equal(t, ie.Reason, ce.Reason)
	assert.Equal(t, "r", ie.StepID)
	assert.Equal(t, `the content of step "r" is not valid: `+ie.Reason, ie.Error())
	assert.Equal(t, "the content is not valid: "+ie.Reason, ce.Error())
	return ie.Reason
}

func TestRules(t *testing.T) {
	for doc, want := range map[string]string{
		`{}`:                                     "",
		`{"unknown":"x","more":["y"]}`:           "",
		`{"text":"äöü"}`:                         "",
		`{"text":"a"}`:                           "The text: must be at least 2 characters long",
		`{"text":"abcd"}`:                        "The text: must be at most 3 characters long",
		`{"text":7}`:                             "The text: must be text",
		`{"full":""}`:                            "full: must not be empty",
		`{"email":"ada@example.com"}`:            "",
		`{"email":"Ada <a@b.c>"}`:                "email: must be an email address, such as ada@example.com",
		`{"email":"nobody"}`:                     "email: must be an email address, such as ada@example.com",
		`{"uri":"https://example.com/a?b#c"}`:    "",
		`{"uri":"urn:isbn:1"}`:                   "",
		`{"uri":"mailto:a@b"}`:                   "",
		`{"uri":"/relative"}`:                    "uri: must be an absolute URI, such as https://example.com/",
		`{"uri":"https://"}`:                     "uri: must be an absolute URI, such as https://example.com/",
		`{"uri":"a:"}`:                           "uri: must be an absolute URI, such as https://example.com/",
		`{"uri":"https://a/b c"}`:                "uri: must be an absolute URI, such as https://example.com/",
		`{"uri":"https://a/%zz"}`:                "uri: must be an absolute URI, such as https://example.com/",
		`{"day":"2024-02-29"}`:                   "",
		`{"day":"2026-02-29"}`:                   "day: must be a date written as 2026-07-28",
		`{"day":"2026-7-28"}`:                    "day: must be a date written as 2026-07-28",
		`{"when":"2026-07-28T15:04:05.5+02:00"}`: "",
		`{"when":"2026-07-28T15:04:05"}`:         "when: must be a date and time written as 2026-07-28T15:04:05Z",
		`{"when":"2026-07-28T15:04:05,5Z"}`:      "when: must be a date and time written as 2026-07-28T15:04:05Z",
		`{"int":3}`:                              "",
		`{"int":3.0}`:                            "",
		`{"int":30e-1}`:                          "",
		`{"int":3.5}`:                            "int: must be a whole number",
		`{"int":"3"}`:                            "int: must be a whole number",
		`{"int":1e300}`:                          "int: must be a whole number",
		`{"int":0}`:                              "int: must be at least 1",
		`{"int":6}`:                              "int: must be at most 5",
		`{"num":0.5}`:                            "",
		`{"num":0.25}`:                           "num: must be at least 0.5",
		`{"num":true}`:                           "num: must be a number",
		`{"yes":true}`:                           "",
		`{"yes":"true"}`:                         "yes: must be yes or no (true or false)",
		`{"one":"staging"}`:                      "",
		`{"one":"The stage"}`:                    `one: must be one of "The stage", "production"`,
		`{"one":1}`:                              `one: must be one of "The stage", "production"`,
		`{"many":["a","c"]}`:                     "",
		`{"many":"a"}`:                           "many: must be a list of choices",
		`{"many":["x"]}`:                         `many: must be chosen from "a", "b", "c"`,
		`{"many":[]}`:                            "many: needs at least 1 choice",
		`{"many":["a","b","c"]}`:                 "many: takes at most 2 choices",
		`{"text":"a","int":0}`:                   "The text: must be at least 2 characters long; int: must be at least 1",
	} {
		assert.Equal(t, want, checked(t, doc), doc)
	}
}

func TestRequiredAndLongLists(t *testing.T) {
	type need struct {
		A string `json:"a" enum:"1|2|3|4|5|6|7|8|9|10|11|12"`
		B bool   `json:"b"`
	}
	form := &steps.Form[need]{ID: "n", Message: "m"}
	step := mustStep(t, form)
	assert.EqualError(t, form.Check(step, json.RawMessage(`{"action":"accept","content":{"a":"1"}}`)), `the content of step "n" is not valid: b: is required`)
	assert.EqualError(t, form.Check(step, json.RawMessage(`{"action":"accept"}`)), `the content of step "n" is not valid: a: is required; b: is required`)
	assert.ErrorContains(t, form.Check(step, json.RawMessage(`{"action":"accept","content":{"a":"0","b":true}}`)), `"10", …`)
}

func TestMalformedResults(t *testing.T) {
	step := mustStep(t, rules)
	for doc, want := range map[string]string{
		``:                                      "it is not valid JSON",
		`{"action":"accept"`:                    "it is not valid JSON",
		`{"action":"cancel","action":"accept"}`: "it is not valid JSON",
		`[]`:                                    "it is not a JSON object",
		`null`:                                  "it is not a JSON object",
		`{}`:                                    `"action" must be "accept", "decline" or "cancel"`,
		`{"action":1}`:                          `"action" must be "accept", "decline" or "cancel"`,
		`{"action":"Accept"}`:                   `"action" must be "accept", "decline" or "cancel"`,
		`{"action":"accept","content":[]}`:      `"content" must be an object`,
		`{"action":"accept","content":{"x":null}}`:       `content member "x" must be a string, a number, a boolean or a list of strings`,
		`{"action":"accept","content":{"x":{}}}`:         `content member "x" must be a string, a number, a boolean or a list of strings`,
		`{"action":"accept","content":{"many":["a",1]}}`: `content member "many" must be a string, a number, a boolean or a list of strings`,
	} {
		err := rules.Check(step, json.RawMessage(doc))
		var me *checkerr.MalformedError
		require.ErrorAs(t, err, &me, doc)
		assert.Equal(t, want, me.Reason, doc)
		assert.EqualError(t, err, `the result of step "r" is malformed: `+want)
	}
	for _, doc := range []string{`{"action":"decline"}`, `{"action":"cancel","content":[{}]}`, `{"action":"accept","content":null,"_meta":{}}`} {
		assert.NoError(t, rules.Check(step, json.RawMessage(doc)), doc)
	}
	var qe *steps.QuestionError
	assert.ErrorAs(t, rules.Check(steps.Step{ID: "x", Varied: true}, json.RawMessage(`{"action":"cancel"}`)), &qe)
}

func TestFieldValidate(t *testing.T) {
	var zero steps.Field
	assert.NoError(t, zero.Validate("any text"))
	assert.NoError(t, zero.Validate(nil))
	f := steps.Field{Name: "n", Title: "Count", Type: "integer", Required: true, Minimum: new(2.0)}
	assert.EqualError(t, f.Validate(nil), "Count: is required")
	assert.EqualError(t, f.Validate(1), "Count: must be at least 2")
	assert.NoError(t, f.Validate(int64(2)))
	assert.NoError(t, f.Validate(2.0))
	assert.EqualError(t, f.Validate(struct{}{}), "Count: must be a whole number")
	many := steps.Field{Multiple: true, Choices: []steps.Choice{{Value: "a"}}}
	assert.NoError(t, many.Validate([]string{"a"}))
	assert.Error(t, many.Validate([]any{1}))
	var fe *checkerr.FieldError
	require.ErrorAs(t, f.Validate("x"), &fe)
	assert.Equal(t, &checkerr.FieldError{Name: "n", Label: "Count", Rule: "must be a whole number"}, fe)
}

// A form is declared once and used by every turn at the same time.
func TestFormConcurrently(t *testing.T) {
	form := &steps.Form[Rules]{ID: "r", Message: "m"}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			step, err := form.Step()
			assert.NoError(t, err)
			assert.NoError(t, form.Check(step, json.RawMessage(`{"action":"accept","content":{"int":3}}`)))
			_, err = form.Nth(2).With(steps.Message("x")).Step()
			assert.NoError(t, err)
		})
	}
	wg.Wait()
}
