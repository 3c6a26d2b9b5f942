// Command trip is an example of effects that are undone: a tool that books a hotel and a flight and pays
// for them, with three services. Whatever is killed in between, nothing is booked by halves.
//
//	trip [flags]                   # everything in one process
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
	"path/filepath"
	"strings"
	"sync"
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
	out                           io.Writer
	addr, dir, db, keyset, ledger string
	services                      booking.Services
	ttl                           time.Duration
	rules                         booking.Rules
	public                        string
}

// run is the program. A part of it prints the URL where it listens.
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
	flags.StringVar(&o.services.Hotel, "hotel", "", "serve: the hotel service's `URL`")
	flags.StringVar(&o.services.Flight, "flight", "", "serve: the flight service's `URL`")
	flags.StringVar(&o.services.Payment, "payment", "", "serve: the payment service's `URL`")
	flags.StringVar(&o.rules.Approver, "approver", "", "`WHO` must approve trips, after which the account's owner must agree at the bank (default: no one)")
	flags.IntVar(&o.rules.Above, "above", 50000, "the price, in `CENTS`, up to which no one must approve")
	flags.StringVar(&o.public, "public", "", "serve: the `URL` at which approvers and the bank reach this server, or any other with its ledger; needed with --approver")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if command == "serve" && o.rules.Approver != "" && (o.public == "" || o.ledger == "" || o.ledger == "off") {
		return errors.New("--approver needs --public, where the approver and the bank reach the server, and a --ledger")
	}
	up := func(url string) { fmt.Fprintln(stdout, url) }
	switch {
	case command == "service" && flags.NArg() == 1 && o.db != "":
		return serveService(ctx, o, flags.Arg(0), up)
	case command == "serve" && flags.NArg() == 0 && o.keyset != "" && o.services.Hotel != "" && o.services.Flight != "" && o.services.Payment != "":
		return serveTool(ctx, o, up)
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

// serveService serves one of the services. It calls up with its URL.
func serveService(ctx context.Context, o options, name string, up func(url string)) error {
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
	return listen(ctx, o.addr, "", up, s.Serve)
}

// serveTool serves the tool. It calls up with its URL.
func serveTool(ctx context.Context, o options, up func(url string)) error {
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
	so := server.Options{Name: "trip", Keys: keys, Audience: "trip", Ledger: store, TokenTTL: o.ttl}
	if o.rules.Approver != "" {
		o.rules.Within, o.rules.Callbacks = o.ttl, o.public+eventPath
		so.EventPath, so.Questions.PageURL, so.Authenticate = eventPath, o.public+pagePath, who
	}
	so.Tools = []saga.Definition{booking.New(o.services, o.rules)}
	s, err := server.New(so)
	if err != nil {
		return err
	}
	if o.rules.Approver != "" {
		return listen(ctx, o.addr, server.Endpoint, up, func(ctx context.Context, l net.Listener) error { return serveWithPages(ctx, s, l) })
	}
	return listen(ctx, o.addr, server.Endpoint, up, s.Serve)
}

// everything serves the services and the tool in one process.
func everything(ctx context.Context, o options) error {
	if o.dir == "" {
		var err error
		if o.dir, err = os.MkdirTemp("", "trip-"); err != nil {
			return err
		}
	} else if err := os.MkdirAll(o.dir, 0o700); err != nil { // keys will be in it
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop(nil)
	// start starts a part and returns its URL.
	start := func(serve func(up func(url string)) error) string {
		urls := make(chan string, 1)
		parts.Go(func() { stop(serve(func(url string) { urls <- url })) })
		select {
		case url := <-urls:
			return url
		case <-ctx.Done():
			return ""
		}
	}
	for name, url := range map[string]*string{"hotel": &o.services.Hotel, "flight": &o.services.Flight, "payment": &o.services.Payment} {
		*url = start(func(up func(string)) error {
			return serveService(ctx, options{db: filepath.Join(o.dir, name+".db")}, name, up)
		})
	}
	o.addr, o.ledger = cmp.Or(o.addr, "127.0.0.1:8080"), cmp.Or(o.ledger, filepath.Join(o.dir, "ledger.db"))
	o.public = cmp.Or(o.public, "http://"+o.addr)
	o.keyset = filepath.Join(o.dir, "keyset.json")
	url := start(func(up func(string)) error { return serveTool(ctx, o, up) })
	if ctx.Err() == nil {
		fmt.Fprintf(o.out, tryText, o.dir, url, o.services.Hotel)
		if o.rules.Approver != "" {
			fmt.Fprintf(o.out, agreeText, o.rules.Above/100, o.rules.Approver, o.public+pagePath+"/waiting", o.services.Payment)
		}
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

const tryText = `Databases, keys and the ledger are in %[1]s. Try:

   go run ./cmd/saga call trip --server %[2]s from=Oslo account=alice
   curl -s %[3]s/holds

Decline the second question and look again; or, while it is asked, kill -9 this process, start it
again with the same --dir, and continue the call with --resume. Or stop the call and forget it: the
server releases what was held when the time for the answer is over. Nine travellers find a hotel
and no flight, which has eight seats.
Ctrl-C ends everything.
`

const agreeText = `
Others must agree to trips above EUR %[1]d. Accept both questions, and while the call waits:

   %[2]s opens %[3]s and approves, as the user %[2]s with any password
   curl -s %[4]s/holds                        # the key of the money that is held
   curl -sX POST %[4]s/holds/KEY/agree        # the account's owner agrees
`

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

// listen serves at an address, and calls up with the URL.
func listen(ctx context.Context, addr, path string, up func(url string), serve func(context.Context, net.Listener) error) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(addr, "127.0.0.1:0"))
	if err != nil {
		return err
	}
	up("http://" + l.Addr().String() + path)
	return serve(ctx, l)
}
