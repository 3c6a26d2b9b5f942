package server_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// What prompts, resources and completers return that is not UTF-8 is replaced. (Of a tool it is a failure.)
func TestAuthorsTextsAreRepaired(t *testing.T) {
	t.Parallel()
	const wrong, repaired = "a\xffb", "a\uFFFDb"
	suggest := map[string]saga.Completer{"person": func(context.Context, string, map[string]string) ([]string, error) {
		return []string{wrong}, nil
	}}
	prompt := saga.Prompt[personArgs, none]{
		Machine: saga.Machine[personArgs, none]{
			Info: saga.Info{Name: "prompt", Description: "Returns bytes."},
			Start: func(t *saga.Turn[personArgs, none]) (saga.Next, error) {
				return t.Messages(content.Message{Role: content.User, Content: content.Text{Text: wrong}})
			},
		},
		Complete: suggest,
	}
	resource := saga.Resource[none, none]{
		Machine: saga.Machine[none, none]{
			Info: saga.Info{Name: "resource", Description: "Returns bytes."},
			Start: func(t *plain) (saga.Next, error) {
				return t.Contents(content.ResourceContents{URI: "test://bytes", Text: wrong})
			},
		},
		URI: "test://bytes",
	}
	c := newRig(t, server.Options{Tools: []saga.Definition{prompt, resource}}).connect("2025-11-25", everything)
	for _, request := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"prompt","arguments":{"person":"x"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://bytes"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"person","value":""}}}`,
	} {
		answer := c.ask(request)
		assert.Contains(t, answer, repaired, request)
		assert.NotContains(t, answer, `"error"`, request)
	}
}
