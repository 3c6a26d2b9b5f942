package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpsaga/mcpsaga/codec"
)

// curve is a table that shows how something grows. Connections are how many it is measured on; 0 is
// what the flag says.
type curve struct {
	name        string
	run         func(context.Context, measurement) *table
	connections int
}

var growth = []curve{{"rounds", roundsCurve, 0}, {"size", sizeCurve, 0}, {"connections", connectionsCurve, 0}, {"replicas", replicasCurve, 0}, {"heap", heapCurve, 0}}

func namesOf(list []curve) (names []string) {
	for _, c := range list {
		names = append(names, c.name)
	}
	return names
}

// some runs the curves that are named, or all.
func some(list []curve) func(context.Context, measurement) {
	return func(ctx context.Context, m measurement) {
		for _, name := range m.Args().Slice() {
			if !slices.Contains(namesOf(list), name) {
				fail("there is no curve %q; there are %s", name, strings.Join(namesOf(list), ", "))
			}
		}
		for _, c := range list {
			if m.Args().Present() && !slices.Contains(m.Args().Slice(), c.name) {
				continue
			}
			m := m
			m.connections = cmp.Or(c.connections, m.connections)
			t := m.alone(ctx, c.run)
			m.section(c.name, fmt.Sprintf("\n%s: %s; %d rounds of %d sagas or %d equal turns, %d connections.\n", c.name, where(), m.rounds, m.sagas, m.sagas*turns, m.connections), t)
		}
	}
}

// alone runs a curve, and then ends its servers and cleans up after it.
func (m measurement) alone(ctx context.Context, run func(context.Context, measurement) *table) *table {
	ctx, stop := context.WithCancel(ctx)
	var ends []func()
	m.cleanup = func(f func()) { ends = append(ends, f) }
	defer func() {
		stop()
		for _, f := range slices.Backward(ends) {
			f()
		}
	}()
	return run(ctx, m)
}

// tempDir is a directory that is removed in the end.
func (m measurement) tempDir() string {
	dir := must(os.MkdirTemp("", "bench"))
	m.cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// roundsCurve is the cost of the turn that answers the n-th question. In MCP
// 2026-07-28 a client sends the latest answers; in the saga proposal all so far, so
// requests grow there. What that alone costs shows the floor, which reads the same
// requests.
func roundsCurve(ctx context.Context, m measurement) *table {
	server, floor := startChild(ctx, "", "mcpsaga"), startChild(ctx, "", "floor")
	places, tools := []int{1, 2, 3, 4, 6, 8, 12, 16}, []string{"floor", "machine", "flow"}
	var points []*point
	for _, d := range []*dialect{mrtr, proposal} {
		for _, n := range places {
			// More follow, so that the turn measured suspends again.
			machine, flow := reach(server, d, "rounds", n+17, 0, n), reach(server, d, "rounds_flow", n+17, 0, n)
			points = append(points, m.point("floor", machine, floor), m.point("machine", machine, server), m.point("flow", flow, server))
		}
	}
	m.measure(ctx, points)
	out := newTable("tool\tprotocol\tround 1\t2\t3\t4\t6\t8\t12\t16\tslope to 8\tto 16")
	for i, d := range []*dialect{mrtr, proposal} {
		for k, name := range tools {
			cells, cost := "", map[int]float64{}
			for j, n := range places {
				cost[n] = points[(i*len(places)+j)*len(tools)+k].median(cpu)
				cells += fmt.Sprintf("\t%.1fµs", cost[n])
			}
			out.row("%s\t%s%s\t%.3f\t%.3f", name, d.name, cells, slope(places[:6], cost)/cost[2], slope(places, cost)/cost[2])
		}
	}
	return out
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

// largest leaves room for what a position holds besides the tool's state.
const largest = 255 << 10

// sizeCurve is the cost of a turn whose state has so many bytes.
func sizeCurve(ctx context.Context, m measurement) *table {
	server, sizes := startChild(ctx, "", "mcpsaga"), []int{1 << 10, 4 << 10, 16 << 10, 64 << 10, largest}
	var points []*point
	for _, n := range sizes {
		p := m.point(strconv.Itoa(n), reach(server, proposal, "rounds", 3, n, 1), server)
		p.round = max(m.sagas/20, 1) * turns
		points = append(points, p)
	}
	return m.table(ctx, points, "state B\tCPU/turn\tns/B\ttoken", func(p *point) string {
		bytes := must(strconv.ParseFloat(p.name, 64))
		return fmt.Sprintf("%s\t%.0fµs\t%.1f\t%.0f", p.name, p.median(cpu), p.median(cpu)*1000/bytes, p.median(token))
	})
}

// connectionsCurve is the cost of a turn when many clients are connected, each number
// of them to a server of its own. Each takes ten sagas at least, so that to connect is
// a small part of it.
func connectionsCurve(ctx context.Context, m measurement) *table {
	var points []*point
	for _, n := range []int{1, 4, 16, 64, 256, 1000} {
		p := m.point(strconv.Itoa(n), whole(proposal), startChild(ctx, "", "mcpsaga"))
		p.connections, p.round = n, max(m.sagas, 10*n)*turns
		points = append(points, p)
	}
	return m.table(ctx, points, "connections\tCPU/turn\tturns/s\tpeak MB", func(p *point) string {
		return fmt.Sprintf("%s\t%.1fµs\t%.0f\t%.0f", p.name, p.median(cpu), p.median(rate), p.median(peak))
	})
}

// replicasCurve runs sagas whose every turn goes to the next of several processes
// that share nothing but the keys.
func replicasCurve(ctx context.Context, m measurement) *table {
	keys := filepath.Join(m.tempDir(), "keys.json")
	must(codec.CreateKeysetFile(keys))
	var points []*point
	for n := 1; n <= 4; n++ {
		p, behind := m.point(strconv.Itoa(n), whole(proposal)), []string{"proxy"}
		for range n {
			c := startChild(ctx, "", "mcpsaga", keys)
			p.servers, behind = append(p.servers, c), append(behind, c.work)
		}
		p.proxy = startChild(ctx, "", behind...)
		points = append(points, p)
	}
	return m.table(ctx, points, "replicas\tturns/s\tserver CPU/turn\tproxy CPU/turn", func(p *point) string {
		return fmt.Sprintf("%s\t%.0f\t%.1fµs\t%.1fµs", p.name, p.median(rate), p.median(cpu), p.median(proxyCPU))
	})
}

// heapCurve leaves more and more sagas suspended and looks at the server's heap,
// after a collection, and at the most memory that it ever held.
func heapCurve(ctx context.Context, m measurement) *table {
	server := startChild(ctx, "", "mcpsaga")
	p := m.point("heap", reach(server, proposal, "rounds", 3, 0, 0), server)
	out := newTable("suspended\theap KB\tgrowth B\tpeak MB")
	var start uint64
	m.grow(ctx, p, "suspended", func(n int, u usage) {
		if n == 0 {
			start = u.Heap
		}
		out.row("%d\t%.0f\t%d\t%.0f", n, float64(u.Heap)/1e3, int64(u.Heap)-int64(start), float64(u.MaxRSS)/1e6)
	})
	return out
}

// grow does an operation of one turn as often as the flag says, and looks at the server on the way.
func (m measurement) grow(ctx context.Context, p *point, flag string, look func(n int, u usage)) {
	// Pools and connections come into being with the first sagas, which do not count.
	for done, next, all := -10_000, 0, m.Int(flag); done < all; done, next = next, min(max(next*10, 10_000), all) {
		must(p.repeat(ctx, next-done))
		look(next, p.servers[0].usage("/heap"))
	}
}
