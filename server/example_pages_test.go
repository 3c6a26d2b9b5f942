package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Users whose clients cannot ask them answer on pages, here beside the server's own handler.
func ExampleServer_Pages() {
	keys, err := codec.NewKeyset()
	if err != nil {
		fmt.Println(err)
		return
	}
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()
	tools := []saga.Definition{consents()}
	s, err := server.New(server.Options{
		Tools: tools, Keys: keys, Ledger: store,
		Questions: server.Questions{PageURL: "https://tools.example.com/ask"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	mux := http.NewServeMux()
	mux.Handle("/ask/", http.StripPrefix("/ask", s.Pages()))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://tools.example.com/ask/nothing", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output:
	// 404 text/html; charset=utf-8
}
