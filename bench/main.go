// Command bench compares what a turn of a saga costs on this server, on a server
// that does the same by hand with the official Go SDK, and on a floor: net/http
// and encoding/json that read the same requests and answer with constants.
//
//	go run ./bench
//	go run ./bench --base ANOTHER    # beside another build of this command
//	go run ./bench curves [rounds|size|connections|replicas|heap ...]
//	go run ./bench ledger [unused|sqlite|postgres|records ...]
//
// Every server runs in a process of its own; each gets a short load in turn, many
// rounds, over loopback from this process. What counts is the CPU time of the server
// per turn, and its ratio to the floor's in the same round. Every answer is checked,
// and a wrong one ends the run with an error. Ratios are within one run only.
//
// Curves show how the cost of a turn grows with what their name says, and ledger what it
// costs to remember turns. With --into,
// tables go into a document as well.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
)

func main() {
	if err := app().Run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// failure is an error on its way to try, which ends the run.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func fail(format string, args ...any) { check(fmt.Errorf(format, args...)) }

// try returns the error that ended f.
func try(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

var errDeadline = errors.New("the time for the whole run is over; give it more with --deadline")

// measurement is a part of a run: what the flags say.
type measurement struct {
	*cli.Command
	sagas, rounds, connections int
	// cleanup has a function called when the curve has been measured.
	cleanup func(func())
}

// limited runs an action for as long as the flag deadline says.
func limited(action func(context.Context, measurement)) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		ctx, cancel := context.WithTimeoutCause(ctx, c.Duration("deadline"), errDeadline)
		defer cancel()
		err := try(func() {
			action(ctx, measurement{Command: c, sagas: c.Int("sagas"), rounds: c.Int("rounds"), connections: c.Int("connections")})
		})
		if err != nil && context.Cause(ctx) != nil {
			return context.Cause(ctx)
		}
		return err
	}
}

func app() *cli.Command {
	number := func(name, usage string, value int) cli.Flag {
		return &cli.IntFlag{Name: name, Usage: usage, Value: value, Validator: func(n int) error {
			if n < 1 {
				return fmt.Errorf("--%s must be at least 1", name)
			}
			return nil
		}}
	}
	return &cli.Command{
		Name:  "bench",
		Usage: "compare the cost of a saga's turns on this server and its peers",
		Flags: []cli.Flag{
			number("sagas", "sagas per server and round", 500),
			number("rounds", "rounds; medians are shown", 31),
			number("connections", "connections at once", 8),
			&cli.StringFlag{Name: "base", Usage: "compare with this program as well: the same command, built from another commit"},
			&cli.StringFlag{Name: "into", Usage: "put the tables into this document as well, such as docs/benchmarks/tables.md"},
			&cli.DurationFlag{Name: "deadline", Usage: "end, whatever is still to do", Value: 20 * time.Minute},
		},
		Action: limited(compare),
		Commands: []*cli.Command{
			{Name: "child", Hidden: true, Action: func(_ context.Context, c *cli.Command) error { return serveChild(c.Args().Slice()) }},
			{
				Name: "curves", Usage: "show how the cost of a turn grows: " + strings.Join(namesOf(growth), ", "), ArgsUsage: "[curve...]",
				Flags:  []cli.Flag{number("suspended", "sagas left suspended for the curve heap", 1_000_000)},
				Action: limited(some(growth)),
			},
			{
				Name: "ledger", Usage: "show what a ledger costs: " + strings.Join(namesOf(ledgerCurves), ", "), ArgsUsage: "[curve...]",
				Flags:  []cli.Flag{number("records", "records made for the curve of that name", 1_000_000)},
				Action: limited(some(ledgerCurves)),
			},
		},
	}
}
