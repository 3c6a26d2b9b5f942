package steps_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/steps"
)

type common struct {
	Note *string `json:"note" jsonschema:"anything <else> & more" title:"Your note"`
}

// Everything has every kind of field.
type Everything struct {
	Text     string    `json:"text" minLength:"2" maxLength:"5" default:"draft"`
	Email    string    `json:"email" format:"email"`
	URI      string    `json:"uri,omitempty" format:"uri"`
	Day      string    `json:"day,omitzero" format:"date" default:"2026-07-28"`
	When     time.Time `json:"when,omitzero"`
	Count    int       `json:"count" minimum:"1" maximum:"5" default:"3"`
	Small    uint8     `json:"small,omitempty"`
	Ratio    float64   `json:"ratio,omitempty" minimum:"-0.5" maximum:"0.000001" default:"0"`
	Sure     bool      `json:"sure" default:"true"`
	One      string    `json:"one" enum:"a|b" default:"b"`
	Titled   string    `json:"titled" enum:"a=An A|b"`
	Legacy   string    `json:"legacy" enum:"a=An A|b=A B" enumNames:"legacy"`
	Region   Region    `json:"region" default:"eu"`
	Many     []string  `json:"many" enum:"a|b|c" minItems:"1" maxItems:"2" default:"a|c"`
	Regions  []Region  `json:"regions,omitempty"`
	Unnamed  string
	PinLevel int    `json:"pin,omitempty" notsecret:"the height of a bowling pin"`
	Skipped  string `json:"-"`
	hidden   string
	common
}

var everything = &steps.Form[Everything]{ID: "all", Message: "Everything?"}

func TestFormGolden(t *testing.T) {
	golden(t, "form-everything", mustStep(t, everything).Params)
	golden(t, "form-empty", mustStep(t, &steps.Form[struct{}]{ID: "go", Message: "Go on?"}).Params)
	golden(t, "form-varied", mustStep(t, everything.With(
		steps.Message("Which <one>?"),
		steps.Choices("text", steps.Choice{Value: "v1..HEAD", Title: "since v1"}, steps.Choice{Value: "all"}),
		steps.Choices("many", steps.Choice{Value: "x"}, steps.Choice{Value: "y"}),
		steps.Default("count", uint16(4)), steps.Default("ratio", -0.25), steps.Default("many", []Region{"x"}),
		steps.Default("when", time.Date(2026, 7, 28, 1, 2, 3, 0, time.UTC)), steps.Default("sure", nil),
		steps.Default("region", Region("us")), steps.Title("email", "Mail"), steps.Description("email", "where to"),
		nil,
	)).Params)
	_ = Everything{}.hidden
}

func TestProposalsForm(t *testing.T) {
	form := &steps.Form[Target]{ID: "step-elicitation-A", Message: "Please provide the deployment target:"}
	step := mustStep(t, form)
	assert.Equal(t, steps.Step{ID: "step-elicitation-A", Kind: steps.Elicitation, Needs: steps.Features{Forms: true}, Params: json.RawMessage(
		`{"message":"Please provide the deployment target:","requestedSchema":{"type":"object","properties":{"target":{"type":"string"}},"required":["target"]}}`)}, step)
	assert.Equal(t, "step-elicitation-A", form.StepID())
	require.NoError(t, form.Verify())
}

func refusal[T any](t *testing.T, want string) {
	t.Helper()
	form := &steps.Form[T]{ID: "f", Message: "m"}
	err := form.Verify()
	var qe *steps.QuestionError
	require.ErrorAs(t, err, &qe, want)
	assert.Contains(t, err.Error(), want)
	assert.Contains(t, err.Error(), `question "f": `)
	_, stepErr := form.Step()
	assert.Equal(t, err, stepErr)
	_, stepErr = form.With().Step()
	assert.Equal(t, err, stepErr)
	assert.Equal(t, err, form.Check(steps.Step{ID: "f"}, json.RawMessage(`{"action":"cancel"}`)))
}

type embeddedPointer struct{ *common }

