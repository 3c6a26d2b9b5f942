package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/sagahooks"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type login struct {
	User string `json:"user"`
	In   struct{ Password saga.Secret }
}

type access struct {
	Account string `json:"account"`
	Token   saga.Secret
}

func loginAs(user, password string) (l login) {
	l.User, l.In.Password = user, saga.NewSecret(password)
	return l
}

// vault is a system behind two effects with secrets.
type vault struct {
	log  []string
	open *saga.Effect[login, access]
	rent *saga.Effect[saga.Secret, saga.Secret]
}

func newVault() *vault {
	v := new(vault)
	v.open = &saga.Effect[login, access]{
		Name: "open",
		Do: func(_ context.Context, _ saga.Key, in login) (access, error) {
			v.log = append(v.log, fmt.Sprint("open ", in.User, " ", in.In.Password.Reveal()))
			return access{"a-1", saga.NewSecret("token-of-" + in.User)}, nil
		},
		Undo: func(_ context.Context, p saga.Performed[login, access]) error {
			v.log = append(v.log, fmt.Sprint("close ", p.In.User, " ", p.In.In.Password.Reveal(), " ", p.Out.Account, " ", p.Out.Token.Reveal(), " ", p.Known))
			return nil
		},
	}
	v.rent = &saga.Effect[saga.Secret, saga.Secret]{
		Name: "rent",
		Do: func(_ context.Context, _ saga.Key, in saga.Secret) (saga.Secret, error) {
			v.log = append(v.log, "rent "+in.Reveal())
			return saga.NewSecret("pin-of-" + in.Reveal()), nil
		},
		Undo: func(_ context.Context, p saga.Performed[saga.Secret, saga.Secret]) error {
			v.log = append(v.log, fmt.Sprint("return ", p.In.Reveal(), " ", p.Out.Reveal(), " ", p.Known))
			return nil
		},
	}
	return v
}

// flow opens a vault, asks, and shows what it knows.
func (v *vault) flow() saga.Flow[empty, string] {
	return saga.Flow[empty, string]{
		Info: saga.Info{Name: "vault", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{v.open, v.rent}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			a, err := saga.Do(r, v.open, loginAs("ann", "hunter-2"))
			if err != nil {
				return "", err
			}
			pin, err := saga.Do(r, v.rent, a.Token)
			if err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askConfirm); err != nil {
				return "", err
			}
			return a.Account + " " + a.Token.Reveal() + " " + pin.Reveal(), nil
		},
	}
}

var vaultSecrets = []string{"hunter-2", "token-of-ann", "pin-of-token-of-ann"}

