package server_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

func accept(member, value string) object {
	return object{"action": "accept", "content": object{member: value}}
}

var (
	saidHello  = object{"role": "assistant", "content": object{"type": "text", "text": "hello"}, "model": "m"}
	rootsGiven = object{"roots": []object{{"uri": "file:///work"}}}
)

// asked returns the keys and methods of the questions.
func (r modernResult) asked() map[string]string {
	asked := map[string]string{}
	for key, q := range r.InputRequests {
		asked[key] = q.Method
	}
	return asked
}

// state starts a request with all capabilities and returns its requestState.
func (r *rig) state(q *request) string {
	r.t.Helper()
	got := r.send(q.with(allCapabilities)).result(r.t)
	require.Equal(r.t, "input_required", got.ResultType)
	require.NotEmpty(r.t, got.RequestState)
	return got.RequestState
}

func TestMRTR(t *testing.T) {
	r := newModern(t)
	first := r.send(callTool("ask_all", nil).with(allCapabilities))
	assert.Equal(t, 200, first.status)
	assert.Equal(t, "application/json", first.header.Get("Content-Type"))
	got := first.result(t)
	assert.Equal(t, "input_required", got.ResultType)
	assert.Equal(t, map[string]string{"user_name": "elicitation/create", "model": "sampling/createMessage", "client_roots": "roots/list"}, got.asked())
	assert.JSONEq(t, `{"message":"What is your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}`,
		string(got.InputRequests["user_name"].Params))
	assert.JSONEq(t, `{}`, string(got.InputRequests["client_roots"].Params))
	var members map[string]any
	require.NoError(t, json.Unmarshal(first.Result, &members))
	assert.ElementsMatch(t, []string{"resultType", "inputRequests", "requestState", "_meta"}, slices.Collect(maps.Keys(members)))
	assert.Contains(t, got.Meta, "io.modelcontextprotocol/serverInfo")

	// One answer is missing: it is asked for again, and only it.
	partly := callTool("ask_all", nil).with(allCapabilities).
		answering(got.RequestState, object{"user_name": accept("name", "Ada"), "model": saidHello})
	partly.id = "second"
	again := r.send(partly)
	assert.Equal(t, `"second"`, string(again.ID))
	rest := again.result(t)
	assert.Equal(t, map[string]string{"client_roots": "roots/list"}, rest.asked())
	assert.NotEqual(t, got.RequestState, rest.RequestState)

	end := r.send(callTool("ask_all", nil).with(allCapabilities).answering(rest.RequestState, object{"client_roots": rootsGiven})).result(t)
	assert.Equal(t, "complete", end.ResultType)
	assert.Equal(t, "Hello, Ada!", end.text())
	assert.Empty(t, r.log.take())
}

// A URL mode elicitation has no elicitationId any more.
func TestMRTRURLMode(t *testing.T) {
	r := newModern(t)
	got := r.send(callTool("ask_page", nil).with(allCapabilities)).result(t)
	assert.JSONEq(t, `{"mode":"url","message":"Sign in","url":"https://example.com/sign-in"}`, string(got.InputRequests["page"].Params))
	end := r.send(callTool("ask_page", nil).with(allCapabilities).answering(got.RequestState, object{"page": object{"action": "accept"}}))
	assert.Equal(t, "answered", end.result(t).text())
}

