package server_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// What a caller or its user chooses is no alarm, though it is refused; an operator
// could be called at will otherwise.
func TestCallersRaiseNoAlarms(t *testing.T) {
	resume := func(token string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/resumeSaga","params":{"sagaToken":"` + token + `","completedSteps":[]}}`
	}
	now := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	r := newRig(t, server.Options{Tools: legacyDefinitions(), Now: now.Now})
	expired := parse(t, r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"complex_tool"}}`)).Result.SagaToken
	for name, provoke := range map[string]func(){
		"a token that is none":   func() { r.post(resume("1nonsense")) },
		"a token without end":    func() { r.post(resume(strings.Repeat("x", 100_000))) },
		"a token that came late": func() { now.set(now.Now().Add(time.Hour)); r.post(resume(expired)) },
		"a foreign page": func() {
			r.do("POST", "/mcp", pingMessage, func(q *http.Request) { q.Header.Set("Origin", "https://evil.example") })
		},
		"a prompt's user declines": func() { declineGreeting(t, r, `{"action":"decline"}`) },
		"an answer that is none":   func() { declineGreeting(t, r, `{"action":7}`) },
	} {
		t.Run(name, func(t *testing.T) {
			r.log.take()
			provoke()
			log := r.log.take()
			assert.Contains(t, log, `"level":"INFO"`, "it is to be seen")
			assert.NotContains(t, log, `"WARN"`)
			assert.NotContains(t, log, `"ERROR"`)
		})
	}
	t.Run("nobody", func(t *testing.T) {
		r := newRig(t, server.Options{Authenticate: func(*http.Request) (saga.Caller, error) { return saga.Caller{}, errors.New("no") }})
		r.do("POST", "/mcp", pingMessage, nil)
		assert.NotContains(t, r.log.take(), `"WARN"`)
	})
	t.Run("another's session", func(t *testing.T) {
		r := newRig(t, server.Options{Authenticate: who})
		c := r.connect("2025-11-25", everything, as("ann"))
		r.log.take()
		r.do("POST", "/mcp", listTools, func(q *http.Request) { q.Header.Set("Mcp-Session-Id", c.session); q.Header.Set("Who", "bob") })
		assert.NotContains(t, r.log.take(), `"WARN"`)
	})
}

func declineGreeting(t *testing.T, r *rig, answer string) {
	t.Helper()
	c := r.connect("2025-06-18", everything)
	s := c.stream(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"greeting","arguments":{"name":"Ann"}}}`)
	c.reply(s.wait("elicitation/create").ID, answer)
	assert.Equal(t, -32602, int(s.wait("").Error.Code), "it is no fault of the server")
}

// A tool that is too slow is something to look at, and no more: callers choose what
// takes long. So are tokens that another keyset sealed.
func TestWhatOperatorsLookAtIsWarnedOf(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		type none struct{}
		r := newRig(t, server.Options{TurnTimeout: 20e6, Tools: []saga.Definition{
			saga.Machine[none, none]{Info: saga.Info{Name: "slow"}, Start: func(ctx *saga.Turn[none, none]) (saga.Next, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}},
			saga.Prompt[none, none]{
				Machine: saga.Machine[none, none]{
					Info: saga.Info{Name: "broken"},
					Start: func(*saga.Turn[none, none]) (saga.Next, error) {
						return nil, saga.Failf("The service does not answer: %w", errors.New("no route"))
					},
				},
			},
		}})
		got := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"slow"}}`)
		assert.Contains(t, got, "took too long")
		log := r.log.take()
		assert.Contains(t, log, `"WARN","msg":"turn timed out"`)
		assert.NotContains(t, log, `"ERROR"`)

		m := parseLegacy(t, r.connect("2025-06-18", everything).ask(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"broken"}}`))
		require.NotNil(t, m.Error)
		assert.EqualValues(t, -32603, m.Error.Code, "its cause is for the operator")
		assert.Contains(t, r.log.take(), `"WARN","msg":"request failed"`)

		other := newRig(t, server.Options{})
		token := parse(t, other.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"complex_tool"}}`)).Result.SagaToken
		r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/resumeSaga","params":{"sagaToken":"` + token + `","completedSteps":[]}}`)
		assert.Contains(t, r.log.take(), `"reason":"unknown_key"`)
	})
}
