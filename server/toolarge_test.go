package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type wordy struct {
	Text string `json:"text,omitempty"`
}

// rememberingTool keeps its arguments and answers in its state.
func rememberingTool() saga.Definition {
	type turn = saga.Turn[wordy, []string]
	more := &steps.Form[wordy]{ID: "more", Message: "More?"}
	ask := func(t *turn) (saga.Next, error) {
		if answer, err := more.Answer(t); err == nil {
			t.State = append(t.State, answer.Text)
		}
		return t.Ask("asked", more)
	}
	return saga.Machine[wordy, []string]{
		Info: saga.Info{Name: "remember", Asks: []steps.Question{more}}, Start: ask, Steps: saga.Steps[wordy, []string]{"asked": ask},
	}
}

// noise is text of base64 that does not compress.
func noise(n int) string {
	var b strings.Builder
	for x := uint32(1); b.Len() < n; {
		x = x*1664525 + 1013904223
		b.WriteByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[x>>26])
	}
	return b.String()
}

// A request that brings more than can be remembered is the caller's fault: it is told
// so, with the limit, and nobody is alarmed.
func TestTooLargeToRemember(t *testing.T) {
	r := newRig(t, server.Options{Tools: []saga.Definition{rememberingTool()}})
	check := func(t *testing.T, raw string) {
		t.Helper()
		m := parseMessage(t, raw)
		assert.Equal(t, -32602, m.code(), "%.300s", raw)
		assert.Contains(t, raw, "too large")
		var data struct{ Size, Limit int }
		require.NotNil(t, m.Error, "%.300s", raw)
		require.NoError(t, json.Unmarshal(m.Error.Data, &data))
		assert.Positive(t, data.Limit)
		assert.Greater(t, data.Size, data.Limit)
		log := r.log.take()
		assert.NotContains(t, log, "ERROR")
		assert.NotContains(t, log, "WARN")
		assert.Contains(t, log, `"level":"INFO","msg":"request too large"`)
	}
	for name, long := range map[string]string{"plain": strings.Repeat("a", 1<<20-2000), "packed": noise(100_000)} {
		t.Run(name, func(t *testing.T) {
			answer := object{"action": "accept", "content": object{"text": long}}
			t.Run("saga arguments", func(t *testing.T) {
				check(t, r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"remember","arguments":{"text":"`+long+`"}}}`))
			})
			t.Run("saga answer", func(t *testing.T) {
				begun := parse(t, r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"remember"}}`))
				raw, err := json.Marshal(answer)
				require.NoError(t, err)
				resume := `{"jsonrpc":"2.0","id":1,"method":"tools/resumeSaga","params":{"sagaToken":"` + begun.Result.SagaToken + `","completedSteps":[{"stepId":"more","result":`
				check(t, r.post(resume+string(raw)+`}]}}`))
				assert.Contains(t, r.post(resume+`{"action":"accept","content":{"text":"b"}}}]}}`), "suspended", "the token is still good")
			})
			t.Run("stateless", func(t *testing.T) {
				q := callTool("remember", nil).with(allCapabilities)
				state := r.state(q)
				check(t, r.send(q.answering(state, object{"more": answer})).raw)
			})
			t.Run("session", func(t *testing.T) {
				c := r.connect("2025-11-25", everything)
				check(t, c.ask(toolCall(1, "remember", `{"text":"`+long+`"}`)))
				s := c.stream(toolCall(2, "remember", `{}`))
				raw, err := json.Marshal(answer)
				require.NoError(t, err)
				c.reply(s.wait("elicitation/create").ID, string(raw))
				check(t, s.wait("").data)
			})
		})
	}
}

// A tool that remembers too much by itself is what operators must hear of.
func TestToolThatRemembersTooMuch(t *testing.T) {
	type turn = saga.Turn[wordy, string]
	ask := &steps.Form[struct{}]{ID: "ask", Message: "Well?"}
	tool := saga.Machine[wordy, string]{
		Info: saga.Info{Name: "hoard", Asks: []steps.Question{ask}},
		Start: func(t *turn) (saga.Next, error) {
			t.State = strings.Repeat("s", 300<<10)
			return t.Ask("asked", ask)
		},
		Steps: saga.Steps[wordy, string]{"asked": func(t *turn) (saga.Next, error) { return t.Textf("done") }},
	}
	r := newRig(t, server.Options{Tools: []saga.Definition{tool}})
	status, body := r.do(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"hoard","arguments":{"text":"short"}}}`, nil)
	assert.Equal(t, 200, status)
	assert.Contains(t, body, `"code":-32603,"message":"internal error"`)
	assert.Contains(t, r.log.take(), `"level":"ERROR"`)
}
