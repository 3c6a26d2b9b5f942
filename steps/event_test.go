package steps_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/steps"
)

type paidValue struct {
	Cents int    `json:"cents" minimum:"1"`
	By    string `json:"by,omitempty"`
}

func newPaid() *steps.Event[paidValue] {
	return &steps.Event[paidValue]{ID: "paid", Message: "Waiting for the payment.", Within: time.Hour}
}

func TestEventsAreVerified(t *testing.T) {
	assert.NoError(t, newPaid().Verify())
	assert.NoError(t, newPaid().Nth(3).With(steps.Key("a")).Verify())
	for says, e := range map[string]steps.Question{
		"has no ID":          &steps.Event[paidValue]{Message: "x", Within: 1},
		"the ID holds":       &steps.Event[paidValue]{ID: "a#1", Message: "x", Within: 1},
		"has no Message":     &steps.Event[paidValue]{ID: "a", Within: 1},
		"has no Within":      &steps.Event[paidValue]{ID: "a", Message: "x"},
		"longer than ten":    &steps.Event[paidValue]{ID: "a", Message: "x", Within: 1 << 62},
		"the Key is longer":  newPaid().With(steps.Key(strings.Repeat("x", 300))),
		"the Key is empty":   newPaid().With(steps.Key("")),
		"not valid UTF-8":    newPaid().With(steps.Key("a\xff")),
		"unsupported":        &steps.Event[func()]{ID: "a", Message: "x", Within: 1},
		`question "negative`: &steps.Event[paidValue]{ID: "negative", Message: "x", Within: -1},
	} {
		var wrong *steps.QuestionError
		err := e.Verify()
		require.ErrorAs(t, err, &wrong, says)
		assert.ErrorContains(t, err, says)
		_, err = e.Step()
		assert.Error(t, err)
	}
}

// The parameters are kept in sagas that wait: they do not change.
func TestStepsOfEvents(t *testing.T) {
	s, err := newPaid().Step()
	require.NoError(t, err)
	assert.Equal(t, steps.Step{ID: "paid", Kind: steps.Outside, Params: json.RawMessage(`{"message":"Waiting for the payment.","within":3600000000000}`)}, s)
	assert.Equal(t, "outside", s.Kind.String())
	s, err = newPaid().Nth(2).With(steps.Key("17"), steps.Message("For 17."), nil).Step()
	require.NoError(t, err)
	assert.Equal(t, steps.Step{ID: "paid#2", Kind: steps.Outside, Varied: true, Params: json.RawMessage(`{"message":"For 17.","within":3600000000000,"key":"17"}`)}, s)
}

func TestAnswersToEvents(t *testing.T) {
	for _, test := range []struct {
		result string
		checks string // or empty
		want   paidValue
		err    error
		says   string
	}{
		{`{"action":"accept","content":{"cents":5,"by":"Jo"}}`, "", paidValue{5, "Jo"}, nil, ""},
		{`{"action":"accept","content":{"cents":0}}`, "cents", paidValue{}, nil, "cents"},
		{`{"action":"accept","content":{"cents":5,"more":1}}`, "more", paidValue{}, nil, "more"},
		{`{"action":"accept","content":[]}`, "object", paidValue{}, nil, "object"},
		{`{"action":"accept"}`, "no content", paidValue{}, nil, "no content"},
		{`{"action":"decline"}`, "", paidValue{}, steps.ErrDeclined, ""},
		{`{"action":"decline","reason":"no funds"}`, "", paidValue{}, steps.ErrDeclined, "no funds"},
		{`{"action":"timeout"}`, "", paidValue{}, steps.ErrTimeout, ""},
		{`{"action":"cancel"}`, "action", paidValue{}, nil, "action"},
		{`[]`, "object", paidValue{}, nil, "object"},
	} {
		e := newPaid()
		s, err := e.Step()
		require.NoError(t, err)
		if err = e.Check(s, json.RawMessage(test.result)); test.checks == "" {
			assert.NoError(t, err, test.result)
		} else {
			assert.ErrorContains(t, err, test.checks, test.result)
		}
		got, err := e.Answer(answers{"paid": {StepID: "paid", Result: json.RawMessage(test.result)}})
		assert.Equal(t, test.want, got, test.result)
		if test.err == nil && test.says == "" {
			assert.NoError(t, err, test.result)
			continue
		}
		var wrong *steps.StepError
		require.ErrorAs(t, err, &wrong, test.result)
		assert.ErrorContains(t, err, test.says)
		if test.err != nil {
			assert.ErrorIs(t, err, test.err)
		}
	}
	_, err := newPaid().Answer(answers{})
	assert.ErrorIs(t, err, steps.ErrNotAsked)
	var invalid *checkerr.InvalidError
	assert.ErrorAs(t, newPaid().Check(steps.Step{ID: "paid"}, json.RawMessage(`{"action":"accept","content":{}}`)), &invalid)
}
