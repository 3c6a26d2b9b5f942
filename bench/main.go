package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v3"
)

func main() {
	if err := app().Run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// childMark is set for processes that this program starts, so that its test can
// be such a process as well.
const childMark = "MCPSAGA_BENCH_CHILD"

var errDeadline = errors.New("the time for the whole run is over; give it more with --deadline")

// limited runs an action for as long as the flag deadline says.
func limited(action cli.ActionFunc) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		for _, name := range []string{"sagas", "rounds", "connections"} {
			if c.Int(name) < 1 {
				return fmt.Errorf("--%s must be at least 1", name)
			}
		}
		ctx, cancel := context.WithTimeoutCause(ctx, c.Duration("deadline"), errDeadline)
		defer cancel()
		err := action(ctx, c)
		if err != nil && context.Cause(ctx) != nil {
			return context.Cause(ctx)
		}
		return err
	}
}

func app() *cli.Command {
	return &cli.Command{
		Name:  "bench",
		Usage: "compare the cost of a saga's turns on this server and its peers",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "sagas", Usage: "sagas per server and round", Value: 500},
			&cli.IntFlag{Name: "rounds", Usage: "rounds; medians are shown", Value: 31},
			&cli.IntFlag{Name: "connections", Usage: "connections at once", Value: 8},
			&cli.BoolFlag{Name: "markdown", Usage: "print the tables in Markdown, as docs/benchmarks.md has them"},
			&cli.StringFlag{Name: "into", Usage: "put the tables into this document as well, such as docs/benchmarks.md"},
			&cli.DurationFlag{Name: "deadline", Usage: "end, whatever is still to do", Value: 20 * time.Minute},
		},
		Action: limited(compare),
		Commands: []*cli.Command{
			{Name: "child", Hidden: true, Action: func(_ context.Context, c *cli.Command) error { return serveChild(c.Args().Slice()) }},
			{
				Name: "hostile", Usage: "look for the requests that cost a server the most for their size",
				Flags: []cli.Flag{
					&cli.IntFlag{Name: "largest", Usage: "the size of the largest requests, in bytes", Value: 1_000_000},
					&cli.IntFlag{Name: "top", Usage: "how many of the worst are shown", Value: 12},
				},
				Action: limited(searchHostile),
			},
			{
				Name: "curves", Usage: "show how the cost of a turn grows: " + curveNames, ArgsUsage: "[curve...]",
				Flags:  []cli.Flag{&cli.IntFlag{Name: "suspended", Usage: "sagas left suspended for the curve heap", Value: 1_000_000}},
				Action: limited(curves),
			},
		},
	}
}