func TestMRTRInputResponses(t *testing.T) {
	r := newModern(t)
	state := r.state(callTool("ask_name", nil))
	tests := []struct {
		name      string
		state     any
		responses any
		code      int
		want      string
	}{
		{"accepted", state, object{"user_name": accept("name", "Ada")}, 0, "Hello, Ada!"},
		{"declined", state, object{"user_name": object{"action": "decline"}}, 0, "declined"},
		{"cancelled", state, object{"user_name": object{"action": "cancel"}}, 0, "cancelled"},
		{"no answer", state, nil, 0, "input_required"},
		{"empty", state, object{}, 0, "input_required"},
		{"another key", state, object{"nickname": accept("name", "Ada")}, 0, "input_required"},
		{"an extra key", state, object{"user_name": accept("name", "Ada"), "extra": object{"x": 1}}, 0, "Hello, Ada!"},
		{"content that does not fit", state, object{"user_name": accept("nome", "Ada")}, 0, "user_name~2"},
		{"null", state, nullJSON, -32602, "must be an object"},
		{"a list", state, []int{}, -32602, "must be an object"},
		{"a number", state, 7, -32602, "must be an object"},
		{"an entry that is a number", state, object{"user_name": 12345}, -32602, "result object"},
		{"an entry that is null", state, object{"user_name": nil}, -32602, "result object"},
		{"an extra entry that is a number", state, object{"user_name": accept("name", "Ada"), "x": 1}, -32602, "result object"},
		{"an entry in an envelope", state, object{"user_name": object{"result": accept("name", "Ada")}}, -32602, "action"},
		{"an unknown action", state, object{"user_name": object{"action": "maybe"}}, -32602, "action"},
		{"content of the wrong type", state, object{"user_name": object{"action": "accept", "content": 7}}, -32602, "content"},
		{"state a number", 7, object{}, -32602, "requestState"},
		{"state null", nullJSON, object{}, -32602, "requestState"},
		{"state empty", "", object{}, -32602, "requestState"},
		// Without a state the saga starts, and takes what answers there are.
		{"answers, state lost", nil, object{"user_name": accept("name", "Ada")}, 0, "Hello, Ada!"},
		{"other answers, state lost", nil, object{"nickname": accept("name", "Ada")}, 0, "input_required"},
		{"malformed, state lost", nil, object{"user_name": 12345}, -32602, "result object"},
		{"null, state lost", nil, nullJSON, -32602, "must be an object"},
		// The saga has begun, so it is not given up for that.
		{"not an answer, state lost", nil, object{"user_name": object{"action": "maybe"}}, 0, "input_required"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			q := callTool("ask_name", nil).with(allCapabilities)
			if test.state != nil {
				q.params["requestState"] = test.state
			}
			if test.responses != nil {
				q.params["inputResponses"] = test.responses
			}
			got := r.send(q)
			assert.Equal(t, 200, got.status)
			assert.Equal(t, test.code, got.code(), got.raw)
			assert.Contains(t, got.raw, test.want)
		})
	}
	r.log.take()
}

// nullJSON is a member that is there and null.
var nullJSON = jsonNull{}

type jsonNull struct{}

func (jsonNull) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

const stale = `"error":{"code":-32602,"message":"the requestState is not valid here, or no longer: send the request again without requestState and inputResponses"}}`

// A state is good for the same caller, method, target and arguments only.
func TestMRTRStateIsBound(t *testing.T) {
	now := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	options := server.Options{Keys: newKeys(t), Tools: statelessTools(), Now: now.Now, Authenticate: func(q *http.Request) (saga.Caller, error) {
		return saga.Caller{Issuer: "https://issuer.example", Subject: q.Header.Get("X-User")}, nil
	}}
	r := newRig(t, options)
	ada := object{"person": "Ada"}
	state := r.state(callTool("ask_about", ada))
	red := object{"color": accept("color", "red")}
	retry := func(q *request, state string) *request { return q.with(allCapabilities).answering(state, red) }
	refused := func(t *testing.T, q *request, reason string) {
		t.Helper()
		got := r.send(q)
		require.Contains(t, got.raw, stale)
		require.Equal(t, 200, got.status)
		log := r.log.take()
		require.Contains(t, log, `"reason":"`+reason+`"`)
		require.NotContains(t, log, state)
	}
	t.Run("the same", func(t *testing.T) {
		got := r.send(retry(callTool("ask_about", ada), state)).result(t)
		assert.Equal(t, "Ada likes red", got.text())
	})
	t.Run("arguments spelt otherwise", func(t *testing.T) {
		q := retry(callTool("ask_about", ada), state)
		body := strings.Replace(q.body(), `{"person":"Ada"}`, `{ "person" : "\u0041da" }`, 1)
		require.NotEqual(t, q.body(), body)
		status, got := r.do("POST", "/mcp", body, func(h *http.Request) { h.Header = q.header })
		assert.Equal(t, 200, status)
		assert.Contains(t, got, "Ada likes red")
	})
	t.Run("other arguments", func(t *testing.T) {
		refused(t, retry(callTool("ask_about", object{"person": "Bob"}), state), "request")
	})
	t.Run("more arguments", func(t *testing.T) {
		refused(t, retry(callTool("ask_about", object{"person": "Ada", "style": "x"}), state), "request")
	})
	t.Run("no arguments", func(t *testing.T) { refused(t, retry(callTool("ask_about", nil), state), "request") })
	t.Run("another tool", func(t *testing.T) { refused(t, retry(callTool("ask_name", ada), state), "tool") })
	t.Run("a prompt of that name", func(t *testing.T) {
		toolState := r.state(callTool("rounds", nil))
		refused(t, modernRequest("prompts/get", object{"name": "rounds"}).with(allCapabilities).answering(toolState, red), "tool")
		refused(t, modernRequest("resources/read", object{"uri": "test://rounds"}).with(allCapabilities).answering(toolState, red), "tool")
	})
	t.Run("another resource of the template", func(t *testing.T) {
		state := r.state(modernRequest("resources/read", object{"uri": "test://note/1"}))
		refused(t, modernRequest("resources/read", object{"uri": "test://note/2"}).with(allCapabilities).answering(state, red), "request")
	})
	t.Run("another user", func(t *testing.T) {
		q := retry(callTool("ask_about", ada), state)
		q.header.Set("X-User", "mallory")
		refused(t, q, "authentication")
	})
	t.Run("tampered", func(t *testing.T) {
		// Whether that can be decoded at all depends on its length.
		got := r.send(retry(callTool("ask_about", ada), state+"-TAMPERED"))
		assert.Contains(t, got.raw, stale)
		assert.Contains(t, r.log.take(), "token refused")
	})
	t.Run("token of another dialect", func(t *testing.T) {
		got := parse(t, r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"ask_about","arguments":{"person":"Ada"}}}`))
		refused(t, retry(callTool("ask_about", ada), got.Result.SagaToken), "authentication")
	})
	t.Run("in another dialect", func(t *testing.T) {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/resumeSaga","params":{"sagaToken":"` + state + `","completedSteps":[]}}`
		assert.Contains(t, r.post(body), "the saga token is not valid here")
		r.log.take()
	})
	t.Run("expired", func(t *testing.T) {
		start := now.Now()
		defer now.set(start)
		now.set(start.Add(time.Hour))
		refused(t, retry(callTool("ask_about", ada), state), "expired")
	})
	t.Run("bad base64 and junk", func(t *testing.T) {
		for _, junk := range []string{"x", "\x00", strings.Repeat("A", 100_000), "é", state[1:]} {
			got := r.send(retry(callTool("ask_about", ada), junk))
			assert.Contains(t, got.raw, stale, "%.20q", junk)
			assert.Contains(t, r.log.take(), "token refused")
		}
	})
}

