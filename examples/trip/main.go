// Command trip is an example of effects that are undone: a tool that books a hotel
// and a flight and pays for them, with three services that are processes of their
// own. Whatever is killed in between, nothing is booked by halves.
//
//	trip [flags]                   # everything, each part in a process of its own
//	trip service [flags] hotel     # one of the services: hotel, flight or payment
//	trip serve [flags]             # the tool
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/trip/booking"
	"github.com/mcpsaga/mcpsaga/examples/trip/service"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args, os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "trip:", err)
		os.Exit(1)
	}
}

// options are the flags of all commands.
type options struct {
	out                             io.Writer
	addr, dir, db, keyset, ledger   string
	hotelURL, flightURL, paymentURL string
	ttl                             time.Duration
}

// run is the program. The first line that a part of it prints is the URL where it listens.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	command, args := "", args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		command, args = args[0], args[1:]
	}
	o := options{out: stdout}
	flags := flag.NewFlagSet("trip", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.addr, "addr", "", "the `ADDRESS` of the tool's server (default 127.0.0.1:8080), or of a part (default: a free port)")
	flags.StringVar(&o.dir, "dir", "", "the `DIR` of the databases and the keyset; it is created if it is missing (default: a new one)")
	flags.StringVar(&o.ledger, "ledger", "", "the `LEDGER`: off, sqlite:PATH or postgres://USER@HOST/DATABASE (default: a file in --dir, or off for serve)")
	flags.DurationVar(&o.ttl, "token-ttl", 10*time.Minute, "how long a question waits for its answer")
	flags.StringVar(&o.db, "db", "", "service: the `FILE` of the database")
	flags.StringVar(&o.keyset, "keyset", "", "serve: the `FILE` with the keys that seal tokens; it is created if it is missing")
	flags.StringVar(&o.hotelURL, "hotel", "", "serve: the hotel service's `URL`")
	flags.StringVar(&o.flightURL, "flight", "", "serve: the flight service's `URL`")
	flags.StringVar(&o.paymentURL, "payment", "", "serve: the payment service's `URL`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case command == "service" && flags.NArg() == 1 && o.db != "":
		return serveService(ctx, o, flags.Arg(0))
	case command == "serve" && flags.NArg() == 0 && o.keyset != "" && o.hotelURL != "" && o.flightURL != "" && o.paymentURL != "":
		return serveTool(ctx, o)
	case command == "" && flags.NArg() == 0:
		return everything(ctx, o)
	}
	return errors.New("usage: trip, trip service --db FILE hotel|flight|payment, or trip serve --keyset FILE --hotel URL --flight URL --payment URL; --help lists the flags")
}

// lifetime is how long holds last: longer than a trip may take to book.
const lifetime = 2 * booking.MaxAge

// tariffs are what the services have to offer. Money is sold by the cent.
var tariffs = map[string]service.Options{
	"hotel":   {Price: 9500, Capacity: 60, Lifetime: lifetime},
	"flight":  {Price: 21000, Capacity: 8, Lifetime: lifetime},
	"payment": {Price: 1, Capacity: 400000, Lifetime: lifetime},
}

func serveService(ctx context.Context, o options, name string) error {
	tariff, ok := tariffs[name]
	if !ok {
		return fmt.Errorf("there is no service %q", name)
	}
	tariff.Database = o.db
	s, err := service.Open(ctx, tariff)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	l, err := o.listen(ctx, "")
	if err != nil {
		return err
	}
	return s.Serve(ctx, l)
}

func serveTool(ctx context.Context, o options) error {
	keys, err := codec.LoadKeyset(o.keyset)
	if errors.Is(err, fs.ErrNotExist) {
		keys, err = codec.CreateKeysetFile(o.keyset)
	}
	if err != nil {
		return err
	}
	store, err := openLedger(ctx, o.ledger)
	if err != nil {
		return err
	}
	if store != nil {
		defer func() { _ = store.Close() }()
	}
	tool := booking.New(booking.Services{Hotel: o.hotelURL, Flight: o.flightURL, Payment: o.paymentURL})
	s, err := server.New(server.Options{
		Name: "trip", Tools: []saga.Definition{tool}, Keys: keys, Audience: "trip", Ledger: store, TokenTTL: o.ttl,
	})
	if err != nil {
		return err
	}
	l, err := o.listen(ctx, server.Endpoint)
	if err != nil {
		return err
	}
	return s.Serve(ctx, l)
}

// openLedger opens the ledger of a name, or none.
func openLedger(ctx context.Context, name string) (ledger.Store, error) {
	switch {
	case name == "off", name == "":
		return nil, nil
	case strings.HasPrefix(name, "postgres://"), strings.HasPrefix(name, "postgresql://"):
		return postgres.Open(ctx, name)
	}
	return sqlite.Open(ctx, strings.TrimPrefix(name, "sqlite:"))
}

// listen listens and prints the URL.
func (o options) listen(ctx context.Context, path string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(o.addr, "127.0.0.1:0"))
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(o.out, "http://%s%s\n", l.Addr(), path)
	return l, err
}
