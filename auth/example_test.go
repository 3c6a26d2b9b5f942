package auth_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/mcpsaga/mcpsaga/auth"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A server for users of an authorization server, and for one machine that has a key.
func Example() {
	const url = "https://tools.example.com/mcp"
	users, err := auth.NewJWT(auth.JWT{
		Issuer:  "https://login.example.com", // whose metadata has the rest
		Mapping: auth.Mapping{Audiences: []string{url}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	key, hash := auth.NewAPIKey() // once; the machine has the key, the configuration the hash
	machines, err := auth.NewAPIKeys("X-Api-Key", auth.APIKey{Hash: hash, Caller: saga.Caller{Subject: "nightly", Scopes: []string{"tools:read"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	guard, err := auth.New(auth.Options{
		Resource: url, Methods: []auth.Method{machines, users}, AuthorizationServers: []string{"https://login.example.com"},
		Scopes: []string{"tools:read"},
		Tools:  map[string][]string{"order": {"tools:write"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	order := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "order"},
		Run:  func(r *saga.Run, _ struct{}) (string, error) { return "ordered for " + r.Caller().Subject, nil },
	}
	keys, err := codec.NewKeyset()
	if err != nil {
		fmt.Println(err)
		return
	}
	options := server.Options{Tools: []saga.Definition{order}, Keys: keys, AllowedHosts: []string{"tools.example.com"}}
	if err := guard.Secure(&options); err != nil {
		fmt.Println(err)
		return
	}
	s, err := server.New(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := s.Handler() // with the metadata that clients look for

	for _, header := range []string{"", key} {
		r := httptest.NewRequest(http.MethodPost, url, nil)
		if header != "" {
			r.Header.Set("X-Api-Key", header)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"))
	}
	// Output:
	// 401 Bearer resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp", scope="tools:read"
	// 415
}

// Users of a tenant of Entra ID. Its audience is the API's id, and "oid" is the same for all of a tenant's applications.
func ExampleNewJWT() {
	users, err := auth.NewJWT(auth.JWT{
		Issuer:  "https://login.microsoftonline.com/TENANT/v2.0",
		KeysURL: "https://login.microsoftonline.com/TENANT/discovery/v2.0/keys",
		Mapping: auth.Mapping{Audiences: []string{"API-CLIENT-ID", "api://API-CLIENT-ID"}, Subject: "oid"},
	})
	fmt.Println(users != nil, err)
	// Output: true <nil>
}
