package turns

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The attack: a client calls a tool again and again, each time guessing the next digit
// of a secret of the server's in an argument, and sees how long the token becomes. If
// both are compressed together, a right guess makes it shorter. Lengths are padded, so
// each guess is made with many fillers, which shift the roundings.
const (
	leakDigits = "0123456789abcdef"
	leakLength = 8
	leakRounds = 90 // so 11 520 calls for a secret
)

// guessSecret mounts the attack, with so many fillers. call returns the length of the token that
// comes of an argument.
func guessSecret(rounds int, call func(argument string) int) string {
	noise := rand.New(rand.NewPCG(4, 2))
	const letters = "GHIJKLMNOPQRSTUVWXYZghijklmnopqrstuvwxyz"
	known := ""
	for range leakLength {
		var totals [len(leakDigits)]int
		for range rounds {
			filler := make([]byte, 8+noise.IntN(32))
			for i := range filler {
				filler[i] = letters[noise.IntN(len(letters))]
			}
			for i, guess := range leakDigits {
				totals[i] += call(known + string(guess) + string(filler))
			}
		}
		best := 0
		for i := range totals {
			if totals[i] < totals[best] {
				best = i
			}
		}
		known += leakDigits[best : best+1]
	}
	return known
}

type (
	leakArgs struct {
		Key string `json:"key"`
	}
	leakState struct {
		Key string `json:"key"`
	}
	leakMixed struct {
		Note leakArgs  `json:"note"`
		Own  leakState `json:"own"`
	}
	leakSealed struct {
		Note leakArgs `json:"note"`
		Own  struct {
			Key saga.Secret `json:"key"`
		} `json:"own"`
	}
	leakForm struct {
		Sure bool `json:"sure"`
	}
)

var leakAsk = &steps.Form[leakForm]{ID: "sure", Message: "Sure?"}

// leakMachine is a tool that keeps what keep returns while it waits.
func leakMachine[State any](keep func(leakArgs) State) saga.Definition {
	return saga.Machine[leakArgs, State]{
		Info: saga.Info{Name: "t", Asks: []steps.Question{leakAsk}},
		Start: func(t *saga.Turn[leakArgs, State]) (saga.Next, error) {
			t.State = keep(t.Args)
			return t.Ask("end", leakAsk)
		},
		Steps: saga.Steps[leakArgs, State]{"end": func(t *saga.Turn[leakArgs, State]) (saga.Next, error) {
			return t.Textf("done")
		}},
	}
}

// leakFlow is a tool that performs an effect with a given result, and waits.
func leakFlow[In, Out any](input func(leakArgs) In, do func(In) Out) saga.Definition {
	issue := &saga.Effect[In, Out]{Name: "issue", Do: func(_ context.Context, _ saga.Key, in In) (Out, error) { return do(in), nil }}
	return saga.Flow[leakArgs, string]{
		Info: saga.Info{Name: "t", Asks: []steps.Question{leakAsk}, Effects: []saga.Declared{issue}},
		Run: func(r *saga.Run, in leakArgs) (string, error) {
			if _, err := saga.Do(r, issue, input(in)); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, leakAsk)
			return "", err
		},
	}
}

// TestLengthsDoNotLeakSecrets mounts the attack wherever a tool can keep a secret. It
// must succeed where docs/security.md says that it does, or the rest would prove nothing.
func TestLengthsDoNotLeakSecrets(t *testing.T) {
	if testing.Short() {
		t.Skip("seals thousands of tokens")
	}
	var secret string // the server's
	same := func(a leakArgs) leakArgs { return a }
	none := func(leakArgs) struct{} { return struct{}{} }
	sealed := func(note leakArgs) (s leakSealed) {
		s.Note, s.Own.Key = note, saga.NewSecret(secret)
		return s
	}
	for name, test := range map[string]struct {
		tool saga.Definition
		// leaks: the attack succeeds. length: the secret's content has an influence on
		// the token's length, though none that guesses could use.
		leaks, length bool
	}{
		"state with text of the client's": {tool: leakMachine(func(a leakArgs) leakMixed { return leakMixed{a, leakState{secret}} }), leaks: true},
		"state":                           {tool: leakMachine(func(leakArgs) leakState { return leakState{secret} }), length: true},
		"Secret in state with text of the client's": {tool: leakMachine(sealed)},
		"effect's result": {tool: leakFlow(none, func(struct{}) leakState { return leakState{secret} })},
		"effect's result, the client's in the input":  {tool: leakFlow(same, func(leakArgs) leakState { return leakState{secret} })},
		"effect's result beside text of the client's": {tool: leakFlow(same, func(a leakArgs) leakMixed { return leakMixed{a, leakState{secret}} })},
		"effect's input":              {tool: leakFlow(func(leakArgs) leakState { return leakState{secret} }, func(leakState) bool { return true })},
		"Secret in effect's result":   {tool: leakFlow(same, sealed)},
		"Secret in effect's input":    {tool: leakFlow(sealed, func(leakSealed) bool { return true })},
		"effect's result is a Secret": {tool: leakFlow(same, func(leakArgs) saga.Secret { return saga.NewSecret(secret) })},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRunner(t, test.tool)
			q := Request{Policy: Carried, Client: steps.AllFeatures(), Program: r.Registry.Find(engine.KindTool, "t")}
			calls, sum, lengths := 0, 0, map[string]int{}
			call := func(argument string) int {
				args, err := json.Marshal(leakArgs{argument})
				require.NoError(t, err)
				q.Arguments = args
				end, err := r.Call(t.Context(), q)
				require.NoError(t, err)
				require.NotEmpty(t, end.Token)
				calls++
				sum += len(end.Token)
				return len(end.Token)
			}
			secrets := []string{"7d03f9b2", "c41e8a07", "0b5b26fe", "e92c7014", "3aa81c5d", "5f60d2e9", "d7719b34", "88e4c0fa"}
			rounds := leakRounds
			if !test.leaks && !test.length {
				secrets = secrets[:2] // that the lengths are the same says it of all
				if !longtests.Wanted() {
					rounds /= 5
				}
			} else if !longtests.Wanted() {
				secrets = secrets[:2]
			}
			recovered := 0
			for _, secret = range secrets {
				sum = 0
				got := guessSecret(rounds, call)
				if got == secret {
					recovered++
				}
				lengths[fmt.Sprint(got, " ", sum)]++
			}
			t.Logf("%d of %d secrets recovered with %d calls each", recovered, len(secrets), calls/len(secrets))
			if test.leaks {
				require.Equal(t, len(secrets), recovered, "the attack must work where it can")
				return
			}
			assert.Zero(t, recovered)
			if !test.length {
				assert.Len(t, lengths, 1, "neither what the attack finds nor how long all tokens were depends on the secret")
				secret = secrets[0]
				for _, argument := range []string{"", "7d03f9b2", `"key":"7d03f9b2`, "x"} {
					want := call(argument)
					for _, secret = range secrets {
						assert.Equal(t, want, call(argument), "nor does any length")
					}
				}
			}
		})
	}
}
