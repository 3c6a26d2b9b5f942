package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
	{"floor", &mrtrWork}, {"mcpsaga", &mrtrWork}, {"mcpsaga-flow", &mrtrWork},
	{"mounted", &mrtrWork}, {"go-sdk", &mrtrWork},
}

// compare keeps all servers running and gives each a short load in turn, round after
// round: so what else the machine does disturbs all of them alike.
func compare(ctx context.Context, c *cli.Command) error {
	sagas, rounds, connections := c.Int("sagas"), c.Int("rounds"), c.Int("connections")
	running := make([]*child, len(contestants))
	for i, who := range contestants {
		var err error
		if running[i], err = startChild(ctx, who.server); err != nil {
			return err
		}
		defer running[i].stop()
	}
	results := make([][]figures, len(contestants))
	for round := range rounds + 1 {
		for i, who := range contestants {
			f, err := load(ctx, who.work, sagas, connections, running[i])
			if err != nil {
				return fmt.Errorf("%s, %s, round %d: %w", who.server, who.work.name, round, err)
			}
			if round > 0 { // the first warms up
				results[i] = append(results[i], f)
			}
		}
	}
	return outputOf(c).section("compare", func(out output) error {
		fmt.Fprintf(out, "%s; %d rounds of %d sagas for each server and protocol, %d connections.\n\n", where(), rounds, sagas, connections)
		return report(out, results)
	})
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
	values := mapped(all, f)
	slices.Sort(values)
	return values[len(values)/2]
}

func cpu(f figures) time.Duration { return f.cpuPerTurn() }

// quartiles are the values that a quarter and three quarters of a list do not
// exceed, and the one in the middle.
func quartiles(values []float64) (low, middle, high float64) {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return values[n/4], values[n/2], values[min(n*3/4, n-1)]
}

// against divides a figure by another's in the same round.
func against(a, b []figures, f func(figures) float64) []float64 {
	list := make([]float64, len(a))
	for i := range a {
		list[i] = f(a[i]) / f(b[i])
	}
	return list
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func report(to output, results [][]figures) error {
	out := to.table("server", "protocol", "CPU/turn", "least", "× floor", "quartiles", "of leasts", "turns/s", "sagas/s", "allocs/turn", "B/turn", "peak MB", "token")
	least := func(r []figures) time.Duration { return slices.Min(mapped(r, cpu)) }
	for i, who := range contestants {
		r, floor := results[i], results[indexOf("floor", who.work.name)]
		low, middle, high := quartiles(against(r, floor, func(f figures) float64 { return micros(cpu(f)) }))
		rate := median(r, figures.rate)
		out.row("%s\t%s\t%.1fµs\t%.1fµs\t%.2f\t%.2f–%.2f\t%.2f\t%.0f\t%.0f\t%d\t%d\t%.0f\t%d",
			who.server, who.work.name, micros(median(r, cpu)), micros(least(r)), middle, low, high,
			micros(least(r))/micros(least(floor)), rate, rate/turns,
			median(r, func(f figures) uint64 { return f.used.Mallocs / uint64(f.turns) }),
			median(r, func(f figures) uint64 { return f.used.Bytes / uint64(f.turns) }),
			float64(median(r, func(f figures) uint64 { return f.maxRSS }))/1e6,
			median(r, func(f figures) int { return f.token }))
	}
	if err := out.flush(); err != nil {
		return err
	}
	low, middle, high := quartiles(against(results[indexOf("mcpsaga", "mrtr")], results[indexOf("go-sdk", "mrtr")], figures.rate))
	_, err := fmt.Fprintf(to, "mcpsaga answers %.1f times as many turns per second as go-sdk (quartiles %.1f–%.1f).\n", middle, low, high)
	return err
}

func indexOf(server, protocol string) int {
	return slices.IndexFunc(contestants, func(c contestant) bool { return c.server == server && c.work.name == protocol })
}

func mapped[T any](all []figures, f func(figures) T) []T {
	out := make([]T, len(all))
	for i, x := range all {
		out[i] = f(x)
	}
	return out
}
