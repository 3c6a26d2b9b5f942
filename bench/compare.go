package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"
)

// contestant is a server with a protocol.
type contestant struct {
	server string
	work   *work
}

// The floors come first: the others are compared with them.
var contestants = []contestant{
	{"floor", &sagaWork}, {"mcpsaga", &sagaWork}, {"mcpsaga-flow", &sagaWork},
	{"floor", &mrtrWork}, {"mcpsaga", &mrtrWork}, {"mcpsaga-flow", &mrtrWork}, {"go-sdk", &mrtrWork},
}

func compare(ctx context.Context, c *cli.Command) error {
	sagas, rounds, connections := c.Int("sagas"), c.Int("rounds"), c.Int("connections")
	results := make([][]figures, len(contestants))
	for round := range rounds {
		for i, who := range contestants {
			f, err := measureOne(ctx, who, sagas, connections)
			if err != nil {
				return fmt.Errorf("%s, %s, round %d: %w", who.server, who.work.name, round+1, err)
			}
			results[i] = append(results[i], f)
		}
	}
	report(c.Root().Writer, results)
	return nil
}

// measureOne starts a server of its own, warms it up and measures it.
func measureOne(ctx context.Context, who contestant, sagas, connections int) (figures, error) {
	server, err := startChild(ctx, who.server)
	if err != nil {
		return figures{}, err
	}
	defer server.stop()
	if _, err := load(ctx, who.work, max(sagas/10, 1), connections, server); err != nil {
		return figures{}, err
	}
	return load(ctx, who.work, sagas, connections, server)
}

// median is the median over rounds of a figure.
func median[T cmp.Ordered](all []figures, f func(figures) T) T {
	values := make([]T, len(all))
	for i, x := range all {
		values[i] = f(x)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// spread is the least and the most over rounds of the CPU time per turn.
func spread(all []figures) (least, most time.Duration) {
	byCost := func(a, b figures) int { return cmp.Compare(a.cpuPerTurn(), b.cpuPerTurn()) }
	return slices.MinFunc(all, byCost).cpuPerTurn(), slices.MaxFunc(all, byCost).cpuPerTurn()
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func report(to io.Writer, results [][]figures) {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "server\tprotocol\tCPU/turn\tspread\t× floor\tturns/s\tsagas/s\tallocs/turn\tB/turn\tpeak MB\ttoken\t")
	floor := map[string]time.Duration{}
	for i, who := range contestants {
		r := results[i]
		cpu := median(r, figures.cpuPerTurn)
		if who.server == "floor" {
			floor[who.work.name] = cpu
		}
		least, most := spread(r)
		rate := median(r, figures.rate)
		fmt.Fprintf(out, "%s\t%s\t%.1fµs\t%.1f–%.1f\t%.2f\t%.0f\t%.0f\t%d\t%d\t%.0f\t%d\t\n",
			who.server, who.work.name, micros(cpu), micros(least), micros(most),
			float64(cpu)/float64(max(floor[who.work.name], 1)), rate, rate/turns,
			median(r, func(f figures) uint64 { return f.used.Mallocs / uint64(f.turns) }),
			median(r, func(f figures) uint64 { return f.used.Bytes / uint64(f.turns) }),
			float64(median(r, func(f figures) uint64 { return f.maxRSS }))/1e6,
			median(r, func(f figures) int { return f.token }))
	}
	out.Flush()
	ratios(to, results)
}

// ratios prints what the targets are about.
func ratios(to io.Writer, results [][]figures) {
	rate := func(server, protocol string) float64 {
		for i, who := range contestants {
			if who.server == server && who.work.name == protocol {
				return median(results[i], figures.rate)
			}
		}
		return 0
	}
	fmt.Fprintf(to, "mcpsaga answers %.1f times as many turns per second as go-sdk.\n", rate("mcpsaga", "mrtr")/rate("go-sdk", "mrtr"))
}
