package main

import (
	"math/rand/v2"
	"strings"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// roundsArgs say how often a tool asks, and how large its state is, in bytes.
type roundsArgs struct {
	Rounds int `json:"rounds"`
	Size   int `json:"size,omitempty"`
}

type roundsState struct {
	Asked int    `json:"asked"`
	Notes string `json:"notes,omitempty"`
}

type goOn struct {
	Go bool `json:"go"`
}

var goOnForm = &steps.Form[goOn]{ID: "go", Message: "Go on?"}

var roundsTool = saga.Machine[roundsArgs, roundsState]{
	Info: saga.Info{Name: "rounds", Description: "Asks several times.", Asks: []steps.Question{goOnForm}},
	Start: func(t *saga.Turn[roundsArgs, roundsState]) (saga.Next, error) {
		if t.Args.Size > 0 {
			t.State.Notes = prose(t.Args.Size)
		}
		return t.Ask("next", goOnForm)
	},
	Steps: saga.Steps[roundsArgs, roundsState]{
		"next": func(t *saga.Turn[roundsArgs, roundsState]) (saga.Next, error) {
			if _, err := goOnForm.Answer(t); err != nil {
				return nil, err
			}
			if t.State.Asked++; t.State.Asked == t.Args.Rounds {
				return t.Textf("All rounds are done.")
			}
			return t.Ask("next", goOnForm)
		},
	},
}

var roundsFlow = saga.Flow[roundsArgs, string]{
	Info: saga.Info{Name: "rounds_flow", Description: "Asks several times.", Asks: []steps.Question{goOnForm}},
	Run: func(r *saga.Run, in roundsArgs) (string, error) {
		for i := range in.Rounds {
			if _, err := saga.Ask(r, goOnForm.Nth(i)); err != nil {
				return "", err
			}
		}
		return "All rounds are done.", nil
	},
}

// prose returns a text of n bytes, always the same. It says things again, as what is
// kept of long conversations does, and so compresses to about a tenth.
func prose(n int) string {
	words := strings.Fields("saga turn step answer token effect undo client server state keys order ship hold pay refund plan city date room seat price")
	random := rand.New(rand.NewPCG(1, 1))
	var phrases [64]string
	for i := range phrases {
		for range 7 {
			phrases[i] += words[random.IntN(len(words))] + " "
		}
	}
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(phrases[random.IntN(len(phrases))])
	}
	return b.String()[:n]
}
