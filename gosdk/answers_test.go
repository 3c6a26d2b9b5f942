package gosdk_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type letter struct {
	To string `json:"to" maxLength:"5"`
	// Copy is shown with a value that the user may take out.
	Copy string `json:"copy,omitempty" default:"boss"`
}

func mail() saga.Definition {
	ask := &steps.Form[letter]{ID: "letter", Message: "To whom?"}
	return saga.Flow[none, string]{Info: saga.Info{Name: "mail", Asks: []steps.Question{ask}}, Run: func(r *saga.Run, _ none) (string, error) {
		l, err := saga.Ask(r, ask)
		raw, _ := json.Marshal(l)
		return string(raw), err
	}}
}

// Older clients: the SDK checks what a client answers, and puts in what is missing.
// Both are for the saga to do.
func TestAnswersAreNotTheSDKsToJudge(t *testing.T) {
	h := mount(t, gosdk.Options{}, mail())
	w := h.wire()
	w.greet(legacy, forms)
	w.begin("tools/call", object{"name": "mail"})
	w.answer(w.read(), `{"action":"accept","content":{"to":"everybody"}}`)
	again := w.read()
	require.Equal(t, "elicitation/create", again.Get("method").String(), "the user is asked again: %s", again.Raw)
	assert.Contains(t, again.Get("params.message").String(), "To whom?")
	w.answer(again, `{"action":"accept","content":{"to":"you"}}`)
	assert.JSONEq(t, `{"to":"you"}`, w.read().Get("result.content.0.text").String(), "the user took the default out")
}

// A client of a revision that is yet to come, or a newer one than it should ask for
// in a handshake: it is answered with 2025-11-25, and served as such.
func TestHandshakeOfNewerClients(t *testing.T) {
	for _, version := range []string{modern, "2027-07-28", "9"} {
		h := mount(t, gosdk.Options{}, talk(2))
		w := h.wire()
		r := w.greet(version, forms)
		require.Equal(t, legacy, r.Get("result.protocolVersion").String())
		w.begin("tools/call", object{"name": "talk"})
		w.answer(w.read(), `{"action":"accept","content":{"word":"a"}}`)
		w.answer(w.read(), `{"action":"accept","content":{"word":"b"}}`)
		assert.Equal(t, "a b", w.read().Get("result.content.0.text").String())
	}
}

type amount struct {
	Amount int64 `json:"amount"`
}

func pay() saga.Definition {
	ask := &steps.Form[amount]{ID: "amount", Message: "How much?"}
	return saga.Flow[none, string]{Info: saga.Info{Name: "pay", Asks: []steps.Question{ask}}, Run: func(r *saga.Run, _ none) (string, error) {
		a, err := saga.Ask(r, ask)
		return fmt.Sprint(a.Amount), err
	}}
}

// The SDK reads numbers as floats: beyond 2^53 it is not known what the user wrote.
func TestNumbersThatTheSDKCannotReadAreRefused(t *testing.T) {
	h := mount(t, gosdk.Options{}, pay())
	const largest = "9007199254740991"
	for number, ok := range map[string]bool{
		largest: true, "-" + largest: true, "12": true,
		"9007199254740992": false, "9007199254740993": false, "-9007199254740993": false, "9223372036854775807": false,
	} {
		answer := `{"action":"accept","content":{"amount":` + number + `}}`
		t.Run(modern+" "+number, func(t *testing.T) {
			w := h.wire()
			params := object{"name": "pay", "_meta": meta(forms)}
			params["requestState"] = w.ask("tools/call", params).Get("result.requestState").String()
			params["inputResponses"] = object{"amount": json.RawMessage(answer)}
			r := w.ask("tools/call", params)
			if ok {
				assert.Equal(t, number, r.Get("result.content.0.text").String(), r.Raw)
				return
			}
			assert.Equal(t, int64(-32602), r.Get("error.code").Int(), r.Raw)
			assert.Contains(t, r.Get("error.message").String(), `"amount" is beyond 2^53`)
			params["inputResponses"] = object{"amount": json.RawMessage(`{"action":"accept","content":{"amount":7}}`)}
			assert.Equal(t, "7", w.ask("tools/call", params).Get("result.content.0.text").String(), "nothing is lost")
		})
		t.Run(legacy+" "+number, func(t *testing.T) {
			w := h.wire()
			w.greet(legacy, forms)
			w.begin("tools/call", object{"name": "pay"})
			w.answer(w.read(), answer)
			r := w.read()
			assert.Equal(t, !ok, r.Get("result.isError").Bool(), r.Raw)
			assert.Equal(t, ok, r.Get("result.content.0.text").String() == number, r.Raw)
			if !ok {
				assert.Contains(t, h.log.String(), "ask for it as text", "the operator learns what to do")
			}
		})
	}
}

