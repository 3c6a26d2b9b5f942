package server_test

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What a tool asks at once goes to clients of sessions in the tool's order: they have only this to tell questions apart.
func TestSeveralQuestionsAreAskedInTheirOrder(t *testing.T) {
	var asks []steps.Request
	var questions []steps.Question
	for i := range 5 {
		q := &steps.Form[struct{}]{ID: fmt.Sprintf("q%d", i), Message: fmt.Sprintf("Question %d?", i)}
		asks, questions = append(asks, q), append(questions, q)
	}
	several := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "several", Asks: questions},
		Run:  func(r *saga.Run, _ struct{}) (string, error) { return "", r.AskAll(asks...) },
	}
	inOrder := func(t *testing.T, next func() string) {
		for i := range asks {
			require.Contains(t, next(), fmt.Sprintf("Question %d?", i))
		}
	}
	t.Run("HTTP", func(t *testing.T) {
		r := newRig(t, server.Options{Tools: []saga.Definition{several}})
		for range 20 {
			s := r.connect("2025-11-25", everything).stream(toolCall(1, "several", `{}`))
			inOrder(t, func() string { return string(s.wait("elicitation/create").Params) })
			s.close()
		}
	})
	t.Run("stdio", func(t *testing.T) {
		in, input := io.Pipe()
		output, out := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- newStdio(t, several).ServeStdio(t.Context(), in, out) }()
		lines := bufio.NewScanner(output)
		say := func(line string) {
			_, err := io.WriteString(input, line+"\n")
			require.NoError(t, err)
		}
		next := func() string {
			require.True(t, lines.Scan())
			return lines.Text()
		}
		say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"x","version":"1"}}}`)
		next()
		id := regexp.MustCompile(`"id":(\d+)`)
		for n := range 20 {
			say(toolCall(n+1, "several", `{}`))
			var ids []string
			inOrder(t, func() string {
				line := next()
				ids = append(ids, id.FindStringSubmatch(line)[1])
				return line
			})
			for _, id := range ids {
				say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"action":"accept","content":{}}}`)
			}
			next()
		}
		_ = input.Close()
		assert.NoError(t, <-ended)
	})
}
