package saga_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A defer runs at each suspension. The time that it takes is not that of what comes
// after the question.
func TestTimesTakenAfterSuspending(t *testing.T) {
	var after time.Time
	s := play(t, saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm}}, Run: func(r *saga.Run, _ empty) (string, error) {
		defer func() { r.Now() }()
		if _, err := saga.Ask(r, askConfirm); err != nil {
			return "", err
		}
		after = r.Now()
		return "done", nil
	}})
	s.start(`{}`)
	later := testNow.Add(time.Hour)
	out, err := s.tool.Resume(context.Background(), s.pos, engine.Call{Now: later, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}})
	require.NoError(t, err)
	require.NoError(t, out.Err)
	assert.Equal(t, later, after)
}

func TestWhatTheClientLacks(t *testing.T) {
	var unsupported *engine.UnsupportedError
	t.Run("for a question that still waits", func(t *testing.T) {
		s := play(t, trip())
		s.start(`{"from":"Oslo"}`)
		_, err := s.tool.Resume(context.Background(), s.pos, engine.Call{Now: testNow, Answers: []steps.Answer{accept("date", goodDate)}})
		require.ErrorAs(t, err, &unsupported)
		assert.Equal(t, engine.UnsupportedError{Tool: "trip", StepID: "city", Needs: steps.Features{Forms: true}}, *unsupported)
	})
	t.Run("one of two features", func(t *testing.T) {
		both := steps.Features{Forms: true, Sampling: true}
		m := single(func(t *saga.Turn[empty, empty]) (saga.Next, error) { return nil, t.Need(both) })
		for _, has := range []steps.Features{{}, {Forms: true}, {Sampling: true}} {
			_, err := play(t, m).tool.Start(context.Background(), engine.Call{ID: testID, Now: testNow, Client: has})
			require.ErrorAs(t, err, &unsupported, "a client with %v", has)
			assert.Equal(t, both, unsupported.Needs)
		}
	})
}

// A state without a value is not kept, and upgraded all the same.
func TestUpgradeOfAnEmptyState(t *testing.T) {
	type v0 struct {
		Place string `json:"place,omitzero"`
	}
	type v1 struct{ City string }
	s := play(t, saga.Machine[empty, v0]{Info: saga.Info{Name: "m", Asks: []steps.Question{askConfirm}},
		Start: func(t *saga.Turn[empty, v0]) (saga.Next, error) { return t.Ask("end", askConfirm) },
		Steps: saga.Steps[empty, v0]{"end": func(t *saga.Turn[empty, v0]) (saga.Next, error) { return t.Textf("old") }},
	})
	s.start(`{}`)
	s.tool = play(t, saga.Machine[empty, v1]{Info: saga.Info{Name: "m", Revision: 1, Asks: []steps.Question{askConfirm}},
		Upgrades: map[uint32]saga.Upgrade[v1]{0: saga.From(func(old v0) (v1, error) { return v1{"at " + old.Place}, nil })},
		Start:    func(t *saga.Turn[empty, v1]) (saga.Next, error) { return t.Ask("end", askConfirm) },
		Steps: saga.Steps[empty, v1]{"end": func(t *saga.Turn[empty, v1]) (saga.Next, error) {
			return t.Textf("%s", t.State.City)
		}},
	}).tool
	assert.Equal(t, "at ", text(t, s.answer(accept("confirm", yes))))
}
