package pages

import (
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/steps"
)

// all has a field of every kind.
type all struct {
	Name   string    `json:"name" title:"Your name" jsonschema:"As in your passport." minLength:"2" maxLength:"5"`
	Story  string    `json:"story,omitempty" maxLength:"1000"`
	Mail   string    `json:"mail,omitempty" format:"email"`
	Site   string    `json:"site,omitempty" format:"uri"`
	Day    string    `json:"day,omitempty" format:"date"`
	At     time.Time `json:"at,omitzero"`
	Count  int       `json:"count,omitempty" minimum:"1" maximum:"9"`
	Price  float64   `json:"price,omitempty"`
	Sure   bool      `json:"sure"`
	Perhap *bool     `json:"perhaps,omitempty"`
	Size   string    `json:"size,omitempty" enum:"s=Small|m=Middle" default:"m"`
	Letter string    `json:"letter" enum:"a|b|c|d|e|f|g|h"`
	Extras []string  `json:"extras,omitempty" enum:"x=The first|y|z" maxItems:"2" default:"y"`
}

func formOf(t *testing.T) fields {
	t.Helper()
	step, err := (&steps.Form[all]{ID: "all", Message: "Everything"}).Step()
	require.NoError(t, err)
	list := fieldsOf(&step)
	require.Len(t, list, 13)
	return list
}

// Each kind of field has what it is entered with, and says what fits.
func TestFieldsOfForms(t *testing.T) {
	type shown struct{ Widget, Type, Mode, Hint, Value string }
	want := map[string]shown{
		"name": {"text", "text", "", "2 to 5 characters", ""}, "story": {"area", "text", "", "at most 1000 characters", ""},
		"mail": {"text", "email", "", "such as name@example.com", ""}, "site": {"text", "url", "", "a whole address, such as https://www.example.com", ""},
		"day": {"text", "date", "", "a day, as 2026-12-31", ""}, "at": {"text", "datetime-local", "", "a day and a time of UTC, as 2026-12-31T18:00:00Z", ""},
		"count": {"text", "text", "numeric", "a whole number from 1 to 9", ""}, "price": {"text", "text", "text", "a number, such as 1.5", ""},
		"sure": {"one", "", "", "", ""}, "perhaps": {"one", "", "", "", ""}, "size": {"one", "", "", "", "m"}, "letter": {"list", "", "", "", ""},
		"extras": {"several", "", "", "at most 2 can be chosen", ""},
	}
	options := map[string][]option{
		"sure":    {{"f8-0", "0", "Yes", false}, {"f8-1", "1", "No", false}},
		"perhaps": {{"f9-0", "0", "Yes", false}, {"f9-1", "1", "No", false}, {"f9-none", "", "(leave out)", true}},
		"size":    {{"f10-0", "0", "Small", false}, {"f10-1", "1", "Middle", true}, {"f10-none", "", "(leave out)", false}},
		"extras":  {{"f12-0", "0", "The first", false}, {"f12-1", "1", "y", true}, {"f12-2", "2", "z", false}},
	}
	for _, f := range formOf(t) {
		name := f.Field.Name
		assert.Equal(t, want[name], shown{f.Widget, f.Type, f.Mode, f.Hint, f.Value}, name)
		if o, listed := options[name]; listed {
			assert.Equal(t, o, f.Options, name)
		}
	}
	letter := formOf(t)[11]
	assert.Len(t, letter.Options, 9)
	assert.Equal(t, option{"f11-none", "", "Choose one", true}, letter.Options[0])
	assert.Equal(t, "f0-about f0-hint", formOf(t)[0].DescribedBy())
}

