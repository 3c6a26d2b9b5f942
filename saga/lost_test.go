package saga_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type lostBefore struct {
	City string `json:"city"`
	PIN  saga.Secret
	In   struct {
		Codes []int `json:"codes"`
	} `json:"in"`
}

// keeping is a machine that keeps a state, asks, and then shows what show makes of it.
func keeping[S any](state S, show func(S) string, change func(m *saga.Machine[empty, S])) saga.Machine[empty, S] {
	m := saga.Machine[empty, S]{
		Info: saga.Info{Name: "x", Asks: []steps.Question{askConfirm}}, Start: startAt(state, "end"),
		Steps: saga.Steps[empty, S]{"end": func(t *saga.Turn[empty, S]) (saga.Next, error) {
			return t.Textf("%s", show(t.State))
		}},
	}
	if change != nil {
		change(&m)
	}
	return m
}

// resumedBy starts a saga in one tool and resumes it in another.
func resumedBy(t *testing.T, before, after saga.Definition) (*engine.Outcome, error) {
	t.Helper()
	s := play(t, before)
	s.start(`{}`)
	tool, err := after.Compile()
	require.NoError(t, err)
	return tool.Resume(t.Context(), s.pos, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}})
}

func TestStateThatHasNoPlaceIsRefused(t *testing.T) {
	var full lostBefore
	full.City, full.PIN, full.In.Codes = "Rome", saga.NewSecret("1234"), []int{7}
	before := keeping(full, nil, nil)
	position := func(t *testing.T, after saga.Definition, want string) {
		t.Helper()
		out, err := resumedBy(t, before, after)
		var wrong *engine.PositionError
		require.ErrorAs(t, err, &wrong, "%v", out)
		assert.ErrorContains(t, err, want)
		assert.NotContains(t, err.Error(), "1234")
	}
	t.Run("a field was renamed", func(t *testing.T) {
		type after struct {
			Town string `json:"town"`
			PIN  saga.Secret
			In   struct {
				Codes []int `json:"codes"`
			} `json:"in"`
		}
		position(t, keeping(after{}, nil, nil), `its state: json: unknown field "city"`)
	})
	t.Run("a field was removed further down", func(t *testing.T) {
		type after struct {
			City string `json:"city"`
			PIN  saga.Secret
			In   struct{} `json:"in"`
		}
		position(t, keeping(after{}, nil, nil), `unknown field "codes"`)
	})
	t.Run("a Secret was renamed", func(t *testing.T) {
		type after struct {
			City string      `json:"city"`
			Code saga.Secret `json:"PIN"` // the same to JSON
			In   struct {
				Codes []int `json:"codes"`
			} `json:"in"`
		}
		position(t, keeping(after{}, nil, nil), `its state: it has a Secret for the field PIN, which the type no longer has`)
	})
	t.Run("a Secret is one no more", func(t *testing.T) {
		type after struct {
			City string `json:"city"`
			PIN  string
			In   struct {
				Codes []int `json:"codes"`
			} `json:"in"`
		}
		position(t, keeping(after{}, nil, nil), `it has a Secret for the field PIN`)
	})
	t.Run("a field was added", func(t *testing.T) {
		type after struct {
			New  int
			City string `json:"city"`
			PIN  saga.Secret
			More saga.Secret
			In   struct {
				Codes []int `json:"codes"`
				Own   bool
			} `json:"in"`
		}
		out, err := resumedBy(t, before, keeping(after{}, func(s after) string { return s.City + s.PIN.Reveal() + s.More.Reveal() }, nil))
		require.NoError(t, err)
		assert.Equal(t, "Rome1234", text(t, out))
	})
	t.Run("an encoding that is strict", func(t *testing.T) {
		type state struct{ City string }
		type after struct{ Town string }
		before := keeping(state{"Rome"}, nil, func(m *saga.Machine[empty, state]) { m.Encoding = strictJSON{} })
		_, err := resumedBy(t, before, keeping(after{}, nil, func(m *saga.Machine[empty, after]) { m.Encoding = strictJSON{} }))
		require.ErrorContains(t, err, `unknown object member name "City"`)
	})
	t.Run("secrets of an encoding that is not", func(t *testing.T) {
		type state struct {
			City string
			PIN  saga.Secret
		}
		type after struct {
			City string
			Code saga.Secret
		}
		before := keeping(state{"Rome", saga.NewSecret("1234")}, nil, func(m *saga.Machine[empty, state]) { m.Encoding = gobs{} })
		_, err := resumedBy(t, before, keeping(after{}, nil, func(m *saga.Machine[empty, after]) { m.Encoding = gobs{} }))
		require.ErrorContains(t, err, "it has a Secret for the field PIN")
	})
	t.Run("a raised revision", func(t *testing.T) {
		type old struct {
			City string `json:"city"` // the rest is of no interest
			PIN  saga.Secret
		}
		type after struct {
			Town string `json:"town"`
			Code saga.Secret
		}
		upgraded := func(f func(old) (after, error)) saga.Definition {
			return keeping(after{}, func(s after) string { return s.Town + s.Code.Reveal() }, func(m *saga.Machine[empty, after]) {
				m.Revision, m.Upgrades = 1, map[uint32]saga.Upgrade[after]{0: saga.From(f)}
			})
		}
		out, err := resumedBy(t, before, upgraded(func(o old) (after, error) { return after{o.City, o.PIN}, nil }))
		require.NoError(t, err)
		assert.Equal(t, "Rome1234", text(t, out), "an upgrade sees the secrets of the old state")
		_, err = resumedBy(t, before, upgraded(func(old) (after, error) { return after{}, errors.New("no") }))
		require.ErrorContains(t, err, "its state: no")
	})
	t.Run("a raised revision that says nothing of a Secret", func(t *testing.T) {
		type old struct{ City string }
		type after struct {
			Town string
			PIN  saga.Secret
		}
		for _, own := range []string{"", "own"} {
			out, err := resumedBy(t, before, keeping(after{}, func(s after) string { return s.Town + s.PIN.Reveal() }, func(m *saga.Machine[empty, after]) {
				m.Revision, m.Upgrades = 1, map[uint32]saga.Upgrade[after]{0: saga.From(func(o old) (after, error) { return after{o.City, saga.NewSecret(own)}, nil })}
			}))
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"": "Rome1234", "own": "Romeown"}[own], text(t, out))
		}
	})
}