// Eight rounds, two steps in the third, each round on another server that shares
// nothing but the keys, and each with a client that repeats old answers too.
func TestMRTREightRoundsAnywhere(t *testing.T) {
	kinds := map[string]func() *request{
		"tool":     func() *request { return callTool("rounds", nil) },
		"prompt":   func() *request { return modernRequest("prompts/get", object{"name": "rounds"}) },
		"resource": func() *request { return modernRequest("resources/read", object{"uri": "test://rounds"}) },
	}
	for name, start := range kinds {
		for _, repeat := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, repeating %v", name, repeat), func(t *testing.T) {
				keys := newKeys(t)
				fresh := func() *rig {
					return newRig(t, server.Options{Keys: keys, Tools: statelessTools(), Audience: "here"})
				}
				got := fresh().send(start().with(allCapabilities)).result(t)
				responses := object{}
				rounds, states := 0, map[string]bool{}
				for got.ResultType == "input_required" {
					rounds++
					require.LessOrEqual(t, rounds, 8)
					require.Len(t, got.InputRequests, map[bool]int{true: 2, false: 1}[rounds == 3])
					require.False(t, states[got.RequestState], "every state is new")
					states[got.RequestState] = true
					if !repeat {
						clear(responses)
					}
					for _, key := range slices.Sorted(maps.Keys(got.InputRequests)) {
						responses[key] = accept("name", "a-"+key)
					}
					got = fresh().send(start().with(allCapabilities).answering(got.RequestState, responses)).result(t)
				}
				assert.Equal(t, 8, rounds)
				assert.Equal(t, "complete", got.ResultType)
				assert.Equal(t, "[a-q1 a-q2 a-q3 a-q4 a-q5 a-q6 a-q7 a-q8 a-q9]", got.text())
			})
		}
	}
}

// The same state can be used again: a retry of a lost response gives the same.
func TestMRTRRetryOfALostResponse(t *testing.T) {
	r := newModern(t)
	state := r.state(callTool("rounds", nil))
	for range 3 {
		got := r.send(callTool("rounds", nil).with(allCapabilities).answering(state, object{"q1": accept("name", "x")})).result(t)
		assert.Contains(t, got.InputRequests, "q2")
	}
}

