package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
)

const curveNames = "rounds, size, connections, replicas, heap"

// settings are the flags that all curves share.
type settings struct {
	sagas, rounds, connections, suspended int
	out                                   output
}

// curves runs those that are named, or all.
func curves(ctx context.Context, c *cli.Command) error {
	s := settings{c.Int("sagas"), c.Int("rounds"), c.Int("connections"), c.Int("suspended"), outputOf(c)}
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
		err := s.out.section(name, func(out output) error {
			fmt.Fprintf(out, "\n%s: %s; %d rounds of %d sagas or %d equal turns, %d connections.\n\n", name, where(), s.rounds, s.sagas, s.sagas*turns, s.connections)
			s := s
			s.out = out
			return all[name](ctx, s)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// point is one place of a curve: the same turn again and again.
type point struct {
	name   string
	server *child
	turn   replay
	taken  []figures
}

// measure takes every point once in each round, so that all feel the same
// disturbances.
func (s settings) measure(ctx context.Context, points []point) error {
	for round := range s.rounds + 1 {
		for i := range points {
			p := &points[i]
			// A server that has been waiting meanwhile is slow at first.
			if _, err := repeat(ctx, max(s.sagas/4, 1), s.connections, p.turn.once, p.server); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			f, err := repeat(ctx, s.sagas*turns, s.connections, p.turn.once, p.server)
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
// requests grow there. What that alone costs shows the floor, which reads the same
// requests.
func roundsCurve(ctx context.Context, s settings) error {
	server, err := startChild(ctx, "mcpsaga")
	if err != nil {
		return err
	}
	defer server.stop()
	floor, err := startChild(ctx, "floor")
	if err != nil {
		return err
	}
	defer floor.stop()
	places := []int{1, 2, 3, 4, 6, 8, 12, 16}
	kinds := []struct {
		name, tool, protocol string
		server               *child
	}{
		{"floor", "rounds", "mrtr", floor}, {"machine", "rounds", "mrtr", server}, {"flow", "rounds_flow", "mrtr", server},
		{"floor", "rounds", "saga", floor}, {"machine", "rounds", "saga", server}, {"flow", "rounds_flow", "saga", server},
	}
	var points []point
	for _, k := range kinds {
		for _, n := range places {
			// One more, so that the turn measured suspends again.
			turn, err := reach(server, k.protocol, k.tool, n+17, 0, n)
			if err != nil {
				return err
			}
			points = append(points, point{name: fmt.Sprintf("%s, %s, round %d", k.name, k.protocol, n), server: k.server, turn: turn})
		}
	}
	if err := s.measure(ctx, points); err != nil {
		return err
	}
	out := s.out.table("tool", "protocol", "round 1", "2", "3", "4", "6", "8", "12", "16", "8 to 2", "slope to 8", "to 16", "beyond the floor")
	var read float64 // the floor's slope
	for i, k := range kinds {
		line := points[i*len(places):][:len(places)]
		cells := k.name + "\t" + k.protocol
		cost := map[int]float64{}
		for i, p := range line {
			cost[places[i]] = micros(median(p.taken, cpu))
			cells += fmt.Sprintf("\t%.1fµs", cost[places[i]])
		}
		_, growth, _ := quartiles(against(line[5].taken, line[1].taken, func(f figures) float64 { return micros(cpu(f)) }))
		whole := slope(places, cost)
		if k.name == "floor" {
			read = whole
		}
		out.row("%s\t%.2f\t%.3f\t%.3f\t%.3f", cells, growth, slope(places[:6], cost)/cost[2], whole/cost[2], (whole-read)/cost[2])
	}
	return out.flush()
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

// connectionsCurve is the cost of a turn when many clients are connected. Each takes
// several sagas, so that to connect is a small part of it.
func connectionsCurve(ctx context.Context, s settings) error {
	out := s.out.table("connections", "CPU/turn", "turns/s", "peak MB")
	for _, n := range []int{1, 4, 16, 64, 256, 1000} {
		taken, err := s.several(func() (figures, error) {
			return measureOne(ctx, contestant{"mcpsaga", &sagaWork}, max(s.sagas, sagasOfOne*n), n)
		})
		if err != nil {
			return err
		}
		out.row("%d\t%.1fµs\t%.0f\t%.0f", n, micros(median(taken, cpu)), median(taken, figures.rate),
			float64(median(taken, func(f figures) uint64 { return f.maxRSS }))/1e6)
	}
	return out.flush()
}

// sagasOfOne is how many sagas each of many connections takes at least.
const sagasOfOne = 10

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
