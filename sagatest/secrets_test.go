package sagatest_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

func TestSecretsThatLeak(t *testing.T) {
	f := reported(t, func(t testing.TB) {
		sagatest.Sweep(t, agencyCase(func(a *agency) saga.Definition {
			m := bookingMachine(a)
			sure := m.Steps["sure"]
			m.Steps["sure"] = func(t *bookTurn) (saga.Next, error) {
				t.Log(slog.LevelInfo, "the code is "+t.State.Code.Reveal())
				return sure(t)
			}
			return m
		}))
	})
	require.NotEmpty(t, f.errors)
	assert.Contains(t, f.errors[0], "broken rule: what is secret in the state stays there")
	assert.Contains(t, f.errors[0], "the value of a saga.Secret is shown to the client in a log message")
	assert.NotContains(t, strings.Join(f.errors, ""), "xyzzy")
}

// However a secret is written in JSON, a question shows it.
func TestSecretsThatQuestionsShow(t *testing.T) {
	for _, code := range []string{"plugh", "R&D <plugh>", `pl"ugh\`, "plu/gh", "plügh\n"} {
		ask := &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
		type state struct{ Code saga.Secret }
		tool := saga.Machine[struct{}, state]{
			Info: saga.Info{Name: "shows", Asks: []steps.Question{ask}},
			Start: func(t *saga.Turn[struct{}, state]) (saga.Next, error) {
				t.State.Code = saga.NewSecret(code)
				return t.Ask("asked", ask.With(steps.Message("Is it "+code+"?")))
			},
			Steps: saga.Steps[struct{}, state]{
				"asked": func(t *saga.Turn[struct{}, state]) (saga.Next, error) { return t.Textf("done") },
			},
		}
		f := reported(t, func(t testing.TB) {
			sagatest.Sweep(t, sagatest.Case{Tool: tool, Script: []sagatest.Answer{sagatest.Accept("sure", sureForm{true})}})
		})
		require.NotEmpty(t, f.errors, code)
		assert.Contains(t, f.errors[0], `the value of a saga.Secret is shown to the client in step "sure"`)
	}
}

// A part of the result is shown as well.
func TestSecretsThatPartsShow(t *testing.T) {
	type state struct{ Code saga.Secret }
	tool := saga.Machine[struct{}, state]{
		Info: saga.Info{Name: "shows", Yields: true},
		Start: func(t *saga.Turn[struct{}, state]) (saga.Next, error) {
			t.State.Code = saga.NewSecret("xyzzy-plugh")
			return t.Yield("more", content.Textf("It is %s.", t.State.Code.Reveal()))
		},
		Steps: saga.Steps[struct{}, state]{
			"more": func(t *saga.Turn[struct{}, state]) (saga.Next, error) { return t.Textf("done") },
		},
	}
	f := reported(t, func(t testing.TB) { sagatest.Sweep(t, sagatest.Case{Tool: tool, Parts: true}) })
	require.NotEmpty(t, f.errors)
	assert.Contains(t, f.errors[0], "the value of a saga.Secret is shown to the client in a part of the result")
}
