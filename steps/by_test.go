package steps_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/steps"
)

type approval struct {
	Limit int `json:"limit,omitempty"`
}

func newApproval() *steps.Form[approval] {
	return &steps.Form[approval]{ID: "approve", Message: "May it?", By: steps.By{"finance"}, Within: time.Hour}
}

func TestFormsForOthersAreVerified(t *testing.T) {
	assert.NoError(t, newApproval().Verify())
	assert.NoError(t, (&steps.Form[approval]{ID: "a", Message: "x", Within: 1}).Verify(), "With may say by whom")
	for says, f := range map[string]*steps.Form[approval]{
		"a By and no Within":    {ID: "a", Message: "x", By: steps.By{"b"}},
		"Say for how long":      {ID: "a", Message: "x", AllowCaller: true},
		"has a By":              {ID: "a", Message: "x", By: steps.By{"b"}, Within: -1},
		"longer than ten years": {ID: "a", Message: "x", By: steps.By{"b"}, Within: 1 << 62},
		"more than 8":           {ID: "a", Message: "x", By: strings.Split("a b c d e f g h i", " "), Within: 1},
		"that is empty":         {ID: "a", Message: "x", By: steps.By{""}, Within: 1},
		"longer than 256":       {ID: "a", Message: "x", By: steps.By{strings.Repeat("x", 257)}, Within: 1},
	} {
		err := f.Verify()
		var wrong *steps.QuestionError
		require.ErrorAs(t, err, &wrong, says)
		assert.Contains(t, strings.ToLower(err.Error()), strings.ToLower(says))
	}
	_, err := (&steps.Form[approval]{ID: "a", Message: "x", Within: 1}).Step()
	assert.ErrorContains(t, err, "no one who may answer")
	_, err = (&steps.Form[approval]{ID: "a", Message: "x"}).With(steps.By{"b"}).Step()
	assert.ErrorContains(t, err, "is for the user of the client")
}

// The parameters are kept in sagas that wait: they do not change. No client is sent such a step.
func TestStepsOfFormsForOthers(t *testing.T) {
	s, err := newApproval().Step()
	require.NoError(t, err)
	const schema = `"requestedSchema":{"type":"object","properties":{"limit":{"type":"integer"}}}`
	assert.Equal(t, steps.Step{ID: "approve", Kind: steps.Outside, Params: json.RawMessage(`{"message":"May it?",` + schema + `,"within":3600000000000,"by":["finance"]}`)}, s)
	allowed := newApproval()
	allowed.AllowCaller = true
	s, err = allowed.Nth(2).With(steps.By{"jo", "sam"}, steps.Message("This?")).Step()
	require.NoError(t, err)
	assert.Equal(t, steps.Step{ID: "approve#2", Kind: steps.Outside, Varied: true,
		Params: json.RawMessage(`{"message":"This?",` + schema + `,"within":3600000000000,"by":["jo","sam"],"allowCaller":true}`)}, s)
	form, err := s.Form()
	require.NoError(t, err)
	assert.Equal(t, "This?", form.Message)
}

func TestAnswersOfOthers(t *testing.T) {
	const who = `,"at":"2026-05-04T03:02:01Z","by":"jo","from":"192.0.2.1"`
	for _, test := range []struct {
		result, who string
		want        approval
		err         error
	}{
		{`{"action":"accept","content":{"limit":5}` + who + `}`, "jo", approval{5}, nil},
		{`{"action":"decline"` + who + `}`, "jo", approval{}, steps.ErrDeclined},
		{`{"action":"timeout"}`, "", approval{}, steps.ErrTimeout},
	} {
		f, given := newApproval(), answers{"approve": {StepID: "approve", Result: json.RawMessage(test.result)}}
		got, err := f.Answer(given)
		assert.Equal(t, test.want, got)
		assert.ErrorIs(t, err, test.err)
		by, at := f.AnsweredBy(given)
		assert.Equal(t, test.who, by)
		assert.Equal(t, test.who != "", at.Equal(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)))
	}
	plain := &steps.Form[approval]{ID: "approve", Message: "May it?"}
	forged := answers{"approve": {StepID: "approve", Result: json.RawMessage(`{"action":"timeout","by":"jo"}`)}}
	who2, _ := plain.AnsweredBy(forged)
	assert.Empty(t, who2, "clients do not say who they are")
	_, err := plain.Answer(forged)
	assert.ErrorContains(t, err, "action")
	assert.NotErrorIs(t, err, steps.ErrTimeout)
	s, err := plain.Step()
	require.NoError(t, err)
	assert.Error(t, plain.Check(s, forged["approve"].Result))
	none, _ := newApproval().AnsweredBy(answers{})
	assert.Empty(t, none)
}
