package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// playTranscript sends the proposal's requests and compares the responses byte
// for byte but for the tokens.
func playTranscript(t *testing.T, send func(request string) string) {
	token := "none"
	for i, pair := range transcript(t) {
		got := send(strings.NewReplacer("TOKEN1", token, "TOKEN2", token).Replace(pair[0]))
		if next := parse(t, got).Result.SagaToken; next != "" {
			assert.NotEqual(t, token, next)
			token = next
			got = strings.Replace(got, token, []string{"TOKEN1", "TOKEN2"}[i], 1)
		}
		require.Equal(t, pair[1], got)
	}
}

func TestProposalTranscript(t *testing.T) {
	r := newRig(t, server.Options{})
	playTranscript(t, r.post)
	assert.Empty(t, r.log.take(), "nothing to complain about")
}

// Each turn on another server that shares nothing but the keyset.
func TestAnyReplicaTakesTheNextTurn(t *testing.T) {
	keys := newKeys(t)
	playTranscript(t, func(request string) string {
		return newRig(t, server.Options{Keys: keys, Audience: "deployment"}).post(request)
	})
}

func TestMalformedRequests(t *testing.T) {
	r := newRig(t, server.Options{})
	token := r.firstToken()
	call := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":` + params + `}`
	}
	resume := func(steps string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/resumeSaga","params":{"sagaToken":"` + token + `","completedSteps":` + steps + `}}`
	}
	tests := []struct {
		name, message string
		code          int
		text          string
	}{
		{"no params", `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga"}`, -32602, "params.name is missing"},
		{"no name", call(`{"arguments":{}}`), -32602, "params.name is missing"},
		{"name of the wrong type", call(`{"name":7}`), -32602, "/name"},
		{"unknown tool", call(`{"name":"nope"}`), -32602, "tools/list"},
		{"arguments not an object", call(`{"name":"complex_tool","arguments":[]}`), -32602, "must be an object"},
		{"no completedSteps", `{"jsonrpc":"2.0","id":1,"method":"tools/resumeSaga","params":{"sagaToken":"x"}}`, -32602, "completedSteps is missing"},
		{"completedSteps of the wrong type", resume(`{}`), -32602, "/completedSteps"},
		{"step without id", resume(`[{"result":{}}]`), -32602, "no stepId"},
		{"result not an object", resume(`[{"stepId":"a","result":7}]`), -32602, `step "a": its result must be an object`},
		{"null result", resume(`[{"stepId":"a","result":null}]`), -32602, `step "a": its result must be an object`},
		{"error without code", resume(`[{"stepId":"a","error":{"message":"x"}}]`), -32602, `step "a": its error must be an object with code`},
		{"duplicates that differ", resume(`[{"stepId":"a","result":{}},{"stepId":"a","result":{"x":1}}]`), -32602, `step "a": two different results`},
		{"malformed answer", resume(`[{"stepId":"step-elicitation-A","result":{"action":"perhaps"}}]`), -32602, `step "step-elicitation-A"`},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"nope"}`, -32601, "method not found"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := parse(t, r.post(test.message))
			require.NotNil(t, got.Error)
			assert.Equal(t, test.code, got.Error.Code)
			assert.Contains(t, got.Error.Message, test.text)
		})
	}
	got := parse(t, r.resume(token))
	assert.Equal(t, "step-sampling-B", got.Result.Steps[0].StepID, "the token has survived all of it")
}

func TestResumeWithoutAnswersAsksAgain(t *testing.T) {
	r := newRig(t, server.Options{})
	body := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/resumeSaga","params":{"sagaToken":"` + r.firstToken() + `","completedSteps":[]}}`)
	assert.Equal(t, "step-elicitation-A", parse(t, body).Result.Steps[0].StepID)
}

func TestEveryIDComesBackAsItWas(t *testing.T) {
	r := newRig(t, server.Options{})
	for _, id := range []string{`1`, `-7`, `0`, `9223372036854775807`, `""`, `"a\u0000b"`, `"<&>"`} {
		got := r.post(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
		assert.Equal(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`, got)
	}
}

func TestLookingAround(t *testing.T) {
	r := newRig(t, server.Options{Name: "n", Title: "T", Version: "1", Instructions: "Be kind."})
	got := r.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	assert.JSONEq(t, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"logging":{},"experimental":{"io.github.mcpsaga/saga":{}}},
		"serverInfo":{"name":"n","title":"T","version":"1"},"instructions":"Be kind."}}`, got)
	got = r.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1900-01-01"}}`)
	assert.Contains(t, got, `"protocolVersion":"2025-11-25"`)
	got = r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	assert.Contains(t, got, `"name":"complex_tool"`)
	assert.Contains(t, got, `"inputSchema":{"type":"object"`)
	assert.Contains(t, got, `"_meta":{"io.github.mcpsaga/saga":{"method":"tools/callSaga","revision":0,"steps":["step-elicitation-A","step-sampling-B"]}}`)
}

func TestFailuresInsideAreNotTold(t *testing.T) {
	type none struct{}
	broken := func(name string, f func(*saga.Turn[none, none]) (saga.Next, error)) saga.Definition {
		return saga.Machine[none, none]{Info: saga.Info{Name: name}, Start: f}
	}
	r := newRig(t, server.Options{Tools: []saga.Definition{
		broken("panics", func(*saga.Turn[none, none]) (saga.Next, error) { panic("hunter2") }),
		broken("fails", func(*saga.Turn[none, none]) (saga.Next, error) { return nil, context.Canceled }),
	}})
	got := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"panics"}}`)
	assert.Equal(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`, got)
	log := r.log.take()
	assert.Contains(t, log, `"tool":"panics"`)
	assert.Contains(t, log, `step function \"start\": panic: hunter2`)
	assert.Contains(t, log, "sagas_test.go", "the stack")

	failed := parse(t, r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"fails"}}`))
	assert.True(t, failed.Result.IsError)
	log = r.log.take()
	assert.Contains(t, log, `"tool":"fails"`)
	_, reference, _ := strings.Cut(log, `"saga":"`)
	assert.Contains(t, failed.Result.Content[0].Text, reference[:32], "the user can tell the operator where to look")
}

func TestSlowToolIsStopped(t *testing.T) {
	type none struct{}
	r := newRig(t, server.Options{TurnTimeout: 20e6, Tools: []saga.Definition{
		saga.Machine[none, none]{Info: saga.Info{Name: "slow"}, Start: func(t *saga.Turn[none, none]) (saga.Next, error) {
			<-t.Done()
			return nil, t.Err()
		}},
	}})
	got := parse(t, r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"slow"}}`))
	require.NotNil(t, got.Error, "the saga has not ended")
	assert.Equal(t, -32603, got.Error.Code)
	assert.Contains(t, got.Error.Message, "took too long")
	assert.Contains(t, r.log.take(), `"tool":"slow"`)
}
