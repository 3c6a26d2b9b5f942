package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"
)

const curveNames = "rounds, size, connections, replicas, heap"

// settings are the flags that all curves share.
type settings struct {
	sagas, rounds, connections, suspended int
	out                                   io.Writer
}

// curves runs those that are named, or all.
func curves(ctx context.Context, c *cli.Command) error {
	s := settings{c.Int("sagas"), c.Int("rounds"), c.Int("connections"), c.Int("suspended"), c.Root().Writer}
	all := map[string]func(context.Context, settings) error{
		"rounds": roundsCurve, "size": sizeCurve, "connections": connectionsCurve, "replicas": replicasCurve, "heap": heapCurve,
	}
	names := c.Args().Slice()
	if len(names) == 0 {
		names = strings.Split(curveNames, ", ")
	}
	for _, name := range names {
		if all[name] == nil {
			return fmt.Errorf("there is no curve %q; there are %s", name, curveNames)
		}
	}
	for _, name := range names {
		fmt.Fprintf(s.out, "\n%s\n", name)
		if err := all[name](ctx, s); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (s settings) table(heads ...string) *tabwriter.Writer {
	out := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, strings.Join(heads, "\t")+"\t")
	return out
}

// point is one place of a curve: the same turn again and again.
type point struct {
	name  string
	turn  replay
	taken []figures
}

// measure takes every point once in each round, so that all feel the same
// disturbances.
func (s settings) measure(ctx context.Context, server *child, points []point) error {
	for round := range s.rounds + 1 {
		for i := range points {
			p := &points[i]
			f, err := repeat(ctx, s.sagas, s.connections, p.turn.once, server)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if round > 0 { // the first warms up
				p.taken = append(p.taken, f)
			}
		}
	}
	return nil
}

// roundsCurve is the cost of the turn that answers the n-th question. In MCP
// 2026-07-28 a client sends the latest answers; in the saga proposal all so far, so
// requests grow there.
func roundsCurve(ctx context.Context, s settings) error {
	server, err := startChild(ctx, "mcpsaga")
	if err != nil {
		return err
	}
	defer server.stop()
	places := []int{1, 2, 3, 4, 6, 8, 12, 16}
	kinds := []struct{ name, tool, protocol string }{
		{"machine", "rounds", "mrtr"}, {"flow", "rounds_flow", "mrtr"}, {"machine", "rounds", "saga"}, {"flow", "rounds_flow", "saga"},
	}
	out := s.table("tool", "protocol", "round 1", "2", "3", "4", "6", "8", "12", "16", "8 to 2", "slope")
	for _, k := range kinds {
		points := make([]point, len(places))
		for i, n := range places {
			// One more, so that the turn measured suspends again.
			turn, err := reach(server, k.protocol, k.tool, n+17, 0, n)
			if err != nil {
				return err
			}
			points[i] = point{name: fmt.Sprintf("%s, %s, round %d", k.name, k.protocol, n), turn: turn}
		}
		if err := s.measure(ctx, server, points); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\t%s", k.name, k.protocol)
		cost := map[int]float64{}
		for i, p := range points {
			cost[places[i]] = micros(median(p.taken, cpu))
			fmt.Fprintf(out, "\t%.1fµs", cost[places[i]])
		}
		fmt.Fprintf(out, "\t%.2f\t%.3f\t\n", cost[8]/cost[2], slope(places, cost)/cost[2])
	}
	return out.Flush()
}

// slope is that of the line with the least squares through a curve.
func slope(places []int, cost map[int]float64) float64 {
	var n, x, y, xx, xy float64
	for _, p := range places {
		n, x, y = n+1, x+float64(p), y+cost[p]
		xx, xy = xx+float64(p*p), xy+float64(p)*cost[p]
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

// connectionsCurve is the cost of a turn when many clients are connected.
func connectionsCurve(ctx context.Context, s settings) error {
	out := s.table("connections", "CPU/turn", "turns/s", "peak MB")
	for _, n := range []int{1, 4, 16, 64, 256, 1000} {
		taken, err := s.several(func() (figures, error) { return measureOne(ctx, contestant{"mcpsaga", &sagaWork}, s.sagas, n) })
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%d\t%.1fµs\t%.0f\t%.0f\t\n", n, micros(median(taken, cpu)), median(taken, figures.rate),
			float64(median(taken, func(f figures) uint64 { return f.maxRSS }))/1e6)
	}
	return out.Flush()
}

func (s settings) several(f func() (figures, error)) ([]figures, error) {
	var taken []figures
	for range s.rounds {
		one, err := f()
		if err != nil {
			return nil, err
		}
		taken = append(taken, one)
	}
	return slices.Clip(taken), nil
}
