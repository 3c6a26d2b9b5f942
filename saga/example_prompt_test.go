package saga_test

import (
	"context"
	"fmt"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A prompt may ask before it gives its messages. It is written like a machine and
// ends with Messages.
func ExamplePrompt() {
	type args struct {
		Topic string `json:"topic" jsonschema:"what the text is about"`
	}
	type state struct{}
	type turn = saga.Turn[args, state]
	type tone struct {
		Tone string `json:"tone" enum:"friendly|formal"`
	}
	askTone := &steps.Form[tone]{ID: "tone", Message: "How shall it sound?"}

	write := saga.Prompt[args, state]{
		Machine: saga.Machine[args, state]{
			Info:  saga.Info{Name: "write", Description: "Writes a text.", Asks: []steps.Question{askTone}},
			Start: func(t *turn) (saga.Next, error) { return t.Ask("toned", askTone) },
			Steps: saga.Steps[args, state]{
				"toned": func(t *turn) (saga.Next, error) {
					form, err := askTone.Answer(t)
					if err != nil {
						return nil, err
					}
					text := fmt.Sprintf("Write a %s text about %s.", form.Tone, t.Args.Topic)
					return t.Messages(content.Message{Role: content.User, Content: content.Text{Text: text}})
				},
			},
		},
		Complete: map[string]saga.Completer{
			"topic": func(_ context.Context, typed string, _ map[string]string) ([]string, error) {
				return []string{typed + "s", typed + "ing"}, nil
			},
		},
	}

	// A client of MCP 2026-07-28 gets it in two requests.
	s := serve(nil, write)
	get := object{"name": "write", "arguments": object{"topic": "tea"}}
	asked := modern(s, "prompts/get", get)
	get["requestState"] = asked.Result.RequestState
	get["inputResponses"] = object{"tone": object{"action": "accept", "content": object{"tone": "formal"}}}
	modern(s, "prompts/get", get).print()
	// Output:
	// user: Write a formal text about tea.
}
