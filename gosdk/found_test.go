package gosdk_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
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
	return saga.Flow[none, string]{Name: "mail", Asks: []steps.Question{ask}, Run: func(r *saga.Run, _ none) (string, error) {
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
