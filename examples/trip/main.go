// Command trip is an example of effects that are undone: a tool that books a hotel
// and a flight and pays for them, with three services that are processes of their
// own. Whatever is killed in between, nothing is booked by halves.
//
// Without arguments it starts everything; its subcommands start the parts.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "trip:", err)
		os.Exit(1)
	}
}

// run is the program. What a part of it is listening on is the first line that it
// prints.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	root := &cli.Command{
		Name:           "trip",
		Usage:          "book a trip with three services, all or nothing",
		Writer:         stdout,
		ErrWriter:      stderr,
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "addr", Usage: "the `ADDRESS` of the tool's server", Value: "127.0.0.1:8080"},
			&cli.StringFlag{Name: "dir", Usage: "the `DIR` of the databases and the keyset; it is created if it is missing (default: a new one)"},
			&cli.StringFlag{Name: "ledger", Usage: "the `LEDGER`: off, sqlite:PATH or postgres://USER@HOST/DATABASE (default: a file in --dir)"},
			&cli.DurationFlag{Name: "token-ttl", Usage: "how long a question waits for its answer", Value: 10 * time.Minute},
		},
		Action:   everything,
		Commands: []*cli.Command{serviceCommand(), serveCommand()},
	}
	return root.Run(ctx, args)
}
