package server_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type seat struct {
	Row string `json:"row"`
	PIN saga.Secret
}

// withState is the tool with another type for its state.
func withState[S any](m *saga.Machine[struct{}, seat]) saga.Definition {
	never := func(*saga.Turn[struct{}, S]) (saga.Next, error) { return nil, assert.AnError }
	return saga.Machine[struct{}, S]{
		Info:  saga.Info{Name: m.Name, Asks: m.Asks, Effects: m.Effects},
		Start: never, Steps: saga.Steps[struct{}, S]{"sure": never, "other": never},
	}
}

// seatTool is a machine that holds a seat, asks, and takes it.
func seatTool(held map[saga.Key]bool) saga.Machine[struct{}, seat] {
	sure := &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
	hold := holds("seat", held)
	type turn = saga.Turn[struct{}, seat]
	return saga.Machine[struct{}, seat]{
		Info: saga.Info{Name: "seat", Asks: []steps.Question{sure}, Effects: []saga.Declared{hold}},
		Start: func(t *turn) (saga.Next, error) {
			if _, err := saga.Do(t, hold, "12A"); err != nil {
				return nil, err
			}
			t.State = seat{"12", saga.NewSecret("1234")}
			return t.Ask("sure", sure)
		},
		Steps: saga.Steps[struct{}, seat]{"sure": func(t *turn) (saga.Next, error) {
			if _, err := sure.Answer(t); err != nil {
				return nil, err
			}
			return t.Textf("yours: %s", t.State.Row)
		}},
	}
}

// A saga whose tool has lost what it waits in cannot go on, like one of a retired
// revision: what it did is undone, whichever way its token comes back.
func TestSagaOfAChangedToolIsUndone(t *testing.T) {
	changes := map[string]func(*saga.Machine[struct{}, seat]) saga.Definition{
		"step function removed": func(m *saga.Machine[struct{}, seat]) saga.Definition {
			m.Steps = saga.Steps[struct{}, seat]{"other": m.Steps["sure"]}
			return *m
		},
		"question removed": func(m *saga.Machine[struct{}, seat]) saga.Definition {
			m.Asks = []steps.Question{&steps.Form[sureForm]{ID: "other", Message: "Sure?"}}
			return *m
		},
		"state of another type": withState[struct {
			Row int `json:"row"`
		}],
		"field of the state renamed": withState[struct {
			Line string `json:"line"`
			PIN  saga.Secret
		}],
		"Secret of the state renamed": withState[struct {
			Row  string      `json:"row"`
			Code saga.Secret `json:"PIN"`
		}],
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"seat"}}`
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			held := map[saga.Key]bool{}
			keys := newKeys(t)
			before := newRig(t, server.Options{Keys: keys, Tools: []saga.Definition{seatTool(held)}})
			tool := seatTool(held)
			after := newRig(t, server.Options{Keys: keys, Tools: []saga.Definition{change(&tool)}})
			suspend := func() string {
				clear(held)
				token := parse(t, before.post(call)).Result.SagaToken
				require.Len(t, held, 1)
				return token
			}

			body := after.post(roomMessage("resumeSaga", suspend(), sure))
			assert.Equal(t, []string{"seat"}, undone(t, body))
			assert.True(t, parse(t, body).Result.IsError)
			assert.Contains(t, body, "the tool has changed")
			assert.Empty(t, held)
			log := after.log.take()
			assert.Contains(t, log, `"msg":"saga abandoned"`)
			assert.Contains(t, log, `"reason":"state"`)

			for _, answers := range []string{"", sure} {
				body = after.post(roomMessage("cancelSaga", suspend(), answers))
				assert.Equal(t, []string{"seat"}, undone(t, body))
				assert.False(t, parse(t, body).Result.IsError)
				assert.Equal(t, answers != "", strings.Contains(body, engine.LostTurn), body)
				assert.Empty(t, held)
			}

			clear(held)
			q := callTool("seat", nil).with(allCapabilities)
			q = q.answering(before.state(q), object{"sure": object{"action": "accept", "content": object{"sure": true}}})
			got := after.send(q)
			assert.Equal(t, []string{"seat"}, undone(t, got.raw))
			assert.Empty(t, held)
		})
	}
}

// What a token cannot undo is refused without a word of the reason, as ever.
func TestSagaOfAChangedToolWithoutEffectsIsRefused(t *testing.T) {
	held := map[saga.Key]bool{}
	keys := newKeys(t)
	quiet := func(name string) saga.Definition {
		m := seatTool(held)
		sure := m.Asks[0].(*steps.Form[sureForm])
		m.Start = func(t *saga.Turn[struct{}, seat]) (saga.Next, error) { return t.Ask(name, sure) }
		m.Steps = saga.Steps[struct{}, seat]{name: m.Steps["sure"]}
		return m
	}
	before := newRig(t, server.Options{Keys: keys, Tools: []saga.Definition{quiet("sure")}})
	after := newRig(t, server.Options{Keys: keys, Tools: []saga.Definition{quiet("other")}})
	m := seatTool(held)
	renamed := newRig(t, server.Options{Keys: keys, Tools: []saga.Definition{withState[struct{ Line string }](&m)}})
	token := parse(t, before.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"seat"}}`)).Result.SagaToken
	for _, changed := range []*rig{after, renamed} {
		assert.JSONEq(t, strings.Replace(refusal, `"client-req-2"`, "2", 1), changed.post(roomMessage("resumeSaga", token, sure)))
		assert.Contains(t, changed.log.take(), `"reason":"state"`)
	}
}

// An undo that hangs does not hold up the answer for ever, and can be tried again.
func TestHangingUndoIsOutstanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := map[saga.Key]bool{}
		tool := roomTool(1, held)
		room := tool.Effects[0].(*saga.Effect[string, bool])
		undo, hang := room.Undo, true
		room.Undo = func(ctx context.Context, p saga.Performed[string, bool]) error {
			if hang {
				<-ctx.Done()
				return ctx.Err()
			}
			return undo(ctx, p)
		}
		room.Timeout = time.Hour
		b := newBubble(t, server.Options{TurnTimeout: time.Minute, TokenTTL: time.Hour, Tools: []saga.Definition{tool}})
		ends := map[string]string{
			"resumeSaga": `,"completedSteps":[{"stepId":"sure","result":{"action":"decline"}}]`,
			"cancelSaga": "",
		}
		for method, rest := range ends {
			hang = true
			token := parse(t, b.do("POST", callRoom).Body.String()).Result.SagaToken
			require.Len(t, held, 1)
			begun := time.Now()
			body := b.do("POST", roomMessage(method, token, rest)).Body.String()
			assert.LessOrEqual(t, time.Since(begun), time.Minute+engine.UndoTime)
			assert.Empty(t, undone(t, body))
			again := jsontest.Get(body, `result._meta.io\.github\.mcpsaga/undo.sagaToken`).String()
			require.NotEmpty(t, again, body)
			hang = false
			assert.Equal(t, []string{"room"}, undone(t, b.do("POST", roomMessage("cancelSaga", again, "")).Body.String()))
			assert.Empty(t, held)
		}
	})
}
