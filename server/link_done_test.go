package server_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// signingIn is a tool that sends the user to pages, waits until they have finished there, and asks something more. It gives
// the handle of each sign-in to handles.
func signingIn(handles chan<- string) saga.Flow[struct{}, string] {
	signedIn := &steps.Event[struct{}]{ID: "signed-in", Message: "Waiting for the sign-in.", Within: time.Hour}
	signIn := &steps.Link{ID: "sign-in", Message: "Please sign in.", URL: "https://login.example.com/", Done: signedIn}
	other := &steps.Link{ID: "other", Message: "Please read this.", URL: "https://example.com/terms"}
	tell := &saga.Effect[string, string]{
		Name: "tell",
		Do: func(_ context.Context, _ saga.Key, handle string) (string, error) {
			handles <- handle
			return "", nil
		},
	}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "calendar", Asks: []steps.Question{other, signIn, signedIn, askSure}, Effects: []saga.Declared{tell}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if err := r.AskAll(other); err != nil {
				return "", err
			}
			for n := range 2 {
				link, event := signIn.Nth(n+1), signedIn.Nth(n+1)
				handle, err := saga.Handle(r, event)
				if err != nil {
					return "", err
				}
				if _, err := saga.Do(r, tell, handle); err != nil {
					return "", err
				}
				if err := r.AskAll(link); err != nil {
					return "", err
				}
				if _, err := saga.Ask(r, event); err != nil {
					return "", err
				}
			}
			_, err := saga.Ask(r, askSure)
			return "the calendar", err
		},
	}
}

// A client hears that the user has finished on a page when the event of its link has come, and once; of other pages by the
// end of the call.
func TestLinksAreDoneWhenTheirEventHappens(t *testing.T) {
	handles := make(chan string, 9)
	a := newAnywhere(t, signingIn(handles))
	c := a.rigs[0].connect("2025-11-25", everything)
	id := c.create("calendar", "{}").TaskID
	s := c.stream(aboutTask(2, "result", id))
	accept := func() (page string) {
		q := s.wait("elicitation/create")
		var p struct{ ElicitationID string }
		require.NoError(t, json.Unmarshal(q.Params, &p))
		c.at(a.rigs[1]).reply(q.ID, `{"action":"accept"}`)
		return p.ElicitationID
	}
	complete := func(page string) {
		var p struct{ ElicitationID string }
		require.NoError(t, json.Unmarshal(s.wait("notifications/elicitation/complete").Params, &p))
		assert.Equal(t, page, p.ElicitationID)
	}
	other := accept()
	for range 2 {
		page := accept()
		handle := <-handles
		until(t, func() bool { return c.task(id).StatusMessage == "Waiting for the sign-in." })
		require.NoError(t, a.rigs[2].srv.Deliver(t.Context(), handle, nil))
		complete(page)
	}
	c.reply(s.wait("elicitation/create").ID, `{"action":"accept","content":{"sure":true}}`)
	complete(other)
	assert.Contains(t, s.wait("").data, "the calendar", "and nothing twice")
}

// A page says that the call waits for what the user does elsewhere, and goes on when that has happened.
func TestPagesWaitForEvents(t *testing.T) {
	handles := make(chan string, 9)
	r := newPagesRig(t, offering(signingIn(handles)))
	w := r.waitsFor(callTool("calendar", nil), "ann")
	r.answer(w.URL, r.page(w.URL).form(t, "accept"))
	for range 2 {
		handle := <-handles
		shows(t, r.answer(w.URL, r.page(w.URL).form(t, "accept")), "Waiting for the sign-in.")
		require.NoError(t, r.srv.Deliver(t.Context(), handle, nil))
	}
	shows(t, r.page(w.URL), "Sure?")
}

// A link is done with an event that the tool asks.
func TestLinksThatAreDoneWithOtherThings(t *testing.T) {
	event := &steps.Event[struct{}]{ID: "signed-in", Message: "Waiting.", Within: time.Hour}
	for want, done := range map[string]steps.Question{
		"its Done is no Event": askSure,
		`the link "sign-in" is Done with "signed-in", which is not declared; add it to the tool's Asks`: event,
		"Done is no Event": (*steps.Event[struct{}])(nil),
	} {
		tool := signingIn(nil)
		tool.Asks = []steps.Question{&steps.Link{ID: "sign-in", Message: "Please sign in.", URL: "https://login.example.com/", Done: done}}
		_, err := server.New(server.Options{Keys: newKeys(t), Ledger: inMemory(t), Tools: []saga.Definition{tool}})
		assert.ErrorContains(t, err, want)
	}
}
