package saga_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// tripFlow is the tool of drive_test.go as a flow.
func tripFlow() saga.Flow[tripArgs, string] {
	return saga.Flow[tripArgs, string]{
		Info: saga.Info{
			Name: "trip",
			Asks: []steps.Question{askCity, askDate, askConfirm},
		},
		Run: func(r *saga.Run, in tripArgs) (string, error) {
			if err := r.AskAll(askCity, askDate); err != nil {
				return "", err
			}
			city, err := askCity.Answer(r)
			if err != nil {
				return "", err
			}
			date, err := askDate.Answer(r)
			if err != nil {
				return "", err
			}
			for {
				sure, err := saga.Ask(r, askConfirm.With(steps.Message("From "+in.From+" to "+city.City+"?")))
				if err != nil {
					return "", fmt.Errorf("confirming: %w", err)
				}
				if sure.Sure {
					break
				}
			}
			return fmt.Sprintf("%s to %s on %s", in.From, city.City, date.Date), nil
		},
	}
}

func TestFlow(t *testing.T) {
	s := play(t, tripFlow())
	out := s.start(`{"from":"Oslo"}`)
	assert.Equal(t, []string{"city", "date"}, ids(out))
	out = s.answer(accept("date", goodDate))
	assert.Equal(t, []string{"city"}, ids(out))
	out = s.answer(accept("city", `{"city":"R"}`))
	assert.Equal(t, []string{"city~2"}, ids(out))
	out = s.answer(accept("city~2", goodCity))
	assert.Equal(t, []string{"confirm"}, ids(out))
	out = s.answer(accept("confirm", `{"sure":false}`))
	assert.Equal(t, []string{"confirm~2"}, ids(out))
	out = s.answer(accept("confirm~2", yes))
	assert.Equal(t, "Oslo to Rome on 2026-12-24", text(t, out))
}

func TestFlowEndsWhenDeclined(t *testing.T) {
	s := play(t, tripFlow())
	s.start(`{"from":"Oslo"}`)
	s.answer(accept("date", goodDate), accept("city", goodCity))
	out := s.answer(action("confirm", "decline"))
	assert.True(t, out.Result.IsError)
	assert.Equal(t, `Stopped: "confirm" was declined.`, text(t, out))
}

func TestFlowResults(t *testing.T) {
	type weather struct {
		Degrees int `json:"degrees"`
	}
	structured := saga.Flow[empty, weather]{Info: saga.Info{Name: "w"}, Run: func(*saga.Run, empty) (weather, error) { return weather{7}, nil }}
	out := play(t, structured).start(`{}`)
	assert.JSONEq(t, `{"degrees":7}`, string(out.Result.StructuredContent))
	assert.Contains(t, string(play(t, structured).tool.OutputSchema), "degrees")

	whole := saga.Flow[empty, *content.Result]{Info: saga.Info{Name: "r"}, Run: func(*saga.Run, empty) (*content.Result, error) { return content.Resultf("all"), nil }}
	assert.Equal(t, "all", text(t, play(t, whole).start(`{}`)))

	none := saga.Flow[empty, struct{}]{Info: saga.Info{Name: "n"}, Run: func(*saga.Run, empty) (struct{}, error) { return struct{}{}, nil }}
	assert.Empty(t, play(t, none).start(`{}`).Result.Content)

	for value, want := range map[any]string{nil: `null`, struct{}{}: ``, 7: `7`, "text": ``} {
		anything := saga.Flow[empty, any]{Info: saga.Info{Name: "a"}, Run: func(*saga.Run, empty) (any, error) { return value, nil }}
		out := play(t, anything).start(`{}`)
		require.NoError(t, out.Err)
		assert.Equal(t, want, string(out.Result.StructuredContent))
	}

	missing := saga.Flow[empty, *content.Result]{Info: saga.Info{Name: "m"}, Run: func(*saga.Run, empty) (*content.Result, error) { return nil, nil }}
	out = play(t, missing).start(`{}`)
	assert.ErrorContains(t, out.Err, "the result is nil")
}

// logged runs a flow of one question to its second turn and returns what the log
// gets to know.
func logged(t *testing.T, run func(r *saga.Run, turn int) (string, error)) string {
	turn := 0
	s := play(t, saga.Flow[empty, string]{
		Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm, askCity}},
		Run:  func(r *saga.Run, _ empty) (string, error) { turn++; return run(r, turn) },
	})
	out := s.start(`{}`)
	if out.Position != nil {
		out = s.answer(accept("confirm", yes))
	}
	require.NotNil(t, out.Result)
	require.Error(t, out.Err)
	assert.NotContains(t, text(t, out), "confirm")
	return out.Err.Error()
}

