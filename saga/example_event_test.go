package saga_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type donation struct {
	Cents int `json:"cents" minimum:"100"`
}

// receipt is what the provider calls back with.
type receipt struct {
	Cents int `json:"cents" minimum:"1"`
}

var (
	checkout = &steps.Link{ID: "checkout", Message: "Pay on this page."}
	paid     = &steps.Event[receipt]{ID: "paid", Message: "Waiting for the payment.", Within: 30 * time.Minute}
)

// invoice is what the provider is told: how much, and which address to call when that is paid.
type invoice struct {
	Cents    int    `json:"cents"`
	Callback string `json:"callback"`
}

// donate has the user pay on a page of a provider, and goes on when that calls back.
func donate(provider *saga.Effect[invoice, string]) saga.Flow[donation, string] {
	return saga.Flow[donation, string]{
		Info: saga.Info{Name: "donate", Asks: []steps.Question{checkout, paid}, Effects: []saga.Declared{provider}},
		Run: func(r *saga.Run, in donation) (string, error) {
			handle, err := saga.Handle(r, paid)
			if err != nil {
				return "", err
			}
			page, err := saga.Do(r, provider, invoice{in.Cents, "https://tools.example.com/events/" + handle})
			if err != nil {
				return "", err
			}
			if err := r.AskAll(checkout.With(steps.URL(page))); err != nil {
				return "", err
			}
			if err := checkout.Answer(r); err != nil {
				return "", err // the user does not want to pay: the invoice is withdrawn
			}
			got, err := saga.Ask(r, paid)
			if err != nil {
				return "", err // nobody has paid in time, or the provider says that nobody will
			}
			return fmt.Sprintf("Thank you for %d cents.", got.Cents), nil
		},
	}
}

// withEvents serves a server's clients at one address, and who delivers at another.
func withEvents(s *server.Server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.Handler())
	mux.Handle("/events/", http.StripPrefix("/events/", s.EventHandler()))
	return mux
}

// A provider calls back, as often as it likes, and whether or not the tool waits already.
func ExampleHandle() {
	var told invoice
	provider := &saga.Effect[invoice, string]{
		Name: "invoice",
		Do: func(_ context.Context, key saga.Key, in invoice) (string, error) {
			told = in // a provider would be given the key as well
			return "https://pay.example.com/" + string(key), nil
		},
		Undo: func(context.Context, saga.Performed[invoice, string]) error { return nil },
	}
	keys, err := codec.NewKeyset()
	if err != nil {
		panic(err)
	}
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()
	s := serveWith(server.Options{Tools: []saga.Definition{donate(provider)}, Keys: keys, Ledger: store})
	defer s.Close()
	web := withEvents(s)

	asked := request(s, "tools/callSaga", object{"name": "donate", "arguments": object{"cents": 500}})
	for _, body := range []string{`{"cents":500}`, `{"cents":500}`, `{"cents":1}`} {
		w := httptest.NewRecorder()
		web.ServeHTTP(w, httptest.NewRequest(http.MethodPost, told.Callback, strings.NewReader(body)))
		fmt.Println("provider:", w.Code)
	}
	request(s, "tools/resumeSaga", object{"sagaToken": asked.Result.SagaToken, "completedSteps": []object{{"stepId": "checkout", "result": object{"action": "accept"}}}}).print()
	// Output:
	// provider: 202
	// provider: 202
	// provider: 409
	// caller: Thank you for 500 cents.
}