func TestSecretsOfEffects(t *testing.T) {
	const did, undid = "open ann hunter-2, rent token-of-ann", "return token-of-ann pin-of-token-of-ann true, close ann hunter-2 a-1 token-of-ann true"
	suspended := func(t *testing.T) (*vault, *session, *engine.Outcome) {
		v := newVault()
		s := play(t, v.flow())
		out := s.start(`{}`)
		require.Equal(t, did, strings.Join(v.log, ", "))
		v.log = nil
		return v, s, out
	}
	t.Run("are beside what is compressed or shown", func(t *testing.T) {
		_, _, out := suspended(t)
		e := out.Position.Encode()
		for _, secret := range vaultSecrets {
			assert.NotContains(t, string(e.Body)+string(e.State)+string(e.Effects), secret)
			assert.Contains(t, string(e.Secrets), secret)
		}
		assert.Contains(t, string(e.Effects), `"account":"a-1"`)
		assert.NotContains(t, string(e.Body)+string(e.State), "a-1", "effects are apart")
	})
	t.Run("come back on a replay", func(t *testing.T) {
		v, s, _ := suspended(t)
		assert.Equal(t, "a-1 token-of-ann pin-of-token-of-ann", text(t, s.answer(accept("confirm", yes))))
		assert.Empty(t, v.log)
	})
	t.Run("are there for the undo", func(t *testing.T) {
		v, s, _ := suspended(t)
		out := s.answer(steps.Answer{StepID: "confirm", Result: []byte(`{"action":"cancel"}`)})
		assert.True(t, out.Result.IsError)
		// The flow ignores how it was answered up to here, so it is the error that ends it.
		assert.Equal(t, undid, strings.Join(v.log, ", "))
	})
	t.Run("are there when the saga is cancelled or abandoned", func(t *testing.T) {
		v, s, _ := suspended(t)
		_, err := s.tool.Cancel(t.Context(), s.pos, engine.Call{Now: testNow})
		require.NoError(t, err)
		assert.Equal(t, undid, strings.Join(v.log, ", "))
		v.log = nil
		_, err = s.tool.Abandon(t.Context(), s.pos, engine.Call{Why: "Late."})
		require.NoError(t, err)
		assert.Equal(t, undid, strings.Join(v.log, ", "))
	})
	t.Run("are there when an undo is tried again", func(t *testing.T) {
		v, s, _ := suspended(t)
		undo := v.open.Undo
		v.open.Undo = func(context.Context, saga.Performed[login, access]) error { return saga.Refused(errors.New("busy")) }
		out, err := s.tool.Cancel(t.Context(), s.pos, engine.Call{Now: testNow})
		require.NoError(t, err)
		again := report(t, out).Again
		require.NotNil(t, again)
		back := &engine.Position{ID: again.ID, Tool: again.Tool, Revision: again.Revision}
		require.NoError(t, back.Restore(again.Encode()))
		v.open.Undo, v.log = undo, nil
		_, err = s.tool.Cancel(t.Context(), back, engine.Call{Now: testNow})
		require.NoError(t, err)
		assert.Equal(t, []string{"close ann hunter-2 a-1 token-of-ann true"}, v.log)
	})
	t.Run("are there after the revision was raised", func(t *testing.T) {
		v, s, _ := suspended(t)
		f := v.flow()
		f.Revision = 1
		s.tool = play(t, f).tool
		assert.Equal(t, "a-1 token-of-ann pin-of-token-of-ann", text(t, s.answer(accept("confirm", yes))))
		assert.Empty(t, v.log)
	})
	t.Run("of a machine", func(t *testing.T) {
		v := newVault()
		type state struct{ Own saga.Secret }
		s := play(t, saga.Machine[empty, state]{
			Info: saga.Info{Name: "vault", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{v.open}},
			Start: func(t *saga.Turn[empty, state]) (saga.Next, error) {
				_, err := saga.Do(t, v.open, loginAs("ann", "hunter-2"))
				if err != nil {
					return nil, err
				}
				t.State.Own = saga.NewSecret("the state's")
				return t.Ask("end", askConfirm)
			},
			Steps: saga.Steps[empty, state]{"end": func(t *saga.Turn[empty, state]) (saga.Next, error) {
				return nil, saga.Failf("It is %s.", t.State.Own.Reveal())
			}},
		})
		s.start(`{}`)
		out := s.answer(accept("confirm", yes))
		assert.Contains(t, text(t, out), "It is the state's.")
		assert.Equal(t, []string{"open ann hunter-2", "close ann hunter-2 a-1 token-of-ann true"}, v.log)
	})
	t.Run("in the test kit's hooks", func(t *testing.T) {
		v, h := newVault(), &hooked{}
		tool := play(t, v.flow()).tool
		ctx := sagahooks.With(t.Context(), h)
		out, err := tool.Start(ctx, engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures()})
		require.NoError(t, err)
		require.Len(t, h.calls, 2)
		assert.JSONEq(t, `{"user":"ann","In":{"Password":null}}`, string(h.calls[0].Input.JSON))
		assert.Contains(t, string(h.calls[0].Input.Secrets), "hunter-2")
		assert.Equal(t, []string{"open ann hunter-2", "rent token-of-ann"}, v.log)
		fresh := newVault()
		require.NoError(t, play(t, fresh.flow()).tool.Rehearse(t.Context(), out.Position))
		assert.Equal(t, v.log, fresh.log)

		v, h = newVault(), &hooked{reply: func(c sagahooks.Call) (any, error) {
			if c.Effect == "open" {
				return &access{"dream", saga.NewSecret("dreamt")}, nil
			}
			return json.RawMessage("null"), nil
		}}
		s := play(t, v.flow())
		out, err = s.tool.Start(sagahooks.With(t.Context(), h), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures()})
		require.NoError(t, err)
		s.pos = out.Position
		assert.Equal(t, "dream dreamt ", text(t, s.answer(accept("confirm", yes))))
	})
}

