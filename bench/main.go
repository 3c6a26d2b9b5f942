package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"
)

func main() {
	app := &cli.Command{
		Name:  "bench",
		Usage: "compare the cost of a saga's turns on this server and its peers",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "sagas", Usage: "sagas per server and round", Value: 10_000},
			&cli.IntFlag{Name: "rounds", Usage: "rounds; the median is shown", Value: 5},
			&cli.IntFlag{Name: "connections", Usage: "connections at once", Value: 8},
		},
		Action: compare,
		Commands: []*cli.Command{
			{Name: "child", Hidden: true, Action: func(_ context.Context, c *cli.Command) error { return serveChild(c.Args().First()) }},
		},
	}
	if err := app.Run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// contestant is a server with a protocol.
type contestant struct {
	server string
	work   *work
}

var contestants = []contestant{
	{"floor", &sagaWork}, {"mcpsaga", &sagaWork}, {"floor", &mrtrWork}, {"mcpsaga", &mrtrWork}, {"go-sdk", &mrtrWork},
}

func compare(_ context.Context, c *cli.Command) error {
	sagas, rounds, connections := c.Int("sagas"), c.Int("rounds"), c.Int("connections")
	if sagas < 1 || rounds < 1 || connections < 1 {
		return errors.New("sagas, rounds and connections must be at least 1")
	}
	results := make([][]figures, len(contestants))
	for round := range rounds {
		for i, who := range contestants {
			f, err := measureOne(who, sagas, connections)
			if err != nil {
				return fmt.Errorf("%s, %s, round %d: %w", who.server, who.work.name, round+1, err)
			}
			results[i] = append(results[i], f)
		}
	}
	report(results)
	return nil
}

// measureOne starts a server of its own, warms it up and measures it.
func measureOne(who contestant, sagas, connections int) (figures, error) {
	server, err := startChild(who.server)
	if err != nil {
		return figures{}, err
	}
	defer server.stop()
	if _, err := load(server, who.work, max(sagas/10, 1), connections); err != nil {
		return figures{}, err
	}
	return load(server, who.work, sagas, connections)
}

// perTurn is the median over rounds of a figure per turn.
func median[T cmp.Ordered](all []figures, f func(figures) T) T {
	values := make([]T, len(all))
	for i, x := range all {
		values[i] = f(x)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func cpuPerTurn(f figures) time.Duration { return f.used.CPU / time.Duration(f.sagas*turns) }

func report(results [][]figures) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "server\tprotocol\tCPU/turn\t× floor\tturns/s\tsagas/s\tallocs/turn\tB/turn\tpeak MB\ttoken\t")
	floor := map[string]time.Duration{}
	for i, who := range contestants {
		r := results[i]
		cpu := median(r, cpuPerTurn)
		if who.server == "floor" {
			floor[who.work.name] = cpu
		}
		rate := median(r, func(f figures) float64 { return float64(f.sagas) / f.elapsed.Seconds() })
		fmt.Fprintf(out, "%s\t%s\t%.1fµs\t%.2f\t%.0f\t%.0f\t%d\t%d\t%.0f\t%d\t\n",
			who.server, who.work.name, float64(cpu.Nanoseconds())/1000, float64(cpu)/float64(floor[who.work.name]), rate*turns, rate,
			median(r, func(f figures) uint64 { return f.used.Mallocs / uint64(f.sagas*turns) }),
			median(r, func(f figures) uint64 { return f.used.Bytes / uint64(f.sagas*turns) }),
			float64(median(r, func(f figures) uint64 { return f.maxRSS }))/1e6,
			median(r, func(f figures) int { return f.token }))
	}
	out.Flush()
}