// A client that lost its state, but has all the answers, gets through.
func TestMRTRAllAnswersAtOnce(t *testing.T) {
	r := newModern(t)
	responses := object{}
	for i := range 9 {
		responses[fmt.Sprintf("q%d", i+1)] = accept("name", fmt.Sprint(i+1))
	}
	got := r.send(callTool("rounds", nil).with(allCapabilities).answering("", responses)).result(t)
	assert.Equal(t, "[1 2 3 4 5 6 7 8 9]", got.text())
	delete(responses, "q4")
	got = r.send(callTool("rounds", nil).with(allCapabilities).answering("", responses)).result(t)
	assert.Equal(t, map[string]string{"q4": "elicitation/create"}, got.asked(), "round three lacks one of two")
}

// Client-chosen text is quoted in the log, whatever it is.
func TestStatelessLogInjection(t *testing.T) {
	var b logBuffer
	o := server.Options{Keys: newKeys(t), Tools: statelessTools(), Logger: slog.New(slog.NewTextHandler(&b, nil))}
	s, err := server.New(o)
	require.NoError(t, err)
	evil := "x\nlevel=ERROR msg=forged"
	line := callTool("ask_name", nil).with(allCapabilities).answering(evil, object{evil: object{}}).body()
	lines(t, s, strings.ReplaceAll(line, "\n", " ")+"\n")
	assert.NotContains(t, b.take(), "\nlevel=ERROR msg=forged")
}

// A client must not exchange an argument for one that differs only where a
// floating-point number has no more digits.
func TestMRTRStateIsBoundToExactNumbers(t *testing.T) {
	type args struct {
		Account int64           `json:"account"`
		Amount  json.RawMessage `json:"amount"`
	}
	confirm := &steps.Form[struct{}]{ID: "confirm", Message: "Pay?"}
	r := newRig(t, server.Options{Tools: []saga.Definition{saga.Machine[args, struct{}]{
		Info: saga.Info{
			Name: "pay", Asks: []steps.Question{confirm},
			RawInputSchema: json.RawMessage(`{"type":"object","properties":{"account":{"type":"integer"},"amount":{"type":"number"}}}`),
		},
		Start: func(t *saga.Turn[args, struct{}]) (saga.Next, error) {
			return t.Ask("paid", confirm)
		},
		Steps: saga.Steps[args, struct{}]{"paid": func(t *saga.Turn[args, struct{}]) (saga.Next, error) {
			return t.Textf("paid %s to %d", t.Args.Amount, t.Args.Account)
		}},
	}}})
	number := func(account, amount string) *request {
		return callTool("pay", object{"account": json.Number(account), "amount": json.Number(amount)}).with(allCapabilities)
	}
	yes := object{"confirm": object{"action": "accept", "content": object{}}}
	state := r.state(number("9007199254740992", "12345678901234567.81"))
	for _, other := range [][2]string{{"9007199254740993", "12345678901234567.81"}, {"9007199254740992", "12345678901234567.89"}} {
		got := r.send(number(other[0], other[1]).answering(state, yes))
		assert.Contains(t, got.raw, stale)
	}
	got := r.send(number("9007199254740992", "12345678901234567.81").answering(state, yes))
	assert.Equal(t, "paid 12345678901234567.81 to 9007199254740992", got.result(t).text())
}

// A prompt or a resource has no result that says that it was cancelled: who sends it again as at first, with the
// same key, gets an error.
func TestPromptsAreCancelled(t *testing.T) {
	prompt := legacyPrompt
	prompt.SingleUse = saga.SingleUseRequired
	notes := legacyNotes
	notes.SingleUse = saga.SingleUseRequired
	r := newRig(t, server.Options{Keys: newKeys(t), Ledger: inMemory(t), Tools: []saga.Definition{prompt, notes}})
	for method, params := range map[string]object{
		"prompts/get":    {"name": "greeting", "arguments": object{"name": "Ann"}},
		"resources/read": {"uri": "notes://ask"},
	} {
		t.Run(method, func(t *testing.T) {
			send := func() response {
				q := modernRequest(method, params).with(allCapabilities)
				q.meta["io.github.mcpsaga/idempotencyKey"] = "kkkkkkkkkkkkkkkk" + method[:4]
				return r.send(q)
			}
			var asked struct{ RequestState string }
			require.NoError(t, json.Unmarshal(send().Result, &asked))
			r.send(modernRequest("tools/cancelSaga", object{"sagaToken": asked.RequestState}).with(allCapabilities))
			again := send()
			require.NotNil(t, again.Error, string(again.Result))
			assert.Contains(t, again.Error.Message, "Cancelled")
		})
	}
}