// What is logged or shown of effects has none of their secrets.
func TestSecretsOfEffectsAreNotPrinted(t *testing.T) {
	password := "hunter-2"
	v := newVault()
	f := v.flow()
	f.Run = func(r *saga.Run, _ empty) (string, error) {
		if _, err := saga.Do(r, v.open, loginAs("ann", password)); err != nil {
			return "", err
		}
		_, err := saga.Ask(r, askConfirm)
		return "", err
	}
	s := play(t, f)
	s.start(`{}`)
	password = "hunter-3"
	end := s.answer(accept("confirm", yes))
	var diverged *engine.DivergedError
	require.ErrorAs(t, end.Err, &diverged)
	assert.Equal(t, `effect "open" (number 1) with the input {"user":"ann","In":{"Password":null}}`, diverged.Recorded)
	assert.Equal(t, "the same effect with the same input but for a Secret in it", diverged.Came)
	assert.Equal(t, "close ann hunter-2 a-1 token-of-ann true", v.log[len(v.log)-1], "it is undone with what was recorded")

	var b, j strings.Builder
	secret := saga.NewSecret("hunter-2")
	in := loginAs("ann", "hunter-2")
	for _, h := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&j, nil)} {
		slog.New(h).Info("x", "secret", secret, "in", in, "error", end.Err)
	}
	asJSON, err := json.Marshal(in)
	require.NoError(t, err)
	binary, err := secret.MarshalBinary()
	require.NoError(t, err)
	shown := ""
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t"} {
		shown += fmt.Sprintf(verb, secret) + fmt.Sprintf(verb, &secret) + fmt.Sprintf(verb, in)
	}
	shown += b.String() + j.String() + string(asJSON) + string(binary) + end.Err.Error() + text(t, end)
	for _, secret := range append(vaultSecrets, "hunter-3", fmt.Sprintf("%x", "hunter-2")) {
		assert.NotContains(t, shown, secret)
	}
	assert.Equal(t, "[secret] [secret] [secret] [secret]", fmt.Sprintf("%v %#v %d ", secret, secret, secret)+secret.String())
	assert.Contains(t, b.String(), "secret=[secret]")
	assert.Contains(t, j.String(), `"secret":"[secret]"`)
}

// Secrets that no effect of the position could have are refused, as is what does not
// decode.
func TestSecretsOfNoEffectAreRefused(t *testing.T) {
	good := play(t, newVault().flow()).start(`{}`).Position.Encode()
	pair := func(name, value string) string {
		return string(rune(len(name))) + name + string(rune(len(value))) + value
	}
	for _, bad := range []string{
		pair("#2<X", "v"), pair("#-1<X", "v"), pair("#x<X", "v"), pair("#0X", "v"), pair("#<X", "v"), pair("#", "v"),
		pair("#0<X", "v") + pair("Y", "v"), "\x04#0<X", "\x09#0<X", pair("#0<X", "v") + "\x01",
	} {
		e := good
		e.Secrets = []byte(bad)
		assert.Error(t, new(engine.Position).Restore(e), "%q", bad)
	}
	e := good
	e.Effects = nil
	assert.Error(t, new(engine.Position).Restore(e), "secrets of effects without effects")
	e = good
	e.Effects = e.Effects[:len(e.Effects)-1]
	assert.Error(t, new(engine.Position).Restore(e))
	e = good
	e.Body = append([]byte{4}, e.Body[1:]...)
	assert.ErrorContains(t, new(engine.Position).Restore(e), "position format 4 is not known")
	require.NoError(t, new(engine.Position).Restore(good))
}