func TestRefusedForms(t *testing.T) {
	refusal[string](t, "string: a form is made from a struct")
	refusal[*Target](t, "*steps_test.Target: a form is made from a struct")
	refusal[time.Time](t, "time.Time: a form is made from a struct")
	refusal[struct{ A Target }](t, "struct { A steps_test.Target }.A: steps_test.Target is nested")
	refusal[struct{ A map[string]string }](t, "map[string]string is a map")
	refusal[struct{ A any }](t, "interface {} can be anything")
	refusal[struct{ A json.Number }](t, "json.Number is text to Go and a number to JSON; use float64")
	refusal[struct{ A []json.Number }](t, "json.Number is text to Go")
	refusal[struct{ A *json.Number }](t, "json.Number is text to Go")
	refusal[struct{ A []int }](t, "[]int is a list of something else than strings")
	refusal[struct{ A []byte }](t, "[]uint8 is a list of something else")
	refusal[struct{ A chan int }](t, "a form cannot have a chan int")
	refusal[struct{ A [2]string }](t, "a form cannot have a [2]string")
	refusal[struct{ A **string }](t, "points to a pointer")
	refusal[embeddedPointer](t, "only a struct without a json tag can be embedded")
	refusal[struct {
		A string `json:"B"`
		B string
	}](t, `.B: has the same name "B" as A`)
	refusal[struct {
		A int `json:",string"`
	}](t, `.A, tag json: the option "string" is not for forms`)
	refusal[struct {
		A string `pattern:"a"`
	}](t, "tag pattern: MCP does not allow this keyword")
	refusal[struct {
		A string `description:"a"`
	}](t, "write the description in the tag jsonschema")
	refusal[struct {
		A string `required:"true"`
	}](t, "a field is required unless")
	refusal[struct {
		A string `jsonschema:"a=b"`
	}](t, "must not begin with")
	refusal[struct {
		A string `minlength:"1"`
	}](t, "tag minlength: is written minLength")
	refusal[struct {
		A int `minLength:"1"`
	}](t, "tag minLength: is not for a number; allowed here: title, minimum, maximum, default, notsecret")
	refusal[struct {
		A bool `enum:"a"`
	}](t, "tag enum: is not for a boolean")
	refusal[struct {
		A string `enum:"a" minLength:"1"`
	}](t, "tag minLength: is not for a choice")
	refusal[struct {
		A string `enum:"a||b"`
	}](t, "has an empty choice")
	refusal[struct {
		A string `enum:"a|a"`
	}](t, `there are two choices "a"`)
	refusal[struct {
		A Region `enum:"a"`
	}](t, "the type has a method Choices already")
	refusal[struct {
		A none
	}](t, "returns none")
	refusal[struct {
		A string `enum:"a" enumNames:"yes"`
	}](t, `is "legacy", or left out`)
	refusal[struct {
		A string `format:"hostname"`
	}](t, `"hostname" is not a format MCP knows; allowed are email, uri, date and date-time`)
	refusal[struct {
		A time.Time `format:"date"`
	}](t, "a time.Time is always a date-time")
	refusal[struct {
		A string `minLength:"-1"`
	}](t, `"-1" is not a whole number from 0 on`)
	refusal[struct {
		A string `minLength:"2" maxLength:"1"`
	}](t, "tag maxLength: 1 is less than 2, the least allowed so far")
	refusal[struct {
		A []string `enum:"a" minItems:"2"`
	}](t, "minItems 2 is more than there are choices")
	refusal[struct {
		A []string `enum:"a|b" minItems:"2" maxItems:"1"`
	}](t, "tag maxItems: 1 is less than 2, the least allowed so far")
	refusal[struct {
		A int `minimum:"x"`
	}](t, `"x" is not a number`)
	refusal[struct {
		A int `minimum:"1.5"`
	}](t, `"1.5" is not a whole number`)
	refusal[struct {
		A uint8 `minimum:"-1"`
	}](t, "-1 is less than 0, the least allowed so far")
	refusal[struct {
		A int8 `maximum:"300"`
	}](t, "300 is more than 127")
	refusal[struct {
		A int `minimum:"3" maximum:"1"`
	}](t, "1 is less than 3")
	refusal[struct {
		A int `default:"x"`
	}](t, `field "A": the default "x" is not valid: it must be a whole number`)
	refusal[struct {
		A int `maximum:"3" default:"4"`
	}](t, "the default 4 is not valid: it must be at most 3")
	refusal[struct {
		A []string `default:"x"`
	}](t, "has a default but no choices")
	refusal[struct {
		APIKey string `json:"apiKey"`
	}](t, "MCP forbids to ask for secrets in a form: use a steps.Link")
	refusal[struct {
		A string `title:"Your password"`
	}](t, "looks like a secret")
	refusal[struct {
		A string `notsecret:" "`
	}](t, "says why the field is not a secret")
}

type none string

func (none) Choices() []steps.Choice { return nil }

