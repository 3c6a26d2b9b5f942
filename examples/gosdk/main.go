// Command gosdk is a server on the official Go SDK with two ordinary tools of the
// SDK and one saga. Everything but the line with Mount is as the SDK has it.
//
//	go run ./examples/gosdk                    # prints its URL
//	go run ./cmd/saga call --server URL book_table
//	go run ./cmd/saga call --stdio 'go run ./examples/gosdk --stdio' book_table
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/gosdk"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gosdk:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("gosdk", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:0", "address to listen on")
	file := flags.String("keys", "", "keyset file that all replicas share; without one, tokens are good for as long as this process lives")
	stdio := flags.Bool("stdio", false, "serve standard input and output instead of HTTP")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	keys, err := keyset(*file)
	if err != nil {
		return err
	}
	s, err := newServer(keys)
	if err != nil {
		return err
	}
	if *stdio {
		return s.Run(ctx, &mcp.StdioTransport{})
	}
	return serve(ctx, s, *addr)
}

// newServer is the server that there was before, and a saga.
func newServer(keys *codec.Keyset) (*mcp.Server, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: "bistro", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "menu", Description: "What there is to eat today."}, menu)
	mcp.AddTool(s, &mcp.Tool{Name: "opening_hours", Description: "When the bistro is open on a day of the week."}, openingHours)

	_, err := gosdk.Mount(s, gosdk.Options{Keys: keys}, bookTable)
	return s, err
}

// serve serves clients of all revisions at one address.
func serve(ctx context.Context, s *mcp.Server, addr string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", gosdk.NewHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	h := &http.Server{Handler: http.NewCrossOriginProtection().Handler(mux), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = h.Close() })()
	fmt.Printf("http://%s/mcp\n", l.Addr())
	if err := h.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}

func keyset(file string) (*codec.Keyset, error) {
	if file == "" {
		return codec.NewKeyset()
	}
	return codec.LoadKeyset(file)
}
