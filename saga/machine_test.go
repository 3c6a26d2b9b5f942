package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

const (
	goodCity = `{"city":"Rome"}`
	goodDate = `{"date":"2026-12-24"}`
	yes      = `{"sure":true}`
)

func TestSagaRunsToItsEnd(t *testing.T) {
	s := play(t, trip())
	out := s.start(`{"from":"Oslo"}`)
	assert.Equal(t, []string{"city", "date"}, ids(out))
	assert.Equal(t, uint32(1), out.Position.Turn)

	out = s.answer(accept("city", goodCity), accept("date", goodDate))
	assert.Equal(t, []string{"confirm"}, ids(out))
	assert.JSONEq(t, `"From Oslo to Rome?"`, string(member(t, out.Steps[0].Params, "message")))
	assert.Equal(t, uint32(2), out.Position.Turn)

	out = s.answer(accept("confirm", yes))
	assert.Equal(t, "Oslo to Rome on 2026-12-24", text(t, out))
	assert.False(t, out.Result.IsError)
}

// The same answer a thousand times, always in another spelling, is a small message.
func TestManyCopiesOfAnAnswerAreCheap(t *testing.T) {
	s := play(t, trip())
	s.start(`{"from":"Oslo"}`)
	answers := make([]steps.Answer, 1000)
	for i := range answers {
		answers[i] = steps.Answer{StepID: "city", Result: fmt.Appendf(nil, `{"action":"accept","content":{"city":"Rome"%*s}}`, i, "")}
	}
	// To compare each with each takes a million.
	assert.Less(t, testing.AllocsPerRun(1, func() {
		_, err := s.resume(answers...)
		require.NoError(t, err)
	}), 50_000.0)
}

func TestPartialAnswersAreKept(t *testing.T) {
	s := play(t, trip())
	s.start(`{"from":"Oslo"}`)
	out := s.answer(accept("date", goodDate))
	assert.Equal(t, []string{"city"}, ids(out), "only what is missing is asked for")
	assert.Equal(t, []string{"city"}, s.pos.PendingIDs())

	s.answers = nil // a client that sends the latest round alone
	out = s.answer(accept("city", goodCity))
	assert.Equal(t, []string{"confirm"}, ids(out))
	out = s.answer(accept("confirm", yes))
	assert.Equal(t, "Oslo to Rome on 2026-12-24", text(t, out))
}

func TestInvalidContentIsAskedAgain(t *testing.T) {
	s := play(t, trip())
	s.start(`{"from":"Oslo"}`)
	out := s.answer(accept("city", `{"city":"R"}`), accept("date", goodDate))
	require.Equal(t, []string{"city~2"}, ids(out), "a new id, and the good answer is kept")
	assert.Contains(t, string(out.Steps[0].Params), "city")

	out = s.answer(accept("city~2", `{"city":""}`))
	require.Equal(t, []string{"city~3"}, ids(out))
	out = s.answer(accept("city~3", `{}`))
	assert.True(t, out.Result.IsError)
	assert.Contains(t, text(t, out), `"city" was answered 3 times without a valid answer`)
}

func TestQuestionAskedAgainByTheToolHasANewID(t *testing.T) {
	s := play(t, trip())
	s.start(`{"from":"Oslo"}`)
	s.answer(accept("city", goodCity), accept("date", goodDate))
	out := s.answer(accept("confirm", `{"sure":false}`))
	require.Equal(t, []string{"confirm~2"}, ids(out))
	out = s.answer(accept("confirm~2", `{"sure":false}`))
	require.Equal(t, []string{"confirm~3"}, ids(out))
	out = s.answer(accept("confirm~3", yes))
	assert.Equal(t, "Oslo to Rome on 2026-12-24", text(t, out))
}