func TestRefusedDeclarations(t *testing.T) {
	tooLong := strings.Repeat("a", 65)
	require.NoError(t, (&steps.Link{ID: tooLong[1:], Message: "m"}).Verify())
	for want, q := range map[string]steps.Question{
		"question: has no ID": &steps.Form[Target]{Message: "m"},
		`question "a#1": the ID holds "#", which separates the number that Nth adds`: &steps.Form[Target]{ID: "a#1", Message: "m"},
		`question "f": has no Message`: &steps.Form[Target]{ID: "f"},
		`question "l": has no Message`: &steps.Link{ID: "l"},
		`question "a\n": the ID must be 1 to 64 characters of A-Z a-z 0-9 _ - . : /`:             &steps.RootsList{ID: "a\n"},
		`question "a b": the ID must be 1 to 64 characters of A-Z a-z 0-9 _ - . : /`:             &steps.Sample{ID: "a b"},
		`question "` + tooLong + `": the ID must be 1 to 64 characters of A-Z a-z 0-9 _ - . : /`: &steps.Link{ID: tooLong},
	} {
		assert.EqualError(t, q.Verify(), want)
	}
	// A list may wait for its choices until it is asked.
	type List struct {
		Files []string `json:"files"`
	}
	list := &steps.Form[List]{ID: "l", Message: "Which?"}
	require.NoError(t, list.Verify())
	_, err := list.Step()
	assert.ErrorContains(t, err, `field "files": MCP allows a list only of choices`)
	_, err = list.With(steps.Choices("files", steps.Choice{Value: "a"})).Step()
	assert.NoError(t, err)
}

func TestSecretNames(t *testing.T) {
	spec := func(name string) error {
		_, err := (&steps.Form[Target]{ID: "f", Message: "m"}).With(steps.Title("target", name)).Step()
		return err
	}
	for _, name := range []string{"password", "Password", "userPassword", "api_key", "API-Key", "APIKey", "accessToken", "token",
		"clientSecret", "cardNumber", "Credit card", "cvv", "PIN", "privatekey", "mypassword1", "Enter the security code"} {
		assert.ErrorContains(t, spec(name), "looks like a secret", name)
	}
	for _, name := range []string{"", "target", "tokenCount", "maxTokens", "pinned", "key", "cardinality", "secretary", "Number of cards", "shipping", "pageToken", "nextPageToken"} {
		assert.NoError(t, spec(name), name)
	}
}

func TestRefusedVariations(t *testing.T) {
	for want, o := range map[string]steps.FormOption{
		`question "all": Choices("nope"): the form has no such field; it has "text", "email"`:  steps.Choices("nope", steps.Choice{Value: "a"}),
		`question "all": Choices("many"): there must be at least one choice`:                   steps.Choices("many"),
		`question "all": Choices("sure"): only a string or a list of strings can have choices`: steps.Choices("sure", steps.Choice{Value: "a"}),
		`question "all": Default("text"): the default {} is not valid: it must be text`:        steps.Default("text", struct{}{}),
		`question "all": Default("text"): the default 1 is not valid: it must be text`:         steps.Default("text", 1),
		`question "all": field "count": the default 9 is not valid: it must be at most 5`:      steps.Default("count", 9.0),
		`question "all": has no Message`:                                                       steps.Message(""),
	} {
		_, err := everything.With(o).Step()
		assert.ErrorContains(t, err, want)
	}
}

func TestAnswer(t *testing.T) {
	got, err := everything.Answer(result("all", `{"action":"accept","content":{"text":"abc","count":3.0,"small":2e2,"ratio":-0.5,"sure":true,
		"when":"2026-07-28T01:02:03Z","region":"us","many":["a","b"],"regions":["eu"],"extra":"x","Count":9,"note":"n"}}`))
	require.NoError(t, err)
	note := "n"
	assert.Equal(t, Everything{Text: "abc", Count: 3, Small: 200, Ratio: -0.5, Sure: true, When: time.Date(2026, 7, 28, 1, 2, 3, 0, time.UTC),
		Region: "us", Many: []string{"a", "b"}, Regions: []Region{"eu"}, common: common{Note: &note}}, got)

	got, err = everything.Answer(result("all", `{"action":"accept"}`))
	require.NoError(t, err)
	assert.Zero(t, got, "defaults are not filled in")

	for want, a := range map[error]steps.Answers{
		steps.ErrDeclined:  result("all", `{"action":"decline","content":7}`),
		steps.ErrCancelled: result("all", `{"action":"cancel"}`),
		steps.ErrNotAsked:  answers{},
	} {
		_, err := everything.Answer(a)
		assert.ErrorIs(t, err, want)
		var se *steps.StepError
		require.ErrorAs(t, err, &se)
		assert.Equal(t, "all", se.StepID)
	}
	_, err = everything.Answer(nil)
	assert.ErrorIs(t, err, steps.ErrNotAsked)
	_, err = everything.Answer(answers{"all": {Error: &steps.ClientError{Code: -1, Message: "no"}}})
	var ce *steps.ClientError
	require.ErrorAs(t, err, &ce)
	assert.EqualValues(t, -1, ce.Code)
	_, err = everything.Answer(result("all", `{}`))
	var me *checkerr.MalformedError
	assert.ErrorAs(t, err, &me)
	got, err = everything.Answer(result("all", `{"action":"accept","content":{"text":"abc","count":"x"}}`))
	assert.ErrorContains(t, err, `step "all": `)
	assert.Zero(t, got)
}

