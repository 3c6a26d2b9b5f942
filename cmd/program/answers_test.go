package program

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/steps"
)

func askForm(id string) *client.Request {
	return &client.Request{
		StepID: id, Params: json.RawMessage(`{"message":"How many?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"]}}`),
		Mode: "form", Message: "How many?",
	}
}

func askLink(id string) *client.Request {
	return &client.Request{StepID: id, Mode: "url", URL: "https://example.com"}
}

func askSample(id string) *client.Request {
	return &client.Request{
		StepID: id,
		Sample: &steps.SampleRequest{MaxTokens: 1, Messages: []steps.SampleMessage{steps.UserText("Is it safe?")}},
	}
}

func TestAnswers(t *testing.T) {
	f, err := parseAnswers([]byte(`{
		"form": {"n": 2}, "no": "decline", "away": "cancel", "small": {"n": 0}, "odd": 7,
		"link": "accept", "text": "Yes.", "refuse": null,
		"whole": {"role":"assistant","content":{"type":"text","text":"Yes!"},"model":"m"}
	}`))
	require.NoError(t, err)
	for id, action := range map[string]string{"form": "accept", "form#3": "accept", "no": "decline", "away": "cancel"} {
		got, err := f.elicit(askForm(id))
		require.NoError(t, err)
		assert.Equal(t, action, got.Action)
	}
	got, err := f.elicit(askLink("link"))
	require.NoError(t, err)
	assert.Equal(t, client.Accept(nil), got)

	for _, id := range []string{"small", "odd", "text"} {
		_, err := f.elicit(askForm(id))
		require.Equal(t, exitNeedsAnswer, exitCode(err), id)
		require.ErrorContains(t, err, "the answer for step")
		require.ErrorIs(t, err, client.ErrPause)
	}
	for _, r := range []*client.Request{askForm("unknown"), askForm("form~2"), askForm("form#1~2")} {
		_, err := f.elicit(r)
		require.Equal(t, exitNeedsAnswer, exitCode(err), r.StepID)
		require.ErrorIs(t, err, client.ErrPause)
		assert.Contains(t, err.Error(), "How many?")
	}

	said, err := f.sample(askSample("text"))
	require.NoError(t, err)
	assert.Equal(t, "Yes.", said.Text())
	said, err = f.sample(askSample("whole"))
	require.NoError(t, err)
	assert.Equal(t, "m", said.Model)
	_, err = f.sample(askSample("refuse"))
	require.ErrorAs(t, err, new(*client.Error))
	_, err = f.sample(askSample("odd"))
	require.Equal(t, exitNeedsAnswer, exitCode(err))
	_, err = f.sample(askSample("unknown"))
	require.ErrorContains(t, err, "Is it safe?")
}

// A file has names and values where a person sees titles.
func TestUnfitAnswersAreToldNamesAndValues(t *testing.T) {
	f, err := parseAnswers([]byte(`{"cake":{"flavor":"Lemon, fresh"}}`))
	require.NoError(t, err)
	_, err = f.elicit(&client.Request{StepID: "cake", Mode: "form", Params: json.RawMessage(`{"message":"Which?","requestedSchema":{"type":"object","properties":{
		"flavour":{"type":"string","title":"Flavour","oneOf":[{"const":"nut","title":"Nut"},{"const":"lemon","title":"Lemon, fresh"}]},
		"tiers":{"type":"integer"}},"required":["flavour"]}}`)})
	require.ErrorContains(t, err, `Flavour: is required`)
	require.ErrorContains(t, err, `(its fields: flavour "nut" or "lemon", tiers)`)
}

func TestLoadAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "answers.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"a":{}}`), 0o600))
	f, err := new(program).loadAnswers(path)
	require.NoError(t, err)
	assert.True(t, f["a"] != nil)
	assert.False(t, f["b"] != nil)
	_, err = new(program).loadAnswers(path + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"a":{"n":1}}`))
	f.Add([]byte(`{"a":"decline","a":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parseAnswers(data)
		if err != nil {
			return
		}
		for id := range file {
			_, _ = file.elicit(askForm(id))
			_, _ = file.elicit(askLink(id))
			_, _ = file.sample(askSample(id))
		}
	})
}
