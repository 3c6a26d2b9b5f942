package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type sureForm struct {
	Sure bool `json:"sure"`
}

// holds is an effect that notes in held what is held.
func holds(name string, held map[saga.Key]bool) *saga.Effect[string, bool] {
	return &saga.Effect[string, bool]{
		Name: name,
		Do: func(_ context.Context, k saga.Key, _ string) (bool, error) {
			held[k] = true
			return true, nil
		},
		Undo: func(_ context.Context, p saga.Performed[string, bool]) error {
			delete(held, p.Key)
			return nil
		},
	}
}

// roomTool holds a room, asks, and takes it.
func roomTool(revision uint32, held map[saga.Key]bool) saga.Flow[struct{}, string] {
	sure := &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
	room := holds("room", held)
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "room", Revision: revision, Asks: []steps.Question{sure}, Effects: []saga.Declared{room}}, Oldest: revision,
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Do(r, room, "7"); err != nil {
				return "", err
			}
			form, err := saga.Ask(r, sure)
			if err != nil {
				return "", err
			}
			if !form.Sure {
				return "", saga.Failf("not sure")
			}
			return "yours", nil
		},
	}
}

const callRoom = `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"room"}}`

func roomMessage(method, token, steps string) string {
	return `{"jsonrpc":"2.0","id":2,"method":"tools/` + method + `","params":{"sagaToken":"` + token + `"` + steps + `}}`
}

