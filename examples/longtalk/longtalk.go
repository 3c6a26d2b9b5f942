// Package longtalk is a tool that takes long: eight rounds of questions, the most
// that every client in use goes through with. It shows how a machine keeps a
// conversation of any length in a small token, and a round with two questions.
package longtalk

import (
	"fmt"
	"strings"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Rounds is how often the tool asks.
const Rounds = 8

// together is the round that has the model's opinion asked as well.
const together = 5

type args struct {
	Topic string `json:"topic,omitempty" jsonschema:"what to talk about; the weather if empty"`
}

type state struct {
	Said    []string `json:"said"`
	Opinion string   `json:"opinion,omitempty"`
}

type word struct {
	Word string `json:"word" title:"A word" maxLength:"40"`
}

var (
	askWord    = &steps.Form[word]{ID: "word", Message: "Say a word."}
	askOpinion = &steps.Sample{ID: "opinion", Request: steps.SampleRequest{MaxTokens: 50}}
)

type turn = saga.Turn[args, state]

// Tool is long_talk.
var Tool = saga.Machine[args, state]{
	Info: saga.Info{
		Name:        "long_talk",
		Title:       "Talk for long",
		Description: "Asks the user for eight words, one after the other, and the client's model for its opinion in between.",
		Asks:        []steps.Question{askWord, askOpinion},
	},
	Start: start,
	Steps: saga.Steps[args, state]{"said": said},
}

func start(t *turn) (saga.Next, error) {
	if err := t.Need(steps.Features{Forms: true, Sampling: true}); err != nil {
		return nil, err // rather than after four rounds
	}
	return ask(t)
}

func ask(t *turn) (saga.Next, error) {
	round := len(t.State.Said) + 1
	question := askWord.With(steps.Message(fmt.Sprintf("Word %d of %d about %s:", round, Rounds, topic(t))))
	if round != together {
		return t.Ask("said", question)
	}
	return t.Ask("said", question, askOpinion.With(steps.Promptf("What do you make of these words? %s", words(t))))
}

func said(t *turn) (saga.Next, error) {
	answer, err := askWord.Answer(t)
	if err != nil {
		return nil, err
	}
	t.State.Said = append(t.State.Said, answer.Word)
	switch len(t.State.Said) {
	case together:
		opinion, err := askOpinion.Answer(t)
		if err != nil {
			return nil, err
		}
		t.State.Opinion = opinion.Text()
	case Rounds:
		return t.Textf("About %s you said: %s. The model thought: %s", topic(t), words(t), t.State.Opinion)
	}
	return ask(t)
}

func topic(t *turn) string {
	if t.Args.Topic == "" {
		return "the weather"
	}
	return t.Args.Topic
}

func words(t *turn) string { return strings.Join(t.State.Said, ", ") }
