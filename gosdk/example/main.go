// Command gosdk is a server on the official Go SDK with an ordinary tool of the SDK and
// a saga. What is not the SDK's own: the line with Mount, the handler for clients of all
// revisions, and how it stops.
//
//	go run ./gosdk/example                    # prints its URL
//	go run ./cmd/saga call --server URL book_table
//	go run ./cmd/saga call --stdio 'go run ./gosdk/example --stdio' book_table
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
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/gosdk"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gosdk:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("gosdk", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:0", "address to listen on")
	stdio := flags.Bool("stdio", false, "serve standard input and output instead of HTTP")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	keys, err := codec.NewKeyset() // replicas share a file: codec.LoadKeyset
	if err != nil {
		return err
	}
	s, sagas, err := newServer(keys)
	if err != nil {
		return err
	}
	if *stdio {
		// A client that is gone must not end this process in the middle of an undo.
		signal.Ignore(syscall.SIGPIPE)
		running, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		defer context.AfterFunc(ctx, func() { shutdown(sagas); stop() })()
		err := s.Run(running, &mcp.StdioTransport{})
		shutdown(sagas)
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	return serve(ctx, s, sagas, *addr)
}

// shutdown waits for what is undone of calls that cannot continue.
func shutdown(sagas *gosdk.Mounted) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := sagas.Shutdown(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gosdk: not everything was undone:", err)
	}
}

// newServer is the server that there was before, and a saga.
func newServer(keys *codec.Keyset) (*mcp.Server, *gosdk.Mounted, error) {
	s := mcp.NewServer(&mcp.Implementation{Name: "bistro", Version: "1.0.0"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "menu", Description: "What there is to eat today."}, menu)

	sagas, err := gosdk.Mount(s, gosdk.Options{Keys: keys}, bookTable)
	return s, sagas, err
}

// serve serves clients of all revisions at one address.
func serve(ctx context.Context, s *mcp.Server, sagas *gosdk.Mounted, addr string) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", gosdk.NewHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{SessionTimeout: time.Hour}))
	h := &http.Server{Handler: http.NewCrossOriginProtection().Handler(mux), ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		shutdown(sagas)
		for session := range s.Sessions() {
			_ = session.Close()
		}
		_ = h.Close()
	})
	fmt.Printf("http://%s/mcp\n", l.Addr())
	if err := h.Serve(l); stop() { // not asked to stop
		return err
	}
	<-stopped
	return nil
}
