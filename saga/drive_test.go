package saga_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

var (
	testID  = saga.ID{1, 2, 3}
	testNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// session plays a client against one tool. Between two turns the position
// exists as bytes only, as it does in a token.
type session struct {
	t       *testing.T
	tool    *engine.Program
	pos     *engine.Position
	answers []steps.Answer
}

func play(t *testing.T, d saga.Definition) *session {
	t.Helper()
	tool, err := d.Compile()
	require.NoError(t, err)
	return &session{t: t, tool: tool}
}

func (s *session) start(args string) *engine.Outcome {
	s.t.Helper()
	out, err := s.tool.Start(context.Background(), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures(), Arguments: json.RawMessage(args)})
	require.NoError(s.t, err)
	s.keep(out)
	return out
}

// answer resumes with these answers after all earlier ones.
func (s *session) answer(answers ...steps.Answer) *engine.Outcome {
	s.t.Helper()
	s.answers = append(s.answers, answers...)
	out, err := s.resume(s.answers...)
	require.NoError(s.t, err)
	s.keep(out)
	return out
}

func (s *session) resume(answers ...steps.Answer) (*engine.Outcome, error) {
	return s.tool.Resume(context.Background(), s.pos, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: answers})
}

func (s *session) keep(out *engine.Outcome) {
	s.t.Helper()
	s.pos = nil
	if out.Position == nil {
		return
	}
	p := out.Position
	s.pos = &engine.Position{ID: p.ID, Turn: p.Turn, Tool: p.Tool, Revision: p.Revision, Deadline: p.Deadline}
	require.NoError(s.t, s.pos.Restore(p.Encode()))
}

func accept(id, content string) steps.Answer {
	return steps.Answer{StepID: id, Result: json.RawMessage(`{"action":"accept","content":` + content + `}`)}
}

func action(id, action string) steps.Answer {
	return steps.Answer{StepID: id, Result: json.RawMessage(`{"action":"` + action + `"}`)}
}

func ids(out *engine.Outcome) []string {
	var list []string
	for _, s := range out.Steps {
		list = append(list, s.ID)
	}
	return list
}

func text(t *testing.T, out *engine.Outcome) string {
	t.Helper()
	require.NotNil(t, out.Result, "the saga is suspended for %v", ids(out))
	var s string
	for _, b := range out.Result.Content {
		s += b.(content.Text).Text
	}
	return s
}

// trip is the tool of most tests: it asks for two things at once, then for one
// more, and tells what it got.
type tripArgs struct {
	From string `json:"from"`
}

type tripState struct {
	City, Date string
}

type cityForm struct {
	City string `json:"city" minLength:"2"`
}

type dateForm struct {
	Date string `json:"date" format:"date"`
}

type confirmForm struct {
	Sure bool `json:"sure"`
}

var (
	askCity    = &steps.Form[cityForm]{ID: "city", Message: "Which city?"}
	askDate    = &steps.Form[dateForm]{ID: "date", Message: "When?"}
	askConfirm = &steps.Form[confirmForm]{ID: "confirm", Message: "Sure?"}
)

func trip() saga.Machine[tripArgs, tripState] {
	type turn = saga.Turn[tripArgs, tripState]
	return saga.Machine[tripArgs, tripState]{
		Info: saga.Info{
			Name: "trip",
			Asks: []steps.Question{askCity, askDate, askConfirm},
		},
		Start: func(t *turn) (saga.Next, error) {
			return t.Ask("where", askCity, askDate)
		},
		Steps: saga.Steps[tripArgs, tripState]{
			"where": func(t *turn) (saga.Next, error) {
				city, err := askCity.Answer(t)
				if err != nil {
					return nil, err
				}
				date, err := askDate.Answer(t)
				if err != nil {
					return nil, err
				}
				t.State = tripState{city.City, date.Date}
				return t.Ask("confirmed", askConfirm.With(steps.Message("From "+t.Args.From+" to "+city.City+"?")))
			},
			"confirmed": func(t *turn) (saga.Next, error) {
				sure, err := askConfirm.Answer(t)
				if err != nil {
					return nil, err
				}
				if !sure.Sure {
					return t.Ask("confirmed", askConfirm)
				}
				return t.Textf("%s to %s on %s", t.Args.From, t.State.City, t.State.Date)
			},
		},
	}
}
