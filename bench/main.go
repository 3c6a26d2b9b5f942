// Command bench compares what a turn of a saga costs on this server, on a server
// that does the same by hand with the official Go SDK, and on a floor: net/http
// and encoding/json that read the same requests and answer with constants.
//
//	go run ./bench
//	go run ./bench --base ANOTHER    # beside another build of this command
//	go run ./bench curves [rounds|size|connections|replicas|heap ...]
//	go run ./bench ledger [unused|sqlite|postgres|records|sessions ...]
//
// Every server runs in a process of its own; each gets a short load in turn, many
// rounds, over loopback from this process. What counts is the CPU time of the server
// per turn, and its ratio to the floor's in the same round. Every answer is checked,
// and a wrong one ends the run with an error. Ratios are within one run only.
//
// Curves show how the cost of a turn grows with what their name says, and ledger what it
// costs to remember turns. With --into, tables go into a document as well.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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

// curve is a table that shows how something grows, or compares. Connections are how many it is
// measured on; 0 is what the flag says.
type curve struct {
	name        string
	run         func(context.Context, measurement) string
	connections int
}

func namesOf(list []curve) (names []string) {
	for _, c := range list {
		names = append(names, c.name)
	}
	return names
}

// measurement is what the flags say to a curve.
type measurement struct {
	*cli.Command
	sagas, rounds, connections int
	// cleanup has a function called when the curve has been measured.
	cleanup func(func())
}

// showing shows the curves that are named, or all, for as long as the flag deadline says.
func showing(list ...curve) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		ctx, cancel := context.WithTimeoutCause(ctx, c.Duration("deadline"), errDeadline)
		defer cancel()
		chosen := list
		if c.Args().Present() {
			chosen = nil
		}
		for _, name := range c.Args().Slice() {
			i := slices.Index(namesOf(list), name)
			if i < 0 {
				return fmt.Errorf("there is no curve %q; there are %s", name, strings.Join(namesOf(list), ", "))
			}
			chosen = append(chosen, list[i])
		}
		for _, one := range chosen {
			m := measurement{Command: c, sagas: c.Int("sagas"), rounds: c.Int("rounds"), connections: cmp.Or(one.connections, c.Int("connections"))}
			if err := try(func() { one.show(ctx, m) }); err != nil {
				return cmp.Or(context.Cause(ctx), err)
			}
		}
		return nil
	}
}

// show runs a curve, and then ends its servers and cleans up after it.
func (c curve) show(ctx context.Context, m measurement) {
	ctx, stop := context.WithCancel(ctx)
	var ends []func()
	m.cleanup = func(f func()) { ends = append(ends, f) }
	defer func() {
		stop()
		for _, f := range slices.Backward(ends) {
			f()
		}
	}()
	m.section(c.name, c.run(ctx, m))
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
	part := func(name, shows string, list []curve, most cli.Flag) *cli.Command {
		return &cli.Command{
			Name: name, Usage: shows + ": " + strings.Join(namesOf(list), ", "), ArgsUsage: "[curve...]", Flags: []cli.Flag{most}, Action: showing(list...),
		}
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
		Action: showing(curve{name: "compare", run: compare}),
		Commands: []*cli.Command{
			{Name: "child", Hidden: true, Action: func(_ context.Context, c *cli.Command) error { return serveChild(c.Args().Slice()) }},
			part("curves", "show how the cost of a turn grows", growth, number("suspended", "sagas left suspended for the curve heap", 1_000_000)),
			part("ledger", "show what a ledger costs", ledgerCurves, number("records", "records made for the curve of that name", 1_000_000)),
		},
	}
}
