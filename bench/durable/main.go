// Command durable compares tasks with the best Go libraries for durable work, on PostgreSQL and on
// SQLite. The work is three trivial steps with a checkpoint after each, started and waited for by
// 1, 16 and 64 callers.
//
//	cd bench/durable && GOWORK=off go run -mod=mod .
//
// Each system is a process of its own, and each that uses PostgreSQL has a server of its own,
// which is started for it with its default settings. In each round they are measured one after
// the other. Then follows what they cost while there is nothing to do.
//
// It is a module of its own, so that the product does not depend on what it is compared with.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// plan is what a run measures.
type plan struct {
	rounds int
	window time.Duration // of one measurement
	idle   time.Duration // for how long they are watched with nothing to do; zero: not
	only   string        // the names of systems, with commas; empty: all
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		exit(beChild(os.Args[2:]))
	}
	var p plan
	flag.IntVar(&p.rounds, "rounds", 5, "rounds; medians are shown")
	flag.DurationVar(&p.window, "window", 700*time.Millisecond, "how long each system works at a time")
	flag.DurationVar(&p.idle, "idle", 20*time.Second, "how long they are watched with nothing to do, a minute after all else; 0: not at all")
	flag.StringVar(&p.only, "only", "", "measure these systems only, such as mcpsaga,DBOS")
	deadline := flag.Duration("deadline", 10*time.Minute, "end, whatever is still to do")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *deadline)
	defer cancel()
	exit(p.run(ctx))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "durable:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