func TestNth(t *testing.T) {
	form := &steps.Form[Target]{ID: "item", Message: "Which?"}
	second := form.Nth(2)
	step := mustStep(t, second)
	assert.Equal(t, "item#2", step.ID)
	assert.Equal(t, mustStep(t, form).Params, step.Params)
	assert.Equal(t, "item#2#1", second.Nth(1).StepID())
	assert.Equal(t, "item", ident.Base(step.ID))
	assert.Equal(t, "item", ident.Base("item"))
	got, err := second.Answer(result("item#2", `{"action":"accept","content":{"target":"x"}}`))
	require.NoError(t, err)
	assert.Equal(t, "x", got.Target)
	var ie *checkerr.InvalidError
	require.ErrorAs(t, form.Check(step, json.RawMessage(`{"action":"accept"}`)), &ie)
	assert.Equal(t, "item#2", ie.StepID)
	assert.Error(t, (&steps.Form[Target]{Message: "m"}).Nth(1).Verify())
	for _, q := range []steps.Question{(&steps.Link{ID: "a", Message: "m", URL: "https://a/"}).Nth(3), (&steps.RootsList{ID: "a"}).Nth(3),
		(&steps.Sample{ID: "a", Request: steps.SampleRequest{MaxTokens: 1, Messages: []steps.SampleMessage{steps.UserText("x")}}}).Nth(3)} {
		require.NoError(t, q.Verify())
		assert.Equal(t, "a#3", mustStep(t, q).ID)
		assert.Equal(t, "a#3", q.StepID())
	}
}

func TestAgain(t *testing.T) {
	form := &steps.Form[Target]{ID: "t", Message: "Where?"}
	first := mustStep(t, form)
	invalid := &checkerr.InvalidError{Reason: "target: must be <x>"}
	again, err := first.Again(invalid.Reason)
	require.NoError(t, err)
	assert.True(t, again.Varied)
	assert.Equal(t, first.ID, again.ID)
	golden(t, "form-again", again.Params)
	third, err := again.Again(invalid.Reason)
	require.NoError(t, err)
	assert.Equal(t, string(again.Params), string(third.Params), "the reason does not pile up")
	assert.NoError(t, form.Check(again, json.RawMessage(`{"action":"accept","content":{"target":"x"}}`)))

	var qe *steps.QuestionError
	for _, bad := range []steps.Step{{Kind: steps.Roots, Params: json.RawMessage("{}")}, {Kind: steps.Elicitation}, {Kind: steps.Elicitation, Params: json.RawMessage("{}")}} {
		_, err = bad.Again(invalid.Reason)
		assert.ErrorAs(t, err, &qe)
	}
	_, err = first.Again("")
	assert.True(t, errors.As(err, &qe))
}

type zipCode string

func (z *zipCode) UnmarshalText(text []byte) error {
	if len(text) != 5 {
		return errors.New("a zip code has five digits")
	}
	*z = zipCode(text)
	return nil
}

// An answer that fits the form, and not the type, is the user's to correct.
func TestAnswersThatTheTypeRefuses(t *testing.T) {
	type embedded struct {
		Zip zipCode `json:"zip,omitempty"`
	}
	type address struct {
		embedded
		Near  float32    `json:"near,omitempty"`
		Since *time.Time `json:"since,omitempty"`
	}
	plain := &steps.Form[address]{ID: "a", Message: "?"}
	for _, form := range []*steps.Form[address]{plain, plain.Nth(2), plain.With(steps.Message("Again?"))} {
		for content, reason := range map[string]string{
			`{"zip":"12345","near":1.5,"since":"2026-01-02T03:04:05Z"}`: "", `{}`: "",
			`{"zip":"1"}`: "zip: a zip code has five digits", `{"near":1e300}`: "near: value out of range",
		} {
			step, err := form.Step()
			require.NoError(t, err)
			err = form.Check(step, json.RawMessage(`{"action":"accept","content":`+content+`}`))
			if reason == "" {
				assert.NoError(t, err, content)
				continue
			}
			invalid, ok := errors.AsType[*checkerr.InvalidError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, reason, invalid.Reason)
		}
	}
}

// A user who accepts a form without entering anything may be reported without content, whatever the types of its fields.
func TestStrictFormsMayBeLeftEmpty(t *testing.T) {
	form := &steps.Form[struct {
		Since *time.Time `json:"since,omitempty"`
	}]{ID: "f", Message: "m"}
	step := mustStep(t, form)
	for _, doc := range []string{`{"action":"accept","content":{}}`, `{"action":"accept","content":null}`, `{"action":"accept"}`} {
		assert.NoError(t, form.Check(step, json.RawMessage(doc)), doc)
		answer, err := form.Answer(result("f", doc))
		assert.NoError(t, err, doc)
		assert.Nil(t, answer.Since)
	}
}