func TestEarlierAnswers(t *testing.T) {
	second := func(t *testing.T) *session {
		s := play(t, trip())
		s.start(`{"from":"Oslo"}`)
		s.answer(accept("city", goodCity), accept("date", goodDate))
		return s
	}
	tests := []struct {
		name    string
		answers []steps.Answer
		refused string
	}{
		{"equal", []steps.Answer{accept("city", goodCity), accept("date", goodDate), accept("confirm", yes)}, ""},
		{"equal but for spaces and order", []steps.Answer{
			{StepID: "city", Result: json.RawMessage(` { "content": {"city" : "\u0052ome"}, "action":"accept"}`)}, accept("confirm", yes)}, ""},
		{"absent", []steps.Answer{accept("confirm", yes)}, ""},
		{"unknown", []steps.Answer{accept("nonsense", `{}`), accept("confirm", yes)}, ""},
		{"changed", []steps.Answer{accept("city", `{"city":"Paris"}`), accept("confirm", yes)}, `step "city": its result differs from the one accepted before`},
		{"result became an error", []steps.Answer{{StepID: "city", Error: &steps.ClientError{Code: 1, Message: "x"}}, accept("confirm", yes)}, "differs"},
		{"two equal results", []steps.Answer{accept("confirm", yes), accept("confirm", ` {"sure" : true}`)}, ""},
		{"two different results", []steps.Answer{accept("confirm", yes), accept("confirm", `{"sure":false}`)}, `step "confirm": two different results were sent for it`},
		{"two different results for an unknown step", []steps.Answer{accept("x", yes), accept("x", goodCity), accept("confirm", yes)}, "two different results"},
		{"neither result nor error", []steps.Answer{{StepID: "confirm"}}, "neither a result nor an error"},
		{"result and error", []steps.Answer{{StepID: "confirm", Result: json.RawMessage(`{}`), Error: &steps.ClientError{}}}, "both a result and an error"},
		{"not an elicitation result", []steps.Answer{{StepID: "confirm", Result: json.RawMessage(`{"action":"maybe"}`)}}, `step "confirm"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := second(t)
			out, err := s.resume(test.answers...)
			if test.refused == "" {
				require.NoError(t, err)
				assert.Equal(t, "Oslo to Rome on 2026-12-24", text(t, out))
				return
			}
			var refused *engine.AnswerError
			require.ErrorAs(t, err, &refused)
			assert.Contains(t, err.Error(), test.refused)

			// Nothing is lost: the position still takes the correct answer.
			out, err = s.resume(accept("confirm", yes))
			require.NoError(t, err)
			assert.Equal(t, "Oslo to Rome on 2026-12-24", text(t, out))
		})
	}
	t.Run("kept answer of a partial round changes", func(t *testing.T) {
		s := play(t, trip())
		s.start(`{"from":"Oslo"}`)
		s.answer(accept("city", goodCity))
		_, err := s.resume(accept("city", `{"city":"Paris"}`), accept("date", goodDate))
		assert.ErrorContains(t, err, "differs")
	})
	t.Run("refused answer changes", func(t *testing.T) {
		s := play(t, trip())
		s.start(`{"from":"Oslo"}`)
		s.answer(accept("city", `{"city":"R"}`), accept("date", goodDate))
		_, err := s.resume(accept("city", goodCity), accept("city~2", goodCity))
		assert.ErrorContains(t, err, "differs")
	})
	t.Run("too many", func(t *testing.T) {
		many := make([]steps.Answer, 1001)
		for i := range many {
			many[i] = accept(fmt.Sprint("x", i), "{}")
		}
		_, err := second(t).resume(many...)
		assert.ErrorContains(t, err, "more than 1000 results")
	})
}

func TestOutcomesOfASingleStep(t *testing.T) {
	tests := []struct {
		name   string
		answer steps.Answer
		want   string
		is     error
	}{
		{"declined", action("city", "decline"), `Stopped: "city" was declined.`, steps.ErrDeclined},
		{"cancelled", action("city", "cancel"), `Stopped: "city" was cancelled.`, steps.ErrCancelled},
		{"client error", steps.Answer{StepID: "city", Error: &steps.ClientError{Code: -5, Message: "<secret of the client>", Data: json.RawMessage(`{"a":1}`)}},
			`Stopped: "city" could not be performed (error -5).`, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var seen error
			m := trip()
			where := m.Steps["where"]
			m.Steps["where"] = func(turn *saga.Turn[tripArgs, tripState]) (saga.Next, error) {
				_, seen = askCity.Answer(turn)
				return where(turn)
			}
			s := play(t, m)
			s.start(`{"from":"Oslo"}`)
			out := s.answer(test.answer, accept("date", goodDate))
			assert.True(t, out.Result.IsError)
			assert.Equal(t, test.want, text(t, out))
			if test.is != nil {
				assert.ErrorIs(t, seen, test.is)
				return
			}
			var failed *steps.ClientError
			require.ErrorAs(t, seen, &failed)
			assert.Equal(t, test.answer.Error, failed)
		})
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	tests := map[string]string{
		``:                       "required",
		`{}`:                     "required",
		`{"from":7}`:             "from",
		`{"from":"a","x":1}`:     "x",
		`{"from":"a","from":""}`: "twice",
		`{"FROM":"a"}`:           "FROM",
	}
	for args, want := range tests {
		m := trip()
		m.Start = func(*saga.Turn[tripArgs, tripState]) (saga.Next, error) {
			t.Error("the tool's code ran")
			return nil, nil
		}
		out := play(t, m).start(args)
		assert.True(t, out.Result.IsError, args)
		assert.Contains(t, text(t, out), want, args)
		assert.Contains(t, text(t, out), `"trip"`, args)
	}
}

type empty struct{}

// single is a tool of one step function.
func single(f func(*saga.Turn[empty, empty]) (saga.Next, error)) saga.Machine[empty, empty] {
	return saga.Machine[empty, empty]{Info: saga.Info{Name: "single", Asks: []steps.Question{askConfirm}}, Start: f,
		Steps: saga.Steps[empty, empty]{"again": f}}
}

func TestFailures(t *testing.T) {
	cause := errors.New("password hunter2 was wrong")
	type turn = saga.Turn[empty, empty]
	tests := []struct {
		name, visible, logged string
		f                     func(*saga.Turn[empty, empty]) (saga.Next, error)
	}{
		{"an error is hidden", "operator", "hunter2",
			func(*turn) (saga.Next, error) { return nil, cause }},
		{"Failf is shown", "no such flight: 7", "no such flight",
			func(*turn) (saga.Next, error) { return nil, saga.Failf("no such flight: %d", 7) }},
		{"nothing returned", "operator", "neither what to do next nor an error",
			func(*turn) (saga.Next, error) { return nil, nil }},
		{"no questions", "operator", "no question was given",
			func(t *turn) (saga.Next, error) { return t.Ask("again") }},
		{"nil question", "operator", "question 0 is nil",
			func(t *turn) (saga.Next, error) { return t.Ask("again", nil) }},
		{"unknown step function", "operator", `no step function "nowhere"`,
			func(t *turn) (saga.Next, error) { return t.Ask("nowhere", askConfirm) }},
		{"unknown step function by Goto", "operator", `no step function "nowhere"`,
			func(t *turn) (saga.Next, error) { return t.Goto("nowhere") }},
		{"undeclared question", "operator", `question "city" is not declared`,
			func(t *turn) (saga.Next, error) { return t.Ask("again", askCity) }},
		{"asked twice at once", "operator", `question "confirm" is asked twice at once`,
			func(t *turn) (saga.Next, error) { return t.Ask("again", askConfirm, askConfirm) }},
		{"a question that cannot be asked", "operator", "nofield",
			func(t *turn) (saga.Next, error) {
				return t.Ask("again", askConfirm.With(steps.Title("nofield", "x")))
			}},
		{"an answer that was not asked for", "operator", "not asked",
			func(t *turn) (saga.Next, error) {
				_, err := askConfirm.Answer(t)
				return nil, err
			}},
		{"a circle", "operator", "circle",
			func(t *turn) (saga.Next, error) { return t.Goto("again") }},
		{"nil result", "operator", "the result is nil",
			func(t *turn) (saga.Next, error) { return t.Finish(nil) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out := play(t, single(test.f)).start(`{}`)
			assert.True(t, out.Result.IsError)
			assert.Contains(t, text(t, out), test.visible)
			assert.NotContains(t, text(t, out), "hunter2")
			require.Error(t, out.Err)
			assert.Contains(t, out.Err.Error(), test.logged)
			assert.Contains(t, out.Err.Error(), `tool "single", step function`, "the log names tool and step")
		})
	}
}

func TestPanicIsAnError(t *testing.T) {
	tool, err := single(func(*saga.Turn[empty, empty]) (saga.Next, error) {
		var missing *tripState
		return nil, errors.New(missing.City)
	}).Compile()
	require.NoError(t, err)
	_, err = tool.Start(context.Background(), engine.Call{ID: testID, Now: testNow})
	var failed *engine.StepFailure
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, "single", failed.Tool)
	assert.Equal(t, "start", failed.Step)
	var panicked *engine.PanicError
	require.ErrorAs(t, err, &panicked)
	assert.Contains(t, string(panicked.Stack), "TestPanicIsAnError")
}

func TestGotoKeepsAnswers(t *testing.T) {
	m := trip()
	where := m.Steps["where"]
	m.Steps["detour"] = where
	m.Steps["where"] = func(t *saga.Turn[tripArgs, tripState]) (saga.Next, error) {
		return t.Goto("detour")
	}
	s := play(t, m)
	s.start(`{"from":"Oslo"}`)
	out := s.answer(accept("city", goodCity), accept("date", goodDate))
	assert.Equal(t, []string{"confirm"}, ids(out))
}

// A position can be resumed any number of times, in any order, with the same
// outcome: a resumption changes nothing but what it returns.
func TestResumeIsPure(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		s := play(t, trip())
		s.start(`{"from":"Oslo"}`)
		waiting := []steps.Answer{accept("city", goodCity), accept("date", goodDate)}
		var sent []steps.Answer
		for s.pos != nil {
			before := fmt.Sprint(s.pos.Encode())
			// A client with a bad memory: the answers in any order, some twice,
			// some of no use, some tries cut short.
			batch := append([]steps.Answer{accept("noise", `{}`)}, sent...)
			n := random.IntN(len(waiting)) + 1
			batch = append(batch, waiting[:n]...)
			batch = append(batch, batch[random.IntN(len(batch))])
			random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
			for range random.IntN(3) {
				_, err := s.resume(batch...)
				require.NoError(t, err)
			}
			require.Equal(t, before, fmt.Sprint(s.pos.Encode()), "Resume changed the position it was given")
			out, err := s.resume(batch...)
			require.NoError(t, err)
			sent, waiting = append(sent, waiting[:n]...), waiting[n:]
			if out.Result != nil {
				require.Equal(t, "Oslo to Rome on 2026-12-24", text(t, out))
			}
			s.keep(out)
			if len(waiting) == 0 && s.pos != nil {
				require.Equal(t, []string{"confirm"}, ids(out))
				waiting = []steps.Answer{accept("confirm", yes)}
			}
		}
	}
}

func member(t *testing.T, object json.RawMessage, name string) json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(object, &m))
	return m[name]
}