// What an effect has recorded must have its place too, or the saga cannot go on and
// what can be undone is.
func TestEffectRecordThatHasNoPlaceIsRefused(t *testing.T) {
	type hold struct {
		ID  string `json:"id"`
		PIN saga.Secret
	}
	var undone []string
	asks := []steps.Question{askConfirm}
	effect := func(do func() hold) *saga.Effect[string, hold] {
		return &saga.Effect[string, hold]{Name: "room",
			Do: func(context.Context, saga.Key, string) (hold, error) { return do(), nil }}
	}
	before := effect(func() hold { return hold{"h-1", saga.NewSecret("1234")} })
	ran := 0
	flow := func(revision uint32, e saga.Declared, do func(*saga.Run) error) saga.Flow[empty, string] {
		return saga.Flow[empty, string]{Info: saga.Info{Name: "f", Revision: revision, Asks: asks, Effects: []saga.Declared{e}},
			Run: func(r *saga.Run, _ empty) (string, error) {
				ran++
				if err := do(r); err != nil {
					return "", err
				}
				_, err := saga.Ask(r, askConfirm)
				return "done", err
			}}
	}
	s := play(t, flow(0, before, func(r *saga.Run) error { _, err := saga.Do(r, before, "x"); return err }))
	s.start(`{}`)

	type renamed struct {
		Number string `json:"number"`
		PIN    saga.Secret
	}
	type without struct {
		ID string `json:"id"`
	}
	type more struct {
		ID  string `json:"id"`
		PIN saga.Secret
		New saga.Secret
	}
	cases := map[string]struct {
		e         func() saga.Declared
		do        func(e saga.Declared) func(*saga.Run) error
		want, old string
	}{
		"renamed": {func() saga.Declared { return undoing[string, renamed](&undone) }, doing[string, renamed]("x"),
			`effect "room": its recorded result cannot be read: json: unknown field "id"`, "done"},
		"a Secret removed": {func() saga.Declared { return undoing[string, without](&undone) }, doing[string, without]("x"),
			`effect "room": its recorded result cannot be read: json: unknown field "PIN"`, "done"},
		"input of another type": {func() saga.Declared { return undoing[int, hold](&undone) }, doing[int, hold](1),
			`effect "room": its recorded input cannot be read`, ""},
		"a field added": {func() saga.Declared { return undoing[string, more](&undone) }, doing[string, more]("x"), "", "done"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			resume := func(revision uint32) (*engine.Outcome, *engine.Program, error) {
				e := test.e()
				tool, err := flow(revision, e, test.do(e)).Compile()
				require.NoError(t, err)
				ran = 0
				out, err := tool.Resume(t.Context(), s.pos, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}})
				return out, tool, err
			}
			undone = nil
			out, tool, err := resume(0)
			if test.want == "" {
				require.NoError(t, err)
				assert.Equal(t, "done", text(t, out))
			} else {
				var wrong *engine.PositionError
				require.ErrorAs(t, err, &wrong)
				assert.ErrorContains(t, err, test.want)
				assert.Zero(t, ran, "no code has run")
				out, err := tool.Abandon(t.Context(), s.pos, engine.Call{Why: "Gone."})
				require.NoError(t, err)
				assert.Equal(t, []string{"room"}, report(t, out).Outstanding, "to undo with half of it would be worse")
				assert.ErrorContains(t, out.Err, "cannot be read")
				assert.Empty(t, undone)
			}
			out, _, err = resume(1)
			if test.old == "" {
				require.ErrorContains(t, err, "cannot be read", "whatever the revision")
				return
			}
			require.NoError(t, err, "whoever raises the revision has thought of it")
			assert.Equal(t, test.old, text(t, out))
		})
	}
}

