package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type described struct {
	Name  string
	Login saga.Secret
	Inner struct{ Key, Unused saga.Secret }
}

type signIn struct{ Code, Pin saga.Secret }

type nameForm struct {
	Name string `json:"name"`
}

// What a position holds can be read by people, but for its secrets.
func TestDescribeMachine(t *testing.T) {
	first := &steps.Form[nameForm]{ID: "first", Message: "First?"}
	second := &steps.Form[nameForm]{ID: "second", Message: "Second?"}
	refuse := &saga.Effect[nameForm, nameForm]{Name: "refuse", Do: func(context.Context, saga.Key, nameForm) (nameForm, error) {
		return nameForm{}, saga.Refused(errors.New("no money"))
	}, Undo: func(context.Context, saga.Performed[nameForm, nameForm]) error { return nil }}
	sign := &saga.Effect[signIn, signIn]{Name: "sign", Do: func(_ context.Context, _ saga.Key, in signIn) (signIn, error) {
		return signIn{Pin: saga.NewSecret("9876")}, nil
	}, Undo: func(context.Context, saga.Performed[signIn, signIn]) error { return nil }}
	hold := &saga.Effect[nameForm, nameForm]{Name: "hold", Do: func(_ context.Context, _ saga.Key, in nameForm) (nameForm, error) {
		return nameForm{in.Name + " is held"}, nil
	}, Undo: func(context.Context, saga.Performed[nameForm, nameForm]) error { return nil }}
	type turn = saga.Turn[nameForm, described]
	s := play(t, saga.Machine[nameForm, described]{
		Info: saga.Info{Name: "t", Asks: []steps.Question{first, second}, Effects: []saga.Declared{hold, refuse, sign}},
		Start: func(t *turn) (saga.Next, error) {
			t.State.Name, t.State.Login, t.State.Inner.Key = "Ada", saga.NewSecret("hunter2"), saga.NewSecret("k3y")
			for _, name := range []string{"one", "two"} {
				if _, err := saga.Do(t, hold, nameForm{name}); err != nil {
					return nil, err
				}
			}
			_, _ = saga.Do(t, refuse, nameForm{"three"})
			if _, err := saga.Do(t, sign, signIn{Code: saga.NewSecret("1234")}); err != nil {
				return nil, err
			}
			return t.Ask("asked", first, second)
		},
		Steps: saga.Steps[nameForm, described]{"asked": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
	})
	s.start(`{"name":"tea"}`)
	s.answer(accept("first", `{"name":"x"}`))
	d, err := s.pos.Describe()
	require.NoError(t, err)
	assert.Equal(t, "asked", d.Next)
	assert.False(t, d.Flow)
	assert.JSONEq(t, `{"name":"tea"}`, string(d.Arguments))
	assert.JSONEq(t, `{"Name":"Ada","Login":null,"Inner":{"Key":null,"Unused":null}}`, string(d.State))
	assert.Equal(t, []string{"Login", "Inner.Key"}, d.Secrets)
	assert.Equal(t, []engine.DescribedStep{
		{ID: "first", Answer: json.RawMessage(`{"action":"accept","content":{"name":"x"}}`)}, {ID: "second"},
	}, d.Steps)
	assert.Equal(t, []engine.DescribedEffect{
		{Name: "hold", N: 1, Status: "done", Input: json.RawMessage(`{"name":"one"}`), Output: json.RawMessage(`{"name":"one is held"}`)},
		{Name: "hold", N: 2, Status: "done", Input: json.RawMessage(`{"name":"two"}`), Output: json.RawMessage(`{"name":"two is held"}`)},
		{Name: "refuse", N: 1, Status: "refused", Input: json.RawMessage(`{"name":"three"}`), Problem: "no money"},
		{Name: "sign", N: 1, Status: "done", Input: json.RawMessage(`{"Code":null,"Pin":null}`), Output: json.RawMessage(`{"Code":null,"Pin":null}`), Secrets: []string{"Code", "Pin"}},
	}, d.Effects)
	assert.NotContains(t, fmt.Sprintf("%q %+v", d.State, d), "hunter2")
	assert.NotContains(t, fmt.Sprintf("%+v", d), "1234")
	assert.NotContains(t, fmt.Sprintf("%+v", d), "9876")
}

func TestDescribeFlow(t *testing.T) {
	ask := &steps.Form[nameForm]{ID: "ask", Message: "Name?"}
	s := play(t, saga.Flow[struct{}, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{ask}}, Run: func(r *saga.Run, _ struct{}) (string, error) {
		r.Now()
		for {
			if _, err := saga.Ask(r, ask); err != nil {
				return "", err
			}
		}
	}})
	s.start("")
	s.answer(accept("ask", `{"name":"x"}`))
	s.answer(accept("ask~2", `{"name":"y"}`))
	d, err := s.pos.Describe()
	require.NoError(t, err)
	assert.True(t, d.Flow)
	assert.Empty(t, d.State)
	assert.Equal(t, []engine.DescribedStep{{ID: "ask~3"}}, d.Steps)
	require.Len(t, d.Answers, 2)
	assert.Equal(t, "ask", d.Answers[1].ID)
	assert.JSONEq(t, `{"action":"accept","content":{"name":"y"}}`, string(d.Answers[1].Answer))
}

// The name that flows wait under is free to machines.
func TestDescribeMachineWithAStepNamedFlow(t *testing.T) {
	ask := &steps.Form[nameForm]{ID: "ask", Message: "Name?"}
	s := play(t, saga.Machine[struct{}, nameForm]{
		Info: saga.Info{Name: "m", Asks: []steps.Question{ask}},
		Start: func(t *saga.Turn[struct{}, nameForm]) (saga.Next, error) {
			t.State.Name = "Ada"
			return t.Ask("flow", ask)
		},
		Steps: saga.Steps[struct{}, nameForm]{"flow": func(t *saga.Turn[struct{}, nameForm]) (saga.Next, error) {
			return t.Textf("done")
		}},
	})
	s.start("")
	d, err := s.pos.Describe()
	require.NoError(t, err)
	assert.False(t, d.Flow)
	assert.JSONEq(t, `{"name":"Ada"}`, string(d.State))
}
