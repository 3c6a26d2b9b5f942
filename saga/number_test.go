package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type numbers struct {
	N json.Number            `json:"n"`
	P *json.Number           `json:"p,omitempty"`
	L []json.Number          `json:"l,omitempty"`
	M map[string]json.Number `json:"m,omitempty"`
}

// A json.Number keeps a number exactly: in arguments, the state, effects and results.
func TestNumbersStayExact(t *testing.T) {
	type turn = saga.Turn[numbers, numbers]
	twice := &saga.Effect[numbers, json.Number]{Name: "twice", Do: func(_ context.Context, _ saga.Key, in numbers) (json.Number, error) {
		return in.N, nil
	}}
	output, err := saga.SchemaFor[numbers]()
	require.NoError(t, err)
	m := saga.Machine[numbers, numbers]{
		Info: saga.Info{Name: "numbers", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{twice}}, OutputSchema: output,
		Start: func(t *turn) (saga.Next, error) {
			t.State = t.Args
			return t.Ask("end", askConfirm)
		},
		Steps: saga.Steps[numbers, numbers]{"end": func(t *turn) (saga.Next, error) {
			n, err := saga.Do(t, twice, t.State)
			if err != nil {
				return nil, err
			}
			t.State.M = map[string]json.Number{"twice": n}
			return t.Structured(t.State)
		}},
	}
	s := play(t, m)
	s.start(`{"n":12345678901234567890.10,"p":1e2,"l":[1,2.50]}`)
	out := s.answer(accept("confirm", yes))
	require.NoError(t, out.Err)
	assert.Equal(t, `{"n":12345678901234567890.10,"p":1e2,"l":[1,2.50],"m":{"twice":12345678901234567890.10}}`, string(out.Result.StructuredContent))

	f := saga.Flow[numbers, numbers]{Info: saga.Info{Name: "numbers"}, Run: func(_ *saga.Run, in numbers) (numbers, error) { return in, nil }}
	tool, err := f.Compile()
	require.NoError(t, err)
	for _, schema := range []json.RawMessage{s.tool.InputSchema, s.tool.OutputSchema, tool.InputSchema, tool.OutputSchema} {
		assert.JSONEq(t, `{"type":"object","additionalProperties":false,"required":["n"],"properties":{"n":{"type":"number"},
			"p":{"type":["null","number"]},"l":{"type":["null","array"],"items":{"type":"number"}},
			"m":{"type":"object","additionalProperties":{"type":"number"}}}}`, string(schema))
	}
	for _, wrong := range []string{`{"n":"12"}`, `{"n":"twelve"}`, `{"n":true}`} {
		out, err := tool.Start(t.Context(), engine.Call{Arguments: json.RawMessage(wrong)})
		require.NoError(t, err)
		assert.Contains(t, text(t, out), "do not fit", wrong)
	}
}

// What is not a number, and what old tokens hold.
func TestNumbersInStates(t *testing.T) {
	type state struct {
		N json.Number         `json:"n"`
		M map[json.Number]int `json:"m,omitempty"`
	}
	type turn = saga.Turn[empty, state]
	// through has a state go through a token.
	through := func(in state) (out state, err error) {
		m := saga.Machine[empty, state]{
			Info: saga.Info{Name: "numbers", Asks: []steps.Question{askConfirm}},
			Start: func(t *turn) (saga.Next, error) {
				t.State = in
				return t.Ask("end", askConfirm)
			},
			Steps: saga.Steps[empty, state]{"end": func(t *turn) (saga.Next, error) {
				out = t.State
				return t.Textf("")
			}},
		}
		tool, err := m.Compile()
		if err != nil {
			return out, err
		}
		o, err := tool.Start(t.Context(), engine.Call{Now: testNow, Client: steps.AllFeatures()})
		if err != nil || o.Position == nil {
			return out, errors.Join(err, o.Err)
		}
		_, err = tool.Resume(t.Context(), o.Position, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}})
		return out, err
	}
	for _, same := range []state{{N: "1"}, {N: "-0.10e+3"}, {N: "7", M: map[json.Number]int{"5": 1, "x": 2}}} {
		got, err := through(same)
		require.NoError(t, err)
		assert.Equal(t, same, got)
	}
	got, err := through(state{})
	require.NoError(t, err)
	assert.Equal(t, state{N: "0"}, got, "as with encoding/json")
	_, err = through(state{N: "twelve"})
	assert.ErrorContains(t, err, `the json.Number "twelve" is not a number`)

	// Earlier versions wrote strings.
	old := func(encoded string) (state, error) {
		type oldState struct {
			N json.RawMessage `json:"n"`
		}
		before, err := saga.Machine[empty, oldState]{
			Info: saga.Info{Name: "numbers", Asks: []steps.Question{askConfirm}},
			Start: func(t *saga.Turn[empty, oldState]) (saga.Next, error) {
				t.State.N = json.RawMessage(encoded)
				return t.Ask("end", askConfirm)
			},
			Steps: saga.Steps[empty, oldState]{"end": unreached[oldState]},
		}.Compile()
		require.NoError(t, err)
		var out state
		after, err := saga.Machine[empty, state]{
			Info: saga.Info{Name: "numbers", Asks: []steps.Question{askConfirm}}, Start: unreached[state],
			Steps: saga.Steps[empty, state]{"end": func(t *turn) (saga.Next, error) {
				out = t.State
				return t.Textf("")
			}},
		}.Compile()
		require.NoError(t, err)
		o, err := before.Start(t.Context(), engine.Call{Now: testNow, Client: steps.AllFeatures()})
		require.NoError(t, err)
		_, err = after.Resume(t.Context(), o.Position, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}})
		return out, err
	}
	for encoded, want := range map[string]json.Number{`"12.50"`: "12.50", `""`: "", `null`: "", `12.50`: "12.50"} {
		got, err := old(encoded)
		require.NoError(t, err, encoded)
		assert.Equal(t, want, got.N)
	}
	for _, encoded := range []string{`"twelve"`, `true`, `{}`} {
		_, err := old(encoded)
		assert.ErrorContains(t, err, "is not a number", encoded)
	}
}

func unreached[State any](*saga.Turn[empty, State]) (saga.Next, error) {
	return nil, errors.New("not to be reached")
}