// sampled asks a model that may call a tool, and returns its answer.
func sampled() saga.Definition {
	ask := &steps.Sample{ID: "model", Request: steps.SampleRequest{
		MaxTokens: 9, Messages: []steps.SampleMessage{
			steps.UserText("Transfer."),
			{Role: content.Assistant, Content: content.Blocks{content.ToolUse{ID: "1", Name: "transfer", Input: json.RawMessage(`{"account":9007199254740993}`)}}},
			{Role: content.User, Content: content.Blocks{content.ToolResult{ToolUseID: "1", Content: content.Blocks{content.Text{Text: "done"}}}}},
		},
		Tools: []steps.SampleTool{{Name: "transfer", InputSchema: json.RawMessage(`{"type":"object","properties":{"z":{"maximum":9007199254740993},"a":{}}}`)}},
	}}
	return saga.Machine[none, none]{
		Info:  saga.Info{Name: "sampled", Asks: []steps.Question{ask}},
		Start: func(t *saga.Turn[none, none]) (saga.Next, error) { return t.Ask("asked", ask) },
		Steps: saga.Steps[none, none]{"asked": func(t *saga.Turn[none, none]) (saga.Next, error) {
			a, _ := t.StepAnswer("model")
			if a.Error != nil {
				return nil, saga.Failf("%d", a.Error.Code)
			}
			return t.Textf("%s", a.Result)
		}},
	}
}

// The same is so for what a model has a tool called with. What goes out is as it
// was written.
func TestNumbersOfModels(t *testing.T) {
	can := object{"sampling": object{"tools": object{}}}
	h := mount(t, gosdk.Options{}, sampled())
	asked := func(params jsontest.Value) {
		assert.Equal(t, `{"type":"object","properties":{"z":{"maximum":9007199254740993},"a":{}}}`, params.Get("tools.0.inputSchema").Raw)
		assert.Equal(t, `{"account":9007199254740993}`, params.Get("messages.1.content.input").Raw+params.Get("messages.1.content.0.input").Raw)
	}
	for number, ok := range map[string]bool{"42": true, "9007199254740993": false} {
		answer := `{"role":"assistant","model":"m","content":[{"type":"tool_use","id":"2","name":"transfer","input":{"to":[{"account":` + number + `}]}}]}`
		w := h.wire()
		params := object{"name": "sampled", "_meta": meta(can)}
		first := w.ask("tools/call", params)
		asked(first.Get("result.inputRequests.model.params"))
		params["requestState"] = first.Get("result.requestState").String()
		params["inputResponses"] = object{"model": json.RawMessage(answer)}
		assert.Equal(t, ok, w.ask("tools/call", params).Get("result").Exists())

		w = h.wire()
		w.greet(legacy, can)
		w.begin("tools/call", object{"name": "sampled"})
		question := w.read()
		asked(question.Get("params"))
		w.answer(question, answer)
		r := w.read()
		assert.Equal(t, !ok, r.Get("result.isError").Bool(), r.Raw)
	}
}

// Forms are shown in the order of their fields.
func TestFieldsKeepTheirOrder(t *testing.T) {
	type form struct {
		Zebra string `json:"zebra"`
		Apple string `json:"apple"`
		Mango string `json:"mango"`
	}
	ask := &steps.Form[form]{ID: "form", Message: "Fruit?"}
	h := mount(t, gosdk.Options{}, saga.Flow[form, string]{Info: saga.Info{Name: "fruit", Asks: []steps.Question{ask}}, Run: func(r *saga.Run, _ form) (string, error) {
		_, err := saga.Ask(r, ask)
		return "", err
	}})
	order := func(schema jsontest.Value) (names string) {
		for name := range schema.Get("properties").Members() {
			names += name + " "
		}
		return names
	}
	args := object{"zebra": "", "apple": "", "mango": ""}
	w := h.wire()
	r := w.ask("tools/call", object{"name": "fruit", "arguments": args, "_meta": meta(forms)})
	assert.Equal(t, "zebra apple mango ", order(r.Get("result.inputRequests.form.params.requestedSchema")), r.Raw)
	r = w.ask("tools/list", object{"_meta": meta(forms)})
	assert.Equal(t, "zebra apple mango ", order(r.Get("result.tools.0.inputSchema")), r.Raw)
	w = h.wire()
	w.greet(legacy, forms)
	w.begin("tools/call", object{"name": "fruit", "arguments": args})
	assert.Equal(t, "zebra apple mango ", order(w.read().Get("params.requestedSchema")))
}