func TestFlowMistakes(t *testing.T) {
	t.Run("a swallowed suspension", func(t *testing.T) {
		got := logged(t, func(r *saga.Run, _ int) (string, error) {
			_, _ = saga.Ask(r, askConfirm)
			return "done", nil
		})
		assert.Equal(t, `tool "f", step function "start": the flow asked "confirm" and then returned a result; it must return the error that asking returned, as it is or wrapped with %w`, got)
	})
	t.Run("a replaced suspension", func(t *testing.T) {
		got := logged(t, func(r *saga.Run, _ int) (string, error) {
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", errors.New("oh no")
			}
			return "done", nil
		})
		assert.Contains(t, got, `then returned the error "oh no"`)
	})
	t.Run("going on after a suspension", func(t *testing.T) {
		got := logged(t, func(r *saga.Run, _ int) (string, error) {
			_, first := saga.Ask(r, askConfirm)
			_, second := saga.Ask(r, askCity)
			assert.Equal(t, first, second)
			return "", nil
		})
		assert.Contains(t, got, `asked "confirm"`)
	})
	t.Run("another question than before", func(t *testing.T) {
		got := logged(t, func(r *saga.Run, turn int) (string, error) {
			if turn == 1 {
				_, err := saga.Ask(r, askConfirm)
				return "", err
			}
			_, err := saga.Ask(r, askCity)
			return "", err
		})
		assert.Contains(t, got, `recorded is question "confirm", but now came question "city"`)
	})
	t.Run("no question where there was one", func(t *testing.T) {
		got := logged(t, func(r *saga.Run, turn int) (string, error) {
			if turn == 1 {
				_, err := saga.Ask(r, askConfirm)
				return "", err
			}
			return "done", nil
		})
		assert.Contains(t, got, `recorded is question "confirm", but now came the end of the flow`)
	})
	t.Run("an undeclared question", func(t *testing.T) {
		got := logged(t, func(r *saga.Run, turn int) (string, error) {
			_, err := saga.Ask(r, askDate)
			return "", err
		})
		assert.Contains(t, got, `question "date" is not declared`)
	})
}

func TestPanicAfterASwallowedSuspension(t *testing.T) {
	tool := play(t, saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			_, _ = saga.Ask(r, askConfirm)
			panic("boom")
		}}).tool
	_, err := tool.Start(context.Background(), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures()})
	var panicked *engine.PanicError
	require.ErrorAs(t, err, &panicked)
}

func TestFlowsAgreeOnTimeAndChance(t *testing.T) {
	var seen [][]any
	now := testNow
	s := play(t, saga.Flow[empty, string]{
		Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm, askCity}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			got := []any{r.Now(), r.NewID(), r.NewID(), r.Rand().Int(), r.Rand().Int()}
			defer func() { seen = append(seen, got) }()
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
			got = append(got, r.Now())
			if _, err := saga.Ask(r, askCity); err != nil {
				return "", err
			}
			return "done", nil
		},
	})
	at := func(out *engine.Outcome, err error) { require.NoError(t, err); s.keep(out) }
	at(s.tool.Start(context.Background(), engine.Call{ID: testID, Now: now, Client: steps.AllFeatures()}))
	for _, a := range []steps.Answer{accept("confirm", yes), accept("city", goodCity)} {
		now = now.Add(time.Minute)
		at(s.tool.Resume(context.Background(), s.pos, engine.Call{Now: now, Client: steps.AllFeatures(), Answers: []steps.Answer{a}}))
	}
	require.Len(t, seen, 3)
	assert.Equal(t, seen[0], seen[1][:5])
	assert.Equal(t, seen[1], seen[2])
	assert.Equal(t, testNow, seen[2][0])
	assert.Equal(t, testNow.Add(time.Minute), seen[2][5])
	assert.NotEqual(t, seen[0][1], seen[0][2])
	assert.NotEqual(t, seen[0][3], seen[0][4])
}

