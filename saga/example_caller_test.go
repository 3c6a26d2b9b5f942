package saga_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A tool knows who calls. What a scope decides is looked at where it matters, as the next turn may be that of a request with
// other scopes.
func ExampleRun_Caller() {
	type none struct{}
	whoami := saga.Flow[none, string]{
		Info: saga.Info{Name: "whoami"},
		Run: func(r *saga.Run, _ none) (string, error) {
			who := r.Caller()
			if who.HasScope("orders") {
				return who.Subject + " may order.", nil
			}
			return "Hello, " + who.Subject + "!", nil
		},
	}
	scopes := map[string][]string{"ann": {"orders"}, "bob": nil} // in production: verify a credential
	handler := serving(server.Options{
		Tools: []saga.Definition{whoami},
		Authenticate: func(r *http.Request) (saga.Caller, error) {
			name, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if known, ok := scopes[name]; ok {
				return saga.Caller{Issuer: "https://login.example.com", Subject: name, Scopes: known}, nil
			}
			return saga.Caller{}, &server.AuthError{Status: http.StatusUnauthorized, Challenge: `Bearer error="invalid_token"`, Err: errors.New("no such token")}
		},
	})
	for _, name := range []string{"ann", "bob", "eve"} {
		w := posted(handler, name, `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"whoami"}}`)
		fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"), w.Body)
	}
	// Output:
	// 200  {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"ann may order."}]}}
	// 200  {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"Hello, bob!"}]}}
	// 401 Bearer error="invalid_token" {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"authentication is required"}}
}

func serving(o server.Options) http.Handler {
	var err error
	if o.Keys, err = codec.NewKeyset(); err != nil {
		panic(err)
	}
	o.Logger = slog.New(slog.DiscardHandler)
	s, err := server.New(o)
	if err != nil {
		panic(err)
	}
	return s.Handler()
}

func posted(h http.Handler, user, message string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "http://localhost/mcp", strings.NewReader(message))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+user)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
