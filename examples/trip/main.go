// Command trip is an example of effects that are undone: a tool that books a hotel and a flight and pays
// for them, with three services. Whatever is killed in between, nothing is booked by halves.
//
//	trip serve [flags]                     # the tool, and the services that no flag names
//	trip service --db FILE [flags] hotel   # one of the services: hotel, flight or payment
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mcpsaga/mcpsaga/cmd/program"
	"github.com/mcpsaga/mcpsaga/examples/trip/booking"
	"github.com/mcpsaga/mcpsaga/examples/trip/service"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "service" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := runService(ctx, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "trip:", err)
			os.Exit(1)
		}
		return
	}
	var e example
	flags := flag.NewFlagSet("trip", flag.ContinueOnError)
	flags.StringVar(&e.dir, "dir", "", "the `DIR` of the databases of services (default: a new one, which knows no holds from before)")
	flags.StringVar(&e.services.Hotel, "hotel", "", "the hotel service's `URL` (default: one in this process)")
	flags.StringVar(&e.services.Flight, "flight", "", "the flight service's `URL` (default: one in this process)")
	flags.StringVar(&e.services.Payment, "payment", "", "the payment service's `URL` (default: one in this process)")
	flags.StringVar(&e.rules.Approver, "approver", "", "`WHO` must approve trips, after which the account's owner must agree at the bank (default: no one)")
	flags.IntVar(&e.rules.Above, "above", 50000, "the price, in `CENTS`, up to which no one must approve")
	flags.StringVar(&e.public, "public", "http://127.0.0.1:8080", "the `URL` at which approvers and the bank reach this server, or any other with its ledger")
	program.Main(program.Options{
		Server: server.Options{Name: "trip", Audience: "trip"}, Usage: "book a hotel, a flight and pay, all or nothing",
		Example: "trip from=Oslo account=alice", Flags: flags, Setup: e.setup,
	})
}

// example is what flags say of the tool and its services.
type example struct {
	services    booking.Services
	rules       booking.Rules
	dir, public string
}

// Where approvers find what waits for them, and where the bank calls back.
const (
	pagePath  = "/ask"
	eventPath = "/events"
)

// setup completes the options of the tool's server, and starts the services that have no URL.
func (e *example) setup(ctx context.Context, o *server.Options) (err error) {
	if e.dir == "" {
		e.dir, err = os.MkdirTemp("", "trip-")
	} else {
		err = os.MkdirAll(e.dir, 0o700)
	}
	if err != nil {
		return err
	}
	for name, url := range map[string]*string{"hotel": &e.services.Hotel, "flight": &e.services.Flight, "payment": &e.services.Payment} {
		if *url == "" {
			serve, at, err := open(ctx, name, filepath.Join(e.dir, name+".db"), "127.0.0.1:0")
			if err != nil {
				return err
			}
			*url = at
			go func() {
				if err := serve(); err != nil {
					slog.ErrorContext(ctx, "a service has ended", "service", name, "error", err)
				}
			}()
		}
	}
	fmt.Fprintf(os.Stderr, "the services' databases are in %s; see what is held: curl -s %s/holds\n", e.dir, e.services.Hotel)
	if e.rules.Approver != "" {
		e.rules.Within, e.rules.Callbacks = o.TokenTTL, e.public+eventPath
		o.EventPath, o.Questions.PageURL, o.Authenticate = eventPath, e.public+pagePath, who
		fmt.Fprintf(os.Stderr, agreeText, e.rules.Above/100, e.rules.Approver, e.public+pagePath+"/waiting", e.services.Payment)
	}
	o.Tools = []saga.Definition{booking.New(e.services, e.rules)}
	return nil
}

const agreeText = `
Others must agree to trips above EUR %[1]d. Accept both questions, and while the call waits:

   %[2]s opens %[3]s and approves, as the user %[2]s with any password
   curl -s %[4]s/holds                        # the key of the money that is held
   curl -sX POST %[4]s/holds/KEY/agree        # the account's owner agrees

`

// who believes everybody: a name without a password, which browsers are asked for. That will do for an example on one's own
// machine, and nowhere else. Who says nothing is the guest.
func who(r *http.Request) (saga.Caller, error) {
	name, _, named := r.BasicAuth()
	if !named && strings.HasPrefix(r.RequestURI, pagePath+"/waiting") {
		return saga.Caller{}, &server.AuthError{Challenge: `Basic realm="trip: any password does"`}
	}
	if name == "" {
		name = "guest"
	}
	return saga.Caller{Subject: name}, nil
}

// lifetime is how long holds last: longer than a trip may take to book.
const lifetime = 2 * booking.MaxAge

// tariffs are what the services have to offer. Money is sold by the cent.
var tariffs = map[string]service.Options{
	"hotel":   {Price: 9500, Capacity: 60, Lifetime: lifetime},
	"flight":  {Price: 21000, Capacity: 8, Lifetime: lifetime},
	"payment": {Price: 1, Capacity: 400000, Lifetime: lifetime},
}

func runService(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("trip service", flag.ContinueOnError)
	db := flags.String("db", "", "the `FILE` of the database")
	addr := flags.String("addr", "127.0.0.1:0", "the `ADDRESS` to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	serve, url, err := open(ctx, flags.Arg(0), *db, *addr)
	if err != nil {
		return err
	}
	slog.Info("serving", "url", url)
	return serve()
}

// open opens a service, and returns what serves it until ctx ends, and its URL.
func open(ctx context.Context, name, db, addr string) (serve func() error, url string, err error) {
	tariff, ok := tariffs[name]
	if !ok {
		return nil, "", fmt.Errorf("there is no service %q", name)
	}
	tariff.Database = db
	s, err := service.Open(ctx, tariff)
	if err != nil {
		return nil, "", err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, "", errors.Join(err, s.Close())
	}
	return func() error { return errors.Join(s.Serve(ctx, l), s.Close()) }, "http://" + l.Addr().String(), nil
}
