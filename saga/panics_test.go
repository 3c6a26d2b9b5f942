package saga_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// moody is a type whose methods panic at some values.
type moody struct{ text string }

func (m moody) MarshalText() ([]byte, error) {
	if m.text == "unwritable" {
		panic("cannot write")
	}
	return []byte(m.text), nil
}

func (m *moody) UnmarshalText(b []byte) error {
	if m.text = string(b); m.text == "unreadable" {
		panic("cannot read")
	}
	return nil
}

// Methods of an author's types run outside of the step functions too. Where they panic,
// that must not end the server's process.
func TestPanicsOfAuthorsTypes(t *testing.T) {
	type args struct {
		Mood moody `json:"mood"`
	}
	ask := &steps.Form[nameForm]{ID: "ask", Message: "Name?"}
	m := saga.Machine[args, args]{
		Info: saga.Info{
			Name: "m", Asks: []steps.Question{ask},
			RawInputSchema: json.RawMessage(`{"type":"object"}`),
		},
		Start: func(t *saga.Turn[args, args]) (saga.Next, error) {
			t.State = t.Args
			return t.Ask("asked", ask)
		},
		Steps: saga.Steps[args, args]{"asked": func(t *saga.Turn[args, args]) (saga.Next, error) {
			t.State.Mood.text = "unwritable"
			return t.Ask("asked", ask)
		}},
	}
	panics := func(err error, value, step string) {
		t.Helper()
		var panicked *engine.PanicError
		require.ErrorAs(t, err, &panicked)
		assert.Equal(t, value, panicked.Value)
		assert.Contains(t, string(panicked.Stack), "panics_test.go")
		assert.ErrorContains(t, err, `step function "`+step+`"`)
	}
	tool, err := m.Compile()
	require.NoError(t, err)
	_, err = tool.Start(t.Context(), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures(), Arguments: json.RawMessage(`{"mood":"unreadable"}`)})
	panics(err, "cannot read", "start")

	s := play(t, m)
	s.start(`{"mood":"good"}`)
	_, err = s.resume(accept("ask", `{"name":"x"}`))
	panics(err, "cannot write", "asked")

	m.Revision = 1
	m.Upgrades = map[uint32]saga.Upgrade[args]{0: saga.From(func(args) (args, error) { panic("no upgrade") })}
	s.tool = play(t, m).tool
	_, err = s.resume(accept("ask", `{"name":"x"}`))
	panics(err, "no upgrade", "asked")
}

// sour is as moody, and only its zero value can be read.
type sour struct{ moody }

func (s *sour) UnmarshalText(b []byte) error {
	if len(b) > 0 {
		panic("cannot read")
	}
	return nil
}

func performs[T any](result T) saga.Definition {
	ask := &steps.Form[nameForm]{ID: "ask", Message: "Name?"}
	e := &saga.Effect[string, T]{Name: "e",
		Do:   func(context.Context, saga.Key, string) (T, error) { return result, nil },
		Undo: func(context.Context, saga.Performed[string, T]) error { return nil },
	}
	return saga.Flow[struct{}, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{ask}, Effects: []saga.Declared{e}}, Run: func(r *saga.Run, _ struct{}) (string, error) {
		if _, err := saga.Do(r, e, "in"); err != nil {
			return "", err
		}
		_, err := saga.Ask(r, ask)
		return "done", err
	}}
}

// A record that cannot be read any more is an effect that cannot be undone.
func TestPanicWhereAnEffectIsRead(t *testing.T) {
	s := play(t, performs(moody{"good"}))
	s.start("")
	s.tool = play(t, performs(sour{})).tool
	_, err := s.resume(accept("ask", `{"name":"x"}`))
	require.ErrorAs(t, err, new(*engine.PositionError))
	out, err := s.tool.Cancel(t.Context(), s.pos, engine.Call{Now: testNow})
	require.NoError(t, err)
	assert.Equal(t, []string{"e"}, report(t, out).Outstanding)
}

// One that never could be read is found in the turn that writes it.
func TestPanicWhereAnEffectIsReadAtOnce(t *testing.T) {
	s := play(t, performs(sour{moody{"good"}}))
	_, err := s.tool.Start(t.Context(), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures(), Held: true})
	var undone *engine.UndoneError
	require.ErrorAs(t, err, &undone)
	assert.ErrorContains(t, err, "cannot read")
	assert.Equal(t, []string{"e"}, undone.Report.Outstanding)
}

// grim is a text that cannot be read.
type grim string

func (*grim) UnmarshalText([]byte) error { panic("cannot read") }

// The type of an answer is read before any step function runs.
func TestPanicWhereAnAnswerIsRead(t *testing.T) {
	ask := &steps.Form[struct {
		Mood grim `json:"mood"`
	}]{ID: "ask", Message: "Mood?"}
	s := play(t, saga.Flow[struct{}, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{ask}}, Run: func(r *saga.Run, _ struct{}) (string, error) {
		_, err := saga.Ask(r, ask)
		return "done", err
	}})
	s.start("")
	_, err := s.resume(accept("ask", `{"mood":"bad"}`))
	var panicked *engine.PanicError
	require.ErrorAs(t, err, &panicked)
	assert.Equal(t, "cannot read", panicked.Value)
}
