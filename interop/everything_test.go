package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/examples/longtalk"
	"github.com/mcpsaga/mcpsaga/examples/releasenotes"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// everythingChild is the first argument of this package's test binary when it is to be a
// server with the fixtures and this repository's example tools, which prints its URL.
// Flags follow. To look at it by hand:
//
//	go test -c -o bin/interop.test ./interop && bin/interop.test serve-everything --addr 127.0.0.1:3000
//	npx @modelcontextprotocol/conformance server --url http://127.0.0.1:3000/mcp --requirements 2026-07-28
//	npx @modelcontextprotocol/conformance server --url http://127.0.0.1:3000/mcp --requirements 2025-11-25
const everythingChild = "serve-everything"

// noLedger has a server do without.
const noLedger = "off"

type everythingOptions struct {
	addr, keys, root, ledger string
	stdio, sdk               bool
}

func serveEverything(args []string, in io.Reader, out io.Writer) error {
	var o everythingOptions
	flags := flag.NewFlagSet("everything", flag.ContinueOnError)
	flags.StringVar(&o.addr, "addr", "127.0.0.1:0", "address to listen on")
	flags.StringVar(&o.keys, "keys", "", "keyset file, so that another process can go on with what this one began; without one the keys live as long as the process")
	flags.StringVar(&o.ledger, "ledger", "", "SQLite file or postgres:// URL of the ledger, for servers that share it or come back, or "+noLedger+"; without one it is in memory")
	flags.StringVar(&o.root, "root", ".", "directory whose git repositories release_notes may read and write")
	flags.BoolVar(&o.stdio, "stdio", false, "serve standard input and output instead of HTTP")
	flags.BoolVar(&o.sdk, "sdk", false, "serve on a server of the official Go SDK")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	s, err := newServer(o)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.stdio {
		signal.Ignore(syscall.SIGPIPE) // or a client that goes ends what is being undone
		return s.ServeStdio(ctx, in, out)
	}
	l, err := net.Listen("tcp", o.addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s%s\n", l.Addr(), server.Endpoint)
	return s.Serve(ctx, l)
}

// everything is a server of either kind.
type everything interface {
	listChanges
	ServeStdio(context.Context, io.Reader, io.Writer) error
	Serve(context.Context, net.Listener) error
}

func newServer(o everythingOptions) (everything, error) {
	if o.sdk {
		return newSDKServer(o)
	}
	keys, err := keyset(o.keys)
	if err != nil {
		return nil, err
	}
	store, err := openLedger(o.ledger)
	if err != nil {
		return nil, err
	}
	var questions server.Questions
	if store != nil && !o.stdio {
		questions.PageURL = pagesOfAll
	}
	var s *server.Server
	s, err = server.New(server.Options{
		Questions: questions,
		Tools:     tools(o, func() listChanges { return s }), Keys: keys, Ledger: store,
		Name: "everything", Title: "Everything", Version: "1.0.0",
		Instructions: instructions,
		// Standard output belongs to the protocol.
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	return s, err
}

// pagesOfAll is where pages are said to be: under the same name for all replicas, as behind a load balancer.
const pagesOfAll = "http://127.0.0.1/ask"

const instructions = "Every tool here is an example. None does harm."

func tools(o everythingOptions, s func() listChanges) []saga.Definition {
	offered := fixtures(s)
	if o.ledger == noLedger {
		offered = slices.DeleteFunc(offered, func(d saga.Definition) bool { // a server without a ledger refuses them
			program, err := d.Compile()
			return err == nil && program.Tasks.Mode == engine.TasksRequired
		})
	}
	return append(offered, complextool.Tool, longtalk.Tool, releasenotes.New(o.root))
}

func keyset(file string) (*codec.Keyset, error) {
	if file == "" {
		return codec.NewKeyset()
	}
	return codec.LoadKeyset(file)
}

// openLedger opens the ledger, which is closed with the process.
func openLedger(file string) (ledger.Store, error) {
	switch {
	case file == "":
		return ledger.NewMemory(ledger.MemoryOptions{}), nil
	case file == noLedger:
		return nil, nil
	case strings.HasPrefix(file, "postgres://"):
		return postgres.Open(context.Background(), file)
	}
	return sqlite.Open(context.Background(), file)
}
