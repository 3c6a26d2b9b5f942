package gosdk_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/gosdk"
)

// A server stops in this order: first the sagas, which undo what cannot go on, then
// the SDK's sessions, then HTTP.
func ExampleMounted_Shutdown() {
	keys, err := codec.NewKeyset()
	if err != nil {
		log.Fatal(err)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "canteen", Version: "1.0.0"}, nil)
	sagas, err := gosdk.Mount(s, gosdk.Options{Keys: keys}, lunch)
	if err != nil {
		log.Fatal(err)
	}
	web := &http.Server{Handler: gosdk.NewHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)}

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// Older clients are waited for no more, and what their calls did is undone.
	err = sagas.Shutdown(ctx)
	for session := range s.Sessions() {
		_ = session.Close()
	}
	err = errors.Join(err, web.Shutdown(ctx))
	fmt.Println(err)
	// Output: <nil>
}