func TestFlowRevisions(t *testing.T) {
	// Revision 1 asks the city, then for confirmation.
	old := saga.Flow[empty, string]{Info: saga.Info{Name: "f", Revision: 1, Asks: []steps.Question{askCity, askConfirm}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			if _, err := saga.Ask(r, askCity); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, askConfirm)
			return "old", err
		}}
	suspended := func(t *testing.T) *session {
		s := play(t, old)
		s.start(`{}`)
		s.answer(accept("city", goodCity))
		return s
	}
	t.Run("a question added in the middle is asked when the flow comes to it", func(t *testing.T) {
		s := suspended(t)
		s.tool = play(t, saga.Flow[empty, string]{Info: saga.Info{Name: "f", Revision: 3, Asks: []steps.Question{askCity, askDate, askConfirm}}, Oldest: 1, Run: func(r *saga.Run, _ empty) (string, error) {
			city, err := saga.Ask(r, askCity)
			if err != nil {
				return "", err
			}
			date, err := saga.Ask(r, askDate)
			if err != nil {
				return "", err
			}
			_, err = saga.Ask(r, askConfirm)
			return city.City + " " + date.Date, err
		}}).tool
		out := s.answer(accept("confirm", yes))
		require.Equal(t, []string{"date"}, ids(out), "the answer given meanwhile is kept")
		out = s.answer(accept("date", goodDate))
		assert.Equal(t, "Rome 2026-12-24", text(t, out))
	})
	t.Run("a renamed question keeps its answer", func(t *testing.T) {
		town := &steps.Form[cityForm]{ID: "town", Message: askCity.Message}
		s := suspended(t)
		s.tool = play(t, saga.Flow[empty, string]{Info: saga.Info{Name: "f", Revision: 2, Asks: []steps.Question{town, askConfirm}, Renamed: map[string]string{"city": "town"}}, Oldest: 1, Run: func(r *saga.Run, _ empty) (string, error) {
			where, err := saga.Ask(r, town)
			if err != nil {
				return "", err
			}
			_, err = saga.Ask(r, askConfirm)
			return where.City, err
		}}).tool
		assert.Equal(t, "Rome", text(t, s.answer(accept("confirm", yes))))
	})
	t.Run("a reworded question is asked again, and only that", func(t *testing.T) {
		town := &steps.Form[cityForm]{ID: "city", Message: "Which town?"}
		s := suspended(t)
		s.tool = play(t, saga.Flow[empty, string]{Info: saga.Info{Name: "f", Revision: 2, Asks: []steps.Question{town, askConfirm}}, Oldest: 1, Run: func(r *saga.Run, _ empty) (string, error) {
			where, err := saga.Ask(r, town)
			if err != nil {
				return "", err
			}
			_, err = saga.Ask(r, askConfirm)
			return where.City, err
		}}).tool
		out := s.answer(accept("confirm", yes))
		require.Equal(t, []string{"city~2"}, ids(out))
		assert.Equal(t, "Bern", text(t, s.answer(accept("city~2", `{"city":"Bern"}`))))
	})
	t.Run("a dropped question leaves its answer", func(t *testing.T) {
		s := suspended(t)
		s.tool = play(t, saga.Flow[empty, string]{Info: saga.Info{Name: "f", Revision: 2, Asks: []steps.Question{askConfirm, askDate}}, Oldest: 1, Run: func(r *saga.Run, _ empty) (string, error) {
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, askDate)
			return "new", err
		}}).tool
		s.answer(accept("confirm", yes))
		assert.Equal(t, "new", text(t, s.answer(accept("date", goodDate))), "also after another turn of the new revision")
	})
	t.Run("a revision too old, or too new, is refused", func(t *testing.T) {
		for _, f := range []saga.Flow[empty, string]{
			{Info: saga.Info{Name: "f", Revision: 3, Asks: old.Asks}, Oldest: 2, Run: old.Run}, {Info: saga.Info{Name: "f", Revision: 0, Asks: old.Asks}, Run: old.Run},
		} {
			s := suspended(t)
			s.tool = play(t, f).tool
			_, err := s.resume(accept("confirm", yes))
			var position *engine.PositionError
			assert.ErrorAs(t, err, &position)
		}
	})
}

func TestMachineRevisions(t *testing.T) {
	type v1 struct{ Where, When string }
	m := saga.Machine[tripArgs, v1]{Info: saga.Info{Name: "trip", Revision: 1, Asks: []steps.Question{askCity, askDate, askConfirm}},
		Start: func(t *saga.Turn[tripArgs, v1]) (saga.Next, error) {
			return t.Ask("place", askCity, askDate)
		},
		Steps: saga.Steps[tripArgs, v1]{
			"place": func(t *saga.Turn[tripArgs, v1]) (saga.Next, error) {
				t.State = v1{"Rome", "2026-12-24"}
				return t.Ask("sure", askConfirm.With(steps.Message("From Oslo to Rome?")))
			},
			"sure": func(t *saga.Turn[tripArgs, v1]) (saga.Next, error) {
				return nil, errors.New("old code")
			},
		}}
	now := trip()
	now.Revision = 3
	now.Renamed = map[string]string{"place": "where", "sure": "confirmed"}
	now.Upgrades = map[uint32]saga.Upgrade[tripState]{
		1: saga.From(func(old v1) (tripState, error) { return tripState{old.Where, old.When}, nil }),
	}
	s := play(t, m)
	s.start(`{"from":"Oslo"}`)
	s.answer(accept("city", goodCity), accept("date", goodDate))
	s.tool = play(t, now).tool
	assert.Equal(t, "Oslo to Rome on 2026-12-24", text(t, s.answer(accept("confirm", yes))))

	t.Run("without an upgrade it is refused", func(t *testing.T) {
		now.Upgrades = nil
		s := play(t, m)
		s.start(`{"from":"Oslo"}`)
		s.tool = play(t, now).tool
		_, err := s.resume(accept("city", goodCity), accept("date", goodDate))
		var position *engine.PositionError
		assert.ErrorAs(t, err, &position)
	})
}
