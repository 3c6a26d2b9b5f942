package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// hooked is a world of the test kit: it lists calls, and may answer itself.
type hooked struct {
	calls []sagahooks.Call
	late  []string
	reply func(sagahooks.Call) (any, error)
}

func (h *hooked) Late(effect string, _ bool) { h.late = append(h.late, effect) }

func (h *hooked) Perform(ctx context.Context, c sagahooks.Call, perform func(context.Context) (sagahooks.Value, error)) (any, error) {
	h.calls = append(h.calls, c)
	if h.reply != nil {
		return h.reply(c)
	}
	return perform(ctx)
}

func TestHooksStandBetweenEffectsAndTheWorld(t *testing.T) {
	w, h := newWorld(), &hooked{}
	ctx := sagahooks.With(context.Background(), h)
	s := play(t, booking(w))
	start := func() *engine.Outcome {
		out, err := s.tool.Start(ctx, engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures()})
		require.NoError(t, err)
		return out
	}
	out := start()
	assert.Equal(t, []string{"do hotel"}, w.log)
	require.Len(t, h.calls, 1)
	assert.Equal(t, sagahooks.Call{Effect: "hotel", Key: h.calls[0].Key, Input: sagahooks.Value{JSON: json.RawMessage(`"room"`)}, Undoable: true}, h.calls[0])

	cancelled, err := s.tool.Cancel(ctx, out.Position, engine.Call{Now: testNow})
	require.NoError(t, err)
	assert.Equal(t, []string{"hotel"}, report(t, cancelled).Undone)
	require.Len(t, h.calls, 2)
	assert.True(t, h.calls[1].Undo && h.calls[1].Known)
	assert.Empty(t, w.held)

	h.reply = func(sagahooks.Call) (any, error) { return json.RawMessage(`{"what":"a dream"}`), nil }
	require.NotNil(t, start().Position)
	assert.Empty(t, w.held, "the world was not asked")
	h.calls, h.reply = nil, func(sagahooks.Call) (any, error) { return nil, errors.New("down") }
	assert.True(t, start().Result.IsError)
	assert.Len(t, h.calls, 6, "three tries each of Do and Undo, without pauses")
}

func TestHooksLearnOfLateEffects(t *testing.T) {
	w, h := newWorld(), &hooked{}
	room := w.effect("room")
	f := saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{room}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			defer func() { _, _ = saga.Do(r, room, "late") }()
			_, err := saga.Ask(r, askConfirm)
			return "", err
		}}
	_, err := play(t, f).tool.Start(sagahooks.With(context.Background(), h), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures()})
	require.NoError(t, err)
	assert.Equal(t, []string{"room"}, h.late)
	assert.Empty(t, h.calls)
}

func TestStage(t *testing.T) {
	tool := play(t, trip()).tool
	stage := sagahooks.Stage{
		ID: testID, Step: "confirmed", Arguments: json.RawMessage(`{"from":"Oslo"}`),
		State: tripState{"Rome", "2026-12-24"}, Answers: []steps.Answer{accept("confirm", yes)},
	}
	pos, err := tool.Stage(stage)
	require.NoError(t, err)
	out, err := tool.Resume(context.Background(), pos, engine.Call{Now: testNow, Client: steps.AllFeatures()})
	require.NoError(t, err)
	assert.Equal(t, "Oslo to Rome on 2026-12-24", text(t, out))

	for want, change := range map[string]func(*sagahooks.Stage){
		`no step function "start"`:      func(s *sagahooks.Stage) { s.Step = "start" },
		`no question "x"`:               func(s *sagahooks.Stage) { s.Answers[0].StepID = "x" },
		`no effect "x"`:                 func(s *sagahooks.Stage) { s.Effects = []sagahooks.Performed{{Effect: "x"}} },
		"the given state is a string":   func(s *sagahooks.Stage) { s.State = "Rome" },
		`the content of step "confirm"`: func(s *sagahooks.Stage) { s.Answers = []steps.Answer{accept("confirm", `{}`)} },
	} {
		s := stage
		s.Answers = []steps.Answer{stage.Answers[0]}
		change(&s)
		_, err := tool.Stage(s)
		assert.ErrorContains(t, err, want)
	}
	_, err = play(t, booking(newWorld())).tool.Stage(sagahooks.Stage{Step: "flow"})
	assert.ErrorContains(t, err, "a flow has no step functions")
}

func TestRehearse(t *testing.T) {
	w := newWorld()
	s := play(t, booking(w))
	s.start(`{}`)
	fresh := newWorld()
	again := play(t, booking(fresh))
	require.NoError(t, again.tool.Rehearse(context.Background(), s.pos))
	assert.Equal(t, w.held, fresh.held)
	fresh.fail = func(string) error { return errors.New("down") }
	assert.ErrorContains(t, again.tool.Rehearse(context.Background(), s.pos), `effect "hotel": down`)
	require.NoError(t, again.tool.Rehearse(context.Background(), &engine.Position{}))
}
