package saga_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A result that says that it is an error need not fit the output schema.
func TestErrorResultsNeedNotFitTheOutputSchema(t *testing.T) {
	schema, err := saga.SchemaFor[struct {
		Degrees int `json:"degrees"`
	}]()
	require.NoError(t, err)
	for name, structured := range map[string]string{"without structured content": "", "with another": `{"reason":"no thermometer"}`} {
		t.Run(name, func(t *testing.T) {
			result := content.Resultf("There is no thermometer.")
			result.IsError = true
			if structured != "" {
				result.StructuredContent = []byte(structured)
			}
			m := single(func(t *saga.Turn[empty, empty]) (saga.Next, error) { return t.Finish(result) })
			m.OutputSchema = schema
			out := play(t, m).start(`{}`)
			assert.True(t, out.Result.IsError)
			assert.Equal(t, "There is no thermometer.", text(t, out))
		})
	}
}

// Told decides whether the operator hears of a failure: not if the caller was told all
// of it.
func TestWhatCallersWereTold(t *testing.T) {
	cause := errors.New("no route to 10.0.0.7")
	tests := []struct {
		name string
		err  error
		told bool
		text string
	}{
		{"a text for the caller", saga.Failf("There is no account %d.", 7), true, "There is no account 7."},
		{"a text with a cause", saga.Failf("The bank does not answer: %w", cause), false, "The bank does not answer: no route to 10.0.0.7"},
		{"a text with two causes", saga.Failf("%w: %w", errors.New("The bank does not answer"), cause), false, "The bank does not answer: no route to 10.0.0.7"},
		{"a text with a hidden cause", saga.Fail("The bank does not answer.", cause), false, "The bank does not answer."},
		{"declined", &steps.StepError{StepID: "confirm", Err: steps.ErrDeclined}, true, `Stopped: "confirm" was declined.`},
		{"for the operator only", cause, false, "The tool failed. Its operator can find the reason in the log under the saga " + testID.String() + "."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := single(func(*saga.Turn[empty, empty]) (saga.Next, error) { return nil, test.err })
			out := play(t, m).start(`{}`)
			assert.Equal(t, test.told, out.Disclosed)
			assert.Equal(t, test.text, text(t, out))
			assert.ErrorIs(t, out.Err, test.err)
			assert.Equal(t, !test.told, errors.Is(out.Err, cause))
			assert.True(t, out.Result.IsError)
		})
	}
}

// A failure of the client is another answer than a result that looks like it.
func TestFailuresAreNoResults(t *testing.T) {
	failed := steps.Answer{StepID: "city", Error: &steps.ClientError{Code: -1, Message: "no"}}
	result := steps.Answer{StepID: "city", Result: []byte(`{"code":-1,"message":"no"}`)}
	refused := func(t *testing.T, err error, reason string) {
		t.Helper()
		var answer *engine.AnswerError
		require.ErrorAs(t, err, &answer)
		assert.Equal(t, engine.AnswerError{StepID: "city", Reason: reason}, *answer)
	}
	t.Run("in one request", func(t *testing.T) {
		s := play(t, trip())
		s.start(`{"from":"Oslo"}`)
		_, err := s.resume(failed, result)
		refused(t, err, "two different results were sent for it")
	})
	t.Run("while another is waited for", func(t *testing.T) {
		s := play(t, trip())
		s.start(`{"from":"Oslo"}`)
		s.answer(failed)
		_, err := s.resume(result)
		refused(t, err, "its result differs from the one accepted before")
		_, err = s.resume(failed)
		require.NoError(t, err)
	})
	t.Run("in a later turn", func(t *testing.T) {
		m := trip()
		m.Steps["where"] = func(t *saga.Turn[tripArgs, tripState]) (saga.Next, error) {
			return t.Ask("confirmed", askConfirm)
		}
		s := play(t, m)
		s.start(`{"from":"Oslo"}`)
		s.answer(failed, accept("date", goodDate))
		_, err := s.resume(result, accept("confirm", yes))
		refused(t, err, "its result differs from the one accepted before")
		_, err = s.resume(failed, accept("confirm", yes))
		require.NoError(t, err)
	})
}
