package saga_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A server is an http.Handler too: behind your own mux, with your own way to find
// out who calls. A token can be used only by the caller it was given to.
func Example_serving() {
	keys, err := codec.NewKeyset() // in production: codec.LoadKeyset(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	users := map[string]string{"Bearer a-token-of-ada": "ada"} // in production: verify a credential
	s, err := server.New(server.Options{
		Tools:    []saga.Definition{Lunch},
		Keys:     keys,
		Audience: "canteen-production",
		TokenTTL: 30 * time.Minute,
		Authenticate: func(r *http.Request) (saga.Caller, error) {
			user, ok := users[r.Header.Get("Authorization")]
			if !ok {
				return saga.Caller{}, errors.New("no such access token")
			}
			return saga.Caller{Issuer: "https://login.example.com", Subject: user}, nil
		},
		AllowedHosts: []string{"tools.example.com"},
		Logger:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.Handler())
	mux.Handle("/readyz", s.Handler())
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "The canteen.") })

	for _, authorization := range []string{"", "Bearer a-token-of-ada"} {
		r := httptest.NewRequest("POST", "http://tools.example.com/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		body, _ := io.ReadAll(w.Body)
		fmt.Println(w.Code, string(body))
	}
	// Output:
	// 401 {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"authentication is required"}}
	// 200 {"jsonrpc":"2.0","id":1,"result":{}}
}