func undone(t *testing.T, body string) []string {
	t.Helper()
	var r struct {
		Result struct {
			Meta map[string]struct {
				Undone []string `json:"undone"`
			} `json:"_meta"`
		} `json:"result"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &r), body)
	require.Contains(t, r.Result.Meta, "io.github.mcpsaga/undo", body)
	return r.Result.Meta["io.github.mcpsaga/undo"].Undone
}

const sure = `,"completedSteps":[{"stepId":"sure","result":{"action":"accept","content":{"sure":true}}}]`

func TestCancelSaga(t *testing.T) {
	held := map[saga.Key]bool{}
	now := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	options := server.Options{Keys: newKeys(t), Now: now.Now, Tools: []saga.Definition{roomTool(1, held)}}
	r := newRig(t, options)
	start := func() string {
		token := parse(t, r.post(callRoom)).Result.SagaToken
		require.Len(t, held, 1)
		return token
	}
	t.Run("undoes and says so", func(t *testing.T) {
		body := r.post(roomMessage("cancelSaga", start(), ""))
		assert.Equal(t, []string{"room"}, undone(t, body))
		assert.Contains(t, body, "Cancelled.")
		assert.Empty(t, held)
	})
	t.Run("declining does the same", func(t *testing.T) {
		body := r.post(roomMessage("resumeSaga", start(), `,"completedSteps":[{"stepId":"sure","result":{"action":"decline"}}]`))
		assert.Equal(t, []string{"room"}, undone(t, body))
		assert.True(t, parse(t, body).Result.IsError)
		assert.Empty(t, held)
	})
	t.Run("is too late with the last answers", func(t *testing.T) {
		body := r.post(roomMessage("cancelSaga", start(), sure))
		assert.Contains(t, body, "yours")
		assert.Len(t, held, 1)
		clear(held)
	})
	t.Run("needs a token of this server", func(t *testing.T) {
		body := r.post(roomMessage("cancelSaga", "nonsense", ""))
		assert.Equal(t, -32602, parse(t, body).Error.Code)
		body = r.post(`{"jsonrpc":"2.0","id":2,"method":"tools/cancelSaga","params":{}}`)
		assert.Contains(t, parse(t, body).Error.Message, "sagaToken is missing")
	})
	t.Run("an expired saga is undone when its client comes back", func(t *testing.T) {
		for _, method := range []string{"resumeSaga", "cancelSaga"} {
			token := start()
			begun := now.Now()
			now.set(begun.Add(time.Hour))
			body := r.post(roomMessage(method, token, sure))
			now.set(begun)
			assert.Equal(t, []string{"room"}, undone(t, body))
			if method == "resumeSaga" {
				assert.Contains(t, body, "too late")
				assert.True(t, parse(t, body).Result.IsError)
			} else { // it is what its client wants
				assert.Contains(t, body, "Cancelled.")
				assert.Contains(t, body, engine.LostTurn, "its answers were not used")
				assert.False(t, parse(t, body).Result.IsError)
			}
			assert.Empty(t, held)
			assert.Contains(t, r.log.take(), `"reason":"expired"`)
		}
	})
	t.Run("a retired revision is undone", func(t *testing.T) {
		token := start()
		next := options
		next.Tools = []saga.Definition{roomTool(2, held)}
		body := newRig(t, next).post(roomMessage("resumeSaga", token, sure))
		assert.Equal(t, []string{"room"}, undone(t, body))
		assert.Contains(t, body, "no longer served")
		assert.Empty(t, held)
	})
	t.Run("a served older revision ends its sagas", func(t *testing.T) {
		token := start()
		next := options
		next.Tools = []saga.Definition{roomTool(1, held), roomTool(3, held)}
		both := newRig(t, next)
		assert.Contains(t, both.post(roomMessage("resumeSaga", token, sure)), "yours")
		assert.Contains(t, both.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), `"revision":3`)
		clear(held)
	})
	t.Run("a newer revision is for another replica", func(t *testing.T) {
		token := start()
		older := options
		older.Tools = []saga.Definition{roomTool(0, held)}
		old := newRig(t, older)
		status, body := old.do(http.MethodPost, "/mcp", roomMessage("resumeSaga", token, sure), nil)
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.JSONEq(t, `{"jsonrpc":"2.0","id":2,"error":{"code":-31503,"message":"this server is older than the saga: send the same request again","data":{"retryable":true}}}`, body)
		assert.Len(t, held, 1, "nothing is lost")
		assert.True(t, strings.Contains(r.post(roomMessage("resumeSaga", token, sure)), "yours"))
	})
}

// A token is not used up: the saga forks, and a branch that ends badly undoes what the
// token knows of, although another has ended well. That is why the system behind must
// refuse to undo what is final.
func TestTokensCanBeUsedAgain(t *testing.T) {
	held := map[saga.Key]bool{}
	r := newRig(t, server.Options{Tools: []saga.Definition{roomTool(1, held)}})
	token := parse(t, r.post(callRoom)).Result.SagaToken
	for range 3 {
		assert.Contains(t, r.post(roomMessage("resumeSaga", token, sure)), "yours")
		assert.Len(t, held, 1, "nothing is done twice")
	}
	body := r.post(roomMessage("resumeSaga", token, `,"completedSteps":[{"stepId":"sure","result":{"action":"decline"}}]`))
	assert.Equal(t, []string{"room"}, undone(t, body))
	assert.Empty(t, held)
	assert.Contains(t, r.post(roomMessage("resumeSaga", token, sure)), "yours", "the other branch")
	body = r.post(roomMessage("cancelSaga", token, ""))
	assert.Equal(t, []string{"room"}, undone(t, body))
	assert.Contains(t, body, "what it did since then is not undone")
}

// An old token must not undo for ever: what the saga did may be what somebody else
// relies on by then.
func TestUndoGrace(t *testing.T) {
	const day = 24 * time.Hour
	const ttl, skew = 10 * time.Minute, time.Minute
	for _, test := range []struct {
		name          string
		grace, maxAge time.Duration
		after         time.Duration
		reason        string // of the refusal, or empty if it is undone
	}{
		{name: "default, at its end", after: ttl + skew + 30*day - time.Second},
		{name: "default, after it", after: ttl + skew + 30*day, reason: "expired"},
		{name: "an hour, at its end", grace: time.Hour, after: ttl + skew + time.Hour - time.Second},
		{name: "an hour, after it", grace: time.Hour, after: ttl + skew + time.Hour, reason: "expired"},
		{name: "years later", after: 3 * 365 * day, reason: "expired"},
		{name: "none", grace: -1, after: ttl + skew, reason: "expired"},
		{name: "from the deadline on, at its end", grace: time.Hour, maxAge: time.Minute, after: time.Minute + skew + time.Hour - time.Second},
		{name: "from the deadline on, after it", grace: time.Hour, maxAge: time.Minute, after: time.Minute + skew + time.Hour, reason: "deadline"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, method := range []string{"resumeSaga", "cancelSaga"} {
				held := map[saga.Key]bool{}
				begun := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
				now := &clock{now: begun}
				tool := roomTool(1, held)
				tool.MaxAge = test.maxAge
				r := newRig(t, server.Options{Now: now.Now, UndoGrace: test.grace, Tools: []saga.Definition{tool}})
				token := parse(t, r.post(callRoom)).Result.SagaToken
				require.Len(t, held, 1)
				now.set(begun.Add(test.after))
				body := r.post(roomMessage(method, token, sure))
				log := r.log.take()
				if test.reason == "" {
					assert.Equal(t, []string{"room"}, undone(t, body))
					assert.Empty(t, held)
					continue
				}
				assert.JSONEq(t, strings.Replace(refusal, `"client-req-2"`, "2", 1), body)
				assert.Len(t, held, 1)
				assert.Contains(t, log, `"reason":"`+test.reason+`"`)
				assert.Contains(t, log, "too long ago even to undo")
			}
		})
	}
}

func TestUndoIsTriedAgain(t *testing.T) {
	held := map[saga.Key]bool{}
	stuck := true
	tool := roomTool(1, held)
	room := tool.Effects[0].(*saga.Effect[string, bool])
	undo := room.Undo
	room.Tries = 1
	room.Undo = func(ctx context.Context, p saga.Performed[string, bool]) error {
		if stuck {
			return errors.New("out of order")
		}
		return undo(ctx, p)
	}
	r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool}})
	token := parse(t, r.post(callRoom)).Result.SagaToken
	body := r.post(roomMessage("resumeSaga", token, `,"completedSteps":[{"stepId":"sure","result":{"action":"decline"}}]`))
	again := jsontest.Get(body, `result._meta.io\.github\.mcpsaga/undo.sagaToken`).String()
	require.NotEmpty(t, again, body)
	assert.NotContains(t, body, "out of order", "the cause is for the log")
	assert.Contains(t, r.log.take(), "out of order")
	assert.Equal(t, -32602, parse(t, r.post(roomMessage("resumeSaga", again, `,"completedSteps":[]`))).Error.Code)
	stuck = false
	body = r.post(roomMessage("cancelSaga", again, ""))
	assert.Equal(t, []string{"room"}, undone(t, body))
	assert.NotContains(t, body, "sagaToken")
	assert.Empty(t, held)
}

// Where a saga waits for no step, an empty list of answers says that the next turn was asked for.
func TestCancelWithNoAnswersToGive(t *testing.T) {
	for steps, want := range map[string][]string{"": {}, `,"completedSteps":null`: {}, `,"completedSteps":[]`: {"room"}} {
		held := map[saga.Key]bool{}
		tool := roomTool(1, held)
		run := tool.Run
		tool.Yields = true
		tool.Run = func(r *saga.Run, in struct{}) (string, error) {
			if err := r.Yield(content.Text{Text: "a part"}); err != nil {
				return "", err
			}
			return run(r, in)
		}
		r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool}})
		token := parse(t, r.post(callRoom)).Result.SagaToken
		asked := parse(t, r.post(roomMessage("resumeSaga", token, `,"completedSteps":[]`))).Result.SagaToken // which is lost
		require.Len(t, held, 1)
		assert.Equal(t, want, undone(t, r.post(roomMessage("cancelSaga", token, steps))), steps)
		assert.Len(t, held, 1-len(want), steps)
		// Where it waits for a step, there is nothing that it says.
		assert.NotContains(t, r.post(roomMessage("cancelSaga", asked, `,"completedSteps":[]`)), "after these answers")
	}
}

// As long as it is not known whether what is final was done, or it was and the saga is not at its end, the same
// request is to be sent again, whatever the tool makes of it.
func TestUnsettledSagaIsToBeTriedAgain(t *testing.T) {
	plain := func(err error) error { return err }
	for name, c := range map[string]struct {
		undo func(context.Context, saga.Performed[string, bool]) error
		says func(error) error
	}{
		"nothing tells":                      {nil, plain},
		"it was done":                        {func(context.Context, saga.Performed[string, bool]) error { return saga.Final(errors.New("paid")) }, plain},
		"it was done, and the tool explains": {func(context.Context, saga.Performed[string, bool]) error { return saga.Final(errors.New("paid")) }, func(err error) error { return saga.Fail("The bank is away.", err) }},
	} {
		t.Run(name, func(t *testing.T) {
			broken := true
			pay := &saga.Effect[string, bool]{Name: "pay", Irreversible: true, Tries: 1, Undo: c.undo, Do: func(context.Context, saga.Key, string) (bool, error) {
				if broken {
					return false, errors.New("secret detail")
				}
				return true, nil
			}}
			tool := roomTool(1, map[saga.Key]bool{})
			run := tool.Run
			tool.Effects = append(tool.Effects, pay)
			tool.Run = func(r *saga.Run, in struct{}) (string, error) {
				out, err := run(r, in)
				if err == nil {
					if _, err = saga.Do(r, pay, "money"); err != nil {
						err = c.says(err)
					}
				}
				return out, err
			}
			r := newRig(t, server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool}})
			token := parse(t, r.post(callRoom)).Result.SagaToken
			status, body := r.do(http.MethodPost, "/mcp", roomMessage("resumeSaga", token, sure), nil)
			assert.Equal(t, http.StatusServiceUnavailable, status)
			assert.Contains(t, body, "send the same request again")
			assert.NotContains(t, body, "secret")
			logged := r.log.take()
			assert.Contains(t, logged, "secret detail")
			assert.NotContains(t, logged, `"cause":null`, "a cause that the error says itself")
			broken = false
			assert.Contains(t, r.post(roomMessage("resumeSaga", token, sure)), "yours")
		})
	}
}

// What the first turn did before it broke off must be undone: the client has no
// token with which it could go on, or cancel.
func TestFirstTurnThatBreaksOffIsUndone(t *testing.T) {
	for _, how := range []string{"panic", "unsupported", "too large"} {
		held := map[saga.Key]bool{}
		tool := roomTool(1, held)
		sample := &steps.Sample{ID: "sample", Request: steps.SampleRequest{MaxTokens: 10}}
		tool.Asks = append(tool.Asks, sample)
		room := tool.Effects[0].(*saga.Effect[string, bool])
		sure := tool.Asks[0].(*steps.Form[sureForm])
		tool.Run = func(r *saga.Run, _ struct{}) (string, error) {
			input := "7"
			if how == "too large" {
				input = strings.Repeat("7", 300<<10)
			}
			if _, err := saga.Do(r, room, input); err != nil {
				return "", err
			}
			assert.Len(t, held, 1)
			switch how {
			case "panic":
				panic("oh")
			case "unsupported":
				_, err := saga.Ask(r, sample.With(steps.Promptf("hm")))
				return "", err
			}
			_, err := saga.Ask(r, sure)
			return "", err
		}
		r := newRig(t, server.Options{Tools: []saga.Definition{tool}})
		onlyForms := object{"elicitation": object{}}
		t.Run(how+" stateless", func(t *testing.T) {
			got := r.send(callTool("room", nil).with(onlyForms))
			assert.NotZero(t, got.code(), got.raw)
			assert.Empty(t, held)
		})
		clear(held)
		t.Run(how+" handshake", func(t *testing.T) {
			c := r.connect("2025-11-25", `{"elicitation":{}}`)
			c.ask(toolCall(1, "room", "{}"))
			assert.Empty(t, held)
		})
		clear(held)
		if how == "unsupported" {
			continue // the saga proposal has no capabilities
		}
		t.Run(how+" saga", func(t *testing.T) {
			assert.Contains(t, r.post(callRoom), "-32603")
			assert.Empty(t, held)
		})
	}
}

// A resource has an end of its own kind, which is no tool's result.
func TestCancelOfAResourceThatEnds(t *testing.T) {
	r := newRig(t, server.Options{Tools: statelessTools()})
	q := modernRequest("resources/read", object{"uri": "test://note/1"}).with(allCapabilities)
	state := r.state(q)
	body := r.post(roomMessage("cancelSaga", state, `,"arguments":{"id":"1"},"completedSteps":[{"stepId":"user_name","result":{"action":"accept","content":{"name":"Ada"}}}]`))
	assert.NotContains(t, body, "suspended")
	assert.Contains(t, body, `"content":[`)
}

// Nor has its failure: a resource whose last turn fails is cancelled, as a tool is.
func TestCancelOfAResourceThatFails(t *testing.T) {
	r := newRig(t, server.Options{Tools: statelessTools()})
	q := modernRequest("resources/read", object{"uri": "test://note/1"}).with(allCapabilities)
	for range 2 {
		body := r.post(roomMessage("cancelSaga", r.state(q), `,"arguments":{"id":"1"},"completedSteps":[{"stepId":"user_name","result":{"action":"decline"}}]`))
		assert.Empty(t, undone(t, body))
		assert.Equal(t, "Cancelled.", parse(t, body).Result.Content[0].Text)
		assert.False(t, parse(t, body).Result.IsError)
		assert.Contains(t, r.log.take(), "declined", "why is in the log")
	}
}

func TestCancelSagaOfAnother(t *testing.T) {
	held := map[saga.Key]bool{}
	r := newRig(t, server.Options{Tools: []saga.Definition{roomTool(1, held)}, Authenticate: who})
	by := func(name string) func(*http.Request) { return func(r *http.Request) { r.Header.Set("Who", name) } }
	_, body := r.do(http.MethodPost, "/mcp", callRoom, by("ann"))
	token := parse(t, body).Result.SagaToken
	require.Len(t, held, 1)
	_, body = r.do(http.MethodPost, "/mcp", roomMessage("cancelSaga", token, ""), by("bob"))
	assert.Equal(t, -32602, parse(t, body).Error.Code)
	assert.Len(t, held, 1)
	_, body = r.do(http.MethodPost, "/mcp", roomMessage("cancelSaga", token, ""), by("ann"))
	assert.Equal(t, []string{"room"}, undone(t, body))
}
