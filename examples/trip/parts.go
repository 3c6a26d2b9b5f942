package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/trip/booking"
	"github.com/mcpsaga/mcpsaga/examples/trip/service"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// tariffs are what the services have to offer. Money is sold by the cent.
var tariffs = map[string]service.Options{
	"hotel":   {Price: 9500, Capacity: 60},
	"flight":  {Price: 21000, Capacity: 8},
	"payment": {Price: 1, Capacity: 400000},
}

// lifetime is how long holds last: longer than a trip may take to book.
const lifetime = 2 * booking.MaxAge

func serviceCommand() *cli.Command {
	return &cli.Command{
		Name:      "service",
		Usage:     "run one of the services",
		ArgsUsage: "hotel|flight|payment",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Usage: "the `ADDRESS` to listen on", Value: "127.0.0.1:0"},
			&cli.StringFlag{Name: "db", Usage: "the `FILE` of the database", Required: true},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			o, ok := tariffs[c.Args().First()]
			if !ok || c.NArg() != 1 {
				return errors.New("say which service: hotel, flight or payment")
			}
			o.Database, o.Lifetime = c.String("db"), lifetime
			s, err := service.Open(ctx, o)
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			l, err := listen(ctx, c, "")
			if err != nil {
				return err
			}
			return s.Serve(ctx, l)
		},
	}
}

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "serve the tool",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Usage: "the `ADDRESS` to listen on", Value: "127.0.0.1:0"},
			&cli.StringFlag{Name: "keyset", Usage: "the `FILE` with the keys that seal tokens; it is created if it is missing", Required: true},
			&cli.StringFlag{Name: "ledger", Usage: "the `LEDGER`: off, sqlite:PATH or postgres://USER@HOST/DATABASE", Value: "off"},
			&cli.DurationFlag{Name: "token-ttl", Usage: "how long a question waits for its answer", Value: 10 * time.Minute},
			&cli.StringFlag{Name: "hotel", Usage: "the hotel service's `URL`", Required: true},
			&cli.StringFlag{Name: "flight", Usage: "the flight service's `URL`", Required: true},
			&cli.StringFlag{Name: "payment", Usage: "the payment service's `URL`", Required: true},
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			keys, err := codec.LoadKeyset(c.String("keyset"))
			if errors.Is(err, fs.ErrNotExist) {
				keys, err = codec.CreateKeysetFile(c.String("keyset"))
			}
			if err != nil {
				return err
			}
			tool := booking.New(booking.Services{Hotel: c.String("hotel"), Flight: c.String("flight"), Payment: c.String("payment")})
			store, err := openLedger(ctx, c.String("ledger"))
			if err != nil {
				return err
			}
			if store != nil {
				defer func() { _ = store.Close() }()
			}
			s, err := server.New(server.Options{
				Name: "trip", Tools: []saga.Definition{tool}, Keys: keys, Audience: "trip",
				Ledger: store, TokenTTL: c.Duration("token-ttl"),
			})
			if err != nil {
				return err
			}
			l, err := listen(ctx, c, server.Endpoint)
			if err != nil {
				return err
			}
			return s.Serve(ctx, l)
		},
	}
}

// openLedger opens what --ledger names; nil is none.
func openLedger(ctx context.Context, name string) (ledger.Store, error) {
	switch {
	case name == "off":
		return nil, nil
	case strings.HasPrefix(name, "postgres://"), strings.HasPrefix(name, "postgresql://"):
		return postgres.Open(ctx, name)
	}
	return sqlite.Open(ctx, strings.TrimPrefix(name, "sqlite:"))
}

// listen listens at --addr and prints the URL.
func listen(ctx context.Context, c *cli.Command, path string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", c.String("addr"))
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(c.Root().Writer, "http://%s%s\n", l.Addr(), path)
	return l, err
}
