package saga_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A user signs in on a page of a provider. The tool learns who it was from the page to which the provider sends the
// browser back; the client learns nothing with which it could say so itself.
func Example_login() {
	type account struct {
		User string `json:"user" minLength:"1"`
	}
	signedIn := &steps.Event[account]{ID: "signed-in", Message: "Waiting for the sign-in.", Within: 10 * time.Minute}
	signIn := &steps.Link{ID: "sign-in", Message: "Please sign in to the calendar.", Done: signedIn}
	logins := map[string]string{} // handles by the provider's "state"; in production a table, with the caller of each
	begun := &saga.Effect[string, string]{
		Name: "begin-login",
		Do: func(_ context.Context, key saga.Key, handle string) (string, error) {
			logins[string(key)] = handle
			return "https://login.example.com/?state=" + string(key), nil
		},
		Undo: func(_ context.Context, p saga.Performed[string, string]) error {
			delete(logins, string(p.Key))
			return nil
		},
	}
	calendar := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "calendar", Asks: []steps.Question{signIn, signedIn}, Effects: []saga.Declared{begun}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			handle, err := saga.Handle(r, signedIn)
			if err != nil {
				return "", err
			}
			page, err := saga.Do(r, begun, handle)
			if err != nil {
				return "", err
			}
			if err := r.AskAll(signIn.With(steps.URL(page))); err != nil {
				return "", err
			}
			if err := signIn.Answer(r); err != nil {
				return "", err
			}
			who, err := saga.Ask(r, signedIn) // that the page was opened does not say that anybody signed in
			return "This is the calendar of " + who.User + ".", err
		},
	}
	s, closed := serveWithLedger(calendar)
	defer closed()
	back := func(w http.ResponseWriter, r *http.Request) {
		// In production: check that the browser is the caller's, and redeem the code. Keep the provider's token here.
		if err := s.Deliver(r.Context(), logins[r.FormValue("state")], account{User: "ada"}); err != nil {
			http.Error(w, "This sign-in is over. Please begin again.", http.StatusGone)
		}
	}
	asked := request(s, "tools/callSaga", object{"name": "calendar"})
	for state := range logins {
		w := httptest.NewRecorder()
		back(w, httptest.NewRequest(http.MethodGet, "/back?code=1&state="+state, nil))
		fmt.Println("browser:", w.Code)
	}
	request(s, "tools/resumeSaga", object{"sagaToken": asked.Result.SagaToken, "completedSteps": []object{accepted("sign-in", nil)}}).print()
	// Output:
	// browser: 200
	// caller: This is the calendar of ada.
}

// serveWithLedger returns a server with a ledger in memory, and what closes both.
func serveWithLedger(tool saga.Definition) (*server.Server, func()) {
	keys, err := codec.NewKeyset()
	if err != nil {
		panic(err)
	}
	store := ledger.NewMemory(ledger.MemoryOptions{})
	s := serveWith(server.Options{Tools: []saga.Definition{tool}, Keys: keys, Ledger: store})
	return s, func() { s.Close(); store.Close() }
}