func undoing[In, Out any](undone *[]string) saga.Declared {
	return &saga.Effect[In, Out]{Name: "room",
		Do:   func(context.Context, saga.Key, In) (out Out, err error) { return out, errors.New("not again") },
		Undo: func(context.Context, saga.Performed[In, Out]) error { *undone = append(*undone, "room"); return nil }}
}

func doing[In, Out any](in In) func(e saga.Declared) func(*saga.Run) error {
	return func(e saga.Declared) func(*saga.Run) error {
		return func(r *saga.Run) error {
			_, err := saga.Do(r, e.(*saga.Effect[In, Out]), in)
			return err
		}
	}
}

// An upgraded machine's old effects are read as leniently in the turns after the
// upgrade: what wrote them does not change.
func TestOldEffectsStayOld(t *testing.T) {
	type hold struct{ ID, Extra string }
	type less struct{ ID string }
	machine := func(revision uint32, e saga.Declared, begin func(*saga.Turn[empty, empty]) error) saga.Machine[empty, empty] {
		m := saga.Machine[empty, empty]{Info: saga.Info{Name: "m", Revision: revision, Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{e}},
			Start: func(t *saga.Turn[empty, empty]) (saga.Next, error) {
				if err := begin(t); err != nil {
					return nil, err
				}
				return t.Ask("again", askConfirm)
			},
			Steps: saga.Steps[empty, empty]{
				"again": func(t *saga.Turn[empty, empty]) (saga.Next, error) {
					return t.Ask("end", askConfirm)
				},
				"end": func(t *saga.Turn[empty, empty]) (saga.Next, error) { return nil, saga.Failf("no") },
			}}
		if revision > 0 {
			m.Upgrades = map[uint32]saga.Upgrade[empty]{0: saga.From(func(empty) (empty, error) { return empty{}, nil })}
		}
		return m
	}
	before := &saga.Effect[string, hold]{Name: "room", Do: func(context.Context, saga.Key, string) (hold, error) { return hold{"h-1", "more"}, nil }}
	s := play(t, machine(0, before, func(t *saga.Turn[empty, empty]) error {
		_, err := saga.Do(t, before, "x")
		return err
	}))
	s.start(`{}`)
	var undone []string
	after := &saga.Effect[string, less]{Name: "room", Do: func(context.Context, saga.Key, string) (less, error) { return less{}, nil },
		Undo: func(_ context.Context, p saga.Performed[string, less]) error {
			undone = append(undone, p.In+p.Out.ID)
			return nil
		}}
	s.tool = play(t, machine(1, after, func(*saga.Turn[empty, empty]) error { return nil })).tool
	out := s.answer(accept("confirm", yes))
	require.NotNil(t, out.Position)
	out = s.answer(accept("confirm~2", yes))
	assert.Equal(t, []string{"room"}, report(t, out).Undone)
	assert.Equal(t, []string{"xh-1"}, undone)
}

// A flow's record that ends too early is not a shorter conversation.
func TestRecordThatEndsTooEarlyIsRefused(t *testing.T) {
	s := play(t, saga.Flow[empty, string]{Info: saga.Info{Name: "f", Asks: []steps.Question{askCity, askConfirm}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			if _, err := saga.Ask(r, askCity); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, askConfirm)
			return "done", err
		}})
	s.start(`{}`)
	out := s.answer(accept("city", goodCity))
	e := out.Position.Encode()
	for cut := 1; cut < 20; cut++ {
		if cut == 2 {
			continue // without the counts of times and ids it is a record as they once were
		}
		short := e
		short.Body = e.Body[:len(e.Body)-cut]
		pos := &engine.Position{ID: testID, Turn: 2, Tool: "f"}
		require.NoError(t, pos.Restore(short), "what follows the arguments is the flow's business")
		_, err := s.tool.Resume(t.Context(), pos, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("confirm", yes)}})
		var wrong *engine.PositionError
		require.ErrorAs(t, err, &wrong)
	}
}

// A client's failure that waits for the answers to other steps is still one when it
// comes back from a token.
func TestFailureIsKeptUntilTheOtherAnswersCome(t *testing.T) {
	s := play(t, trip())
	s.start(`{"from":"Oslo"}`)
	out := s.answer(steps.Answer{StepID: "city", Error: &steps.ClientError{Code: 7, Message: "no"}})
	require.Equal(t, []string{"date"}, ids(out))
	out = s.answer(accept("date", goodDate))
	assert.Equal(t, `Stopped: "city" could not be performed (error 7).`, text(t, out))
}
