// Command bench measures what this server costs: a turn of a saga beside its peers, a call of a
// client with a session, and a stream on which nothing happens.
//
//	go run ./bench [turns|calls|streams ...]
//	go run ./bench -base PROGRAM turns   # beside another build of this command
//
// The peer is a server that does the same by hand with the official Go SDK.
//
// Every server runs in a process of its own. In each of many rounds, each gets a short load in turn,
// over loopback from this process. What counts is the CPU time of the server, and its ratio to that of
// another server in the same round. Every answer is checked, and a wrong one ends the run with an error.
//
// Package bench/durable measures what tasks cost.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	var err error
	if len(os.Args) > 1 && os.Args[1] == "child" {
		err = serveChild(os.Args[2:])
	} else {
		err = run(context.Background(), os.Stdout, os.Args[1:])
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
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

var errDeadline = errors.New("the time for the whole run is over; give it more with -deadline")

// tables are what can be measured, by name.
var tables = []struct {
	name    string
	measure func(context.Context, measurement) string
}{{"turns", turnsTable}, {"calls", callsTable}, {"streams", streamsTable}}

func tableNames() (names []string) {
	for _, t := range tables {
		names = append(names, t.name)
	}
	return names
}

// measurement is what the flags say.
type measurement struct {
	sagas, rounds, connections, streams int
	base                                string
	// dir is where ledgers are. It is removed in the end.
	dir string
}

// run measures the tables that are named, or all.
func run(ctx context.Context, out io.Writer, args []string) error {
	var m measurement
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&m.sagas, "sagas", 500, "sagas per server and round")
	flags.IntVar(&m.rounds, "rounds", 31, "rounds; medians are shown")
	flags.IntVar(&m.connections, "connections", 8, "connections at once")
	flags.IntVar(&m.streams, "streams", 4000, "idle streams that are opened")
	flags.StringVar(&m.base, "base", "", "compare with this program as well: the same command, built from another commit")
	deadline := flags.Duration("deadline", 20*time.Minute, "end, whatever is still to do")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if min(m.sagas, m.rounds, m.connections, m.streams) < 1 {
		return errors.New("-sagas, -rounds, -connections and -streams must be at least 1")
	}
	for _, name := range flags.Args() {
		if !slices.Contains(tableNames(), name) {
			return fmt.Errorf("there is no table %q; there are %s", name, strings.Join(tableNames(), ", "))
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, *deadline, errDeadline)
	defer cancel()
	for _, t := range tables {
		if flags.NArg() > 0 && !slices.Contains(flags.Args(), t.name) {
			continue
		}
		err := try(func() {
			ctx, stop := context.WithCancel(ctx) // ends its servers
			defer stop()
			m.dir = must(os.MkdirTemp("", "bench"))
			defer os.RemoveAll(m.dir)
			must(io.WriteString(out, m.section(t.name, t.measure(ctx, m))))
		})
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