// What browsers send becomes what the form's answer is, and what they do not send is left out.
func TestFieldsAreRead(t *testing.T) {
	content, fits := formOf(t).read(url.Values{
		"f0": {"Ann"}, "f1": {"one\r\ntwo"}, "f2": {" a@example.com "}, "f3": {"https://example.com"}, "f4": {"2026-12-31"}, "f5": {"2026-12-31T18:00"},
		"f6": {" 7 "}, "f7": {"-1.5"}, "f8": {"0"}, "f9": {"1"}, "f10": {""}, "f11": {"7"}, "f12": {"2", "0"}, "f99": {"x"},
	})
	require.True(t, fits)
	raw, err := json.Marshal(content)
	require.NoError(t, err)
	assert.JSONEq(t, `{"name":"Ann","story":"one\ntwo","mail":"a@example.com","site":"https://example.com","day":"2026-12-31","at":"2026-12-31T18:00:00Z",
		"count":7,"price":-1.5,"sure":true,"perhaps":false,"letter":"h","extras":["x","z"]}`, string(raw))

	content, fits = formOf(t).read(url.Values{"f0": {"Ann"}, "f1": {""}, "f6": {" "}, "f8": {"1"}, "f11": {"0"}})
	require.True(t, fits)
	assert.Equal(t, map[string]any{"name": "Ann", "sure": false, "letter": "a"}, content)
	for text, want := range map[string]string{
		"2026-12-31T18:00:05": "2026-12-31T18:00:05Z", "2026-12-31T18:00:05.25": "2026-12-31T18:00:05.25Z",
		"2026-12-31T18:00:00+02:00": "2026-12-31T18:00:00+02:00", "tomorrow": "tomorrow",
	} {
		assert.Equal(t, want, zoned(text))
	}
}

// What does not fit is shown again as it was sent, each with the rule that it breaks.
func TestFieldsThatDoNotFit(t *testing.T) {
	list := formOf(t)
	_, fits := list.read(url.Values{
		"f0": {"A"}, "f1": {"x"}, "f2": {"nobody"}, "f3": {"there"}, "f4": {"31.12."}, "f5": {"later"}, "f6": {"1.5"}, "f7": {"NaN"},
		"f8": {"2"}, "f9": {"0", "1"}, "f10": {"-1"}, "f12": {"0", "1", "2"},
	})
	require.False(t, fits)
	assert.True(t, list.Failed())
	rules := map[string]string{}
	for _, f := range list {
		if f.Error != "" {
			rules[f.Field.Name] = f.Error
		}
	}
	offered := "must be one of those that are offered"
	assert.Equal(t, "must be at least 2 characters long", rules["name"])
	assert.Equal(t, []string{"must be a whole number", "must be a number", offered, offered, offered, "is required", "takes at most 2 choices"},
		[]string{rules["count"], rules["price"], rules["sure"], rules["perhaps"], rules["size"], rules["letter"], rules["extras"]})
	for _, name := range []string{"mail", "site", "day", "at"} {
		assert.NotEmpty(t, rules[name], name)
	}
	assert.NotContains(t, rules, "story")
	assert.Equal(t, []string{"A", "nobody", "1.5"}, []string{list[0].Value, list[2].Value, list[6].Value})
	assert.True(t, list[12].Options[0].Chosen)
	assert.Equal(t, "f0-about f0-hint f0-error", list[0].DescribedBy())
	assert.Equal(t, "f8-0", list[8].First())
}

// Choices are told apart by their places: an empty one is not the same as none.
func TestChoicesMayBeAnything(t *testing.T) {
	form := &steps.FormSpec{Message: "Which?", Fields: []steps.Field{{Name: "", Choices: []steps.Choice{{Value: "", Title: "None"}, {Value: "a\r\nb"}}, Default: ""}}}
	step := steps.Step{Kind: steps.Elicitation, Params: form.AppendParams(nil)}
	for value, want := range map[string]map[string]any{"0": {"": ""}, "1": {"": "a\r\nb"}, "": {}} {
		list := fieldsOf(&step)
		assert.True(t, list[0].Options[0].Chosen)
		content, fits := list.read(url.Values{"f0": {value}})
		assert.True(t, fits)
		assert.Equal(t, want, content)
	}
}
