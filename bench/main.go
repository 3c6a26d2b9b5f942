package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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

var errDeadline = errors.New("the time for the whole run is over; give it more with --deadline")

// measurement is a part of a run: what the flags say, and where its tables go.
type measurement struct {
	*cli.Command
	sagas, rounds, connections int
	out                        io.Writer
}

// limited runs an action for as long as the flag deadline says.
func limited(action func(context.Context, measurement) error) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		for _, name := range []string{"sagas", "rounds", "connections"} {
			if c.Int(name) < 1 {
				return fmt.Errorf("--%s must be at least 1", name)
			}
		}
		ctx, cancel := context.WithTimeoutCause(ctx, c.Duration("deadline"), errDeadline)
		defer cancel()
		err := action(ctx, measurement{c, c.Int("sagas"), c.Int("rounds"), c.Int("connections"), c.Root().Writer})
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
			&cli.StringFlag{Name: "base", Usage: "compare with this program as well: the same command, built from another commit"},
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

// section has f print a part of the report. If a document is to be kept, the part is
// put there as well, in place of what stands between its marks:
//
//	<!-- bench:name -->
//	<!-- /bench:name -->
func (m measurement) section(name string, f func(io.Writer) error) error {
	var b bytes.Buffer
	if err := f(&b); err != nil {
		return err
	}
	if _, err := m.out.Write(b.Bytes()); err != nil || m.String("into") == "" {
		return err
	}
	document, err := os.ReadFile(m.String("into"))
	if err != nil {
		return err
	}
	if document, err = withSection(document, name, b.Bytes()); err != nil {
		return fmt.Errorf("%s: %w", m.String("into"), err)
	}
	return os.WriteFile(m.String("into"), document, 0o644)
}

// withSection returns the document with another text between the marks of a section.
func withSection(document []byte, name string, text []byte) ([]byte, error) {
	begin, end := "<!-- bench:"+name+" -->\n", "<!-- /bench:"+name+" -->"
	before, rest, found := bytes.Cut(document, []byte(begin))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !found || !ended {
		return nil, fmt.Errorf("there is no section between %q and %q", begin[:len(begin)-1], end)
	}
	return bytes.Join([][]byte{before, []byte(begin + "\n"), bytes.TrimSpace(text), []byte("\n\n" + end), after}, nil), nil
}
