package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpsaga/mcpsaga/codec"
)

const curveNames = "rounds, size, connections, replicas, heap"

// curves runs those that are named, or all.
func curves(ctx context.Context, m measurement) error {
	all := map[string]func(context.Context, measurement, io.Writer) error{
		"rounds": roundsCurve, "size": sizeCurve, "connections": connectionsCurve, "replicas": replicasCurve, "heap": heapCurve,
	}
	names := m.Args().Slice()
	if len(names) == 0 {
		names = strings.Split(curveNames, ", ")
	}
	for _, name := range names {
		if all[name] == nil {
			return fmt.Errorf("there is no curve %q; there are %s", name, curveNames)
		}
	}
	for _, name := range names {
		err := m.section(name, func(out io.Writer) error {
			fmt.Fprintf(out, "\n%s: %s; %d rounds of %d sagas or %d equal turns, %d connections.\n\n", name, where(), m.rounds, m.sagas, m.sagas*turns, m.connections)
			return all[name](ctx, m, out)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// roundsCurve is the cost of the turn that answers the n-th question. In MCP
// 2026-07-28 a client sends the latest answers; in the saga proposal all so far, so
// requests grow there. What that alone costs shows the floor, which reads the same
// requests.
func roundsCurve(ctx context.Context, m measurement, to io.Writer) error {
	server, err := startChild(ctx, "", "mcpsaga")
	if err != nil {
		return err
	}
	defer server.stop()
	floor, err := startChild(ctx, "", "floor")
	if err != nil {
		return err
	}
	defer floor.stop()
	places := []int{1, 2, 3, 4, 6, 8, 12, 16}
	tools := []struct {
		name, tool string
		server     *child
	}{{"floor", "rounds", floor}, {"machine", "rounds", server}, {"flow", "rounds_flow", server}}
	var points []*point
	for _, d := range []*dialect{mrtr, proposal} {
		for _, k := range tools {
			for _, n := range places {
				// More follow, so that the turn measured suspends again.
				turn, err := reach(server, d, k.tool, n+17, 0, n)
				if err != nil {
					return err
				}
				points = append(points, &point{name: k.name + "\t" + d.name, server: k.server, operation: turn})
			}
		}
	}
	if err := m.measure(ctx, m.sagas*turns, points); err != nil {
		return err
	}
	out := newTable("tool", "protocol", "round 1", "2", "3", "4", "6", "8", "12", "16", "8 to 2", "slope to 8", "to 16", "beyond the floor")
	var read float64 // the floor's slope
	for line := range slices.Chunk(points, len(places)) {
		cells, cost := line[0].name, map[int]float64{}
		for i, p := range line {
			cost[places[i]] = median(p.taken, figures.micros)
			cells += fmt.Sprintf("\t%.1fµs", cost[places[i]])
		}
		_, growth, _ := against(line[5].taken, line[1].taken, figures.micros)
		whole := slope(places, cost)
		if line[0].server == floor {
			read = whole
		}
		out.row("%s\t%.2f\t%.3f\t%.3f\t%.3f", cells, growth, slope(places[:6], cost)/cost[2], whole/cost[2], (whole-read)/cost[2])
	}
	return out.print(to)
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
// ten sagas at least, so that to connect is a small part of it.
func connectionsCurve(ctx context.Context, m measurement, to io.Writer) error {
	out := newTable("connections", "CPU/turn", "turns/s", "peak MB")
	for _, n := range []int{1, 4, 16, 64, 256, 1000} {
		taken, _, err := m.fresh(ctx, max(m.sagas, 10*n), n, 0)
		if err != nil {
			return err
		}
		out.row("%d\t%.1fµs\t%.0f\t%.0f", n, median(taken, figures.micros), median(taken, figures.rate), median(taken, megabytes))
	}
	return out.print(to)
}

// replicasCurve runs sagas whose every turn goes to the next of several processes
// that share nothing but the keys. CPU is that of the servers and of the proxy.
func replicasCurve(ctx context.Context, m measurement, to io.Writer) error {
	out := newTable("replicas", "turns/s", "server CPU/turn", "proxy CPU/turn")
	for n := 1; n <= 4; n++ {
		servers, proxy, err := m.fresh(ctx, m.sagas, m.connections, n)
		if err != nil {
			return err
		}
		out.row("%d\t%.0f\t%.1fµs\t%.1fµs", n, median(servers, figures.rate), median(servers, figures.micros), median(proxy, figures.micros))
	}
	return out.print(to)
}

// fresh starts a server in every round, or several behind a proxy, and measures it.
func (m measurement) fresh(ctx context.Context, sagas, connections, replicas int) (servers, proxies []figures, err error) {
	for range m.rounds {
		s, p, err := fresh(ctx, "mcpsaga", proposal, sagas, connections, replicas)
		if err != nil {
			return nil, nil, err
		}
		servers, proxies = append(servers, s), append(proxies, p)
	}
	return servers, proxies, nil
}

// fresh starts a server, or several behind a proxy, warms them up and measures
// them: the servers, and the proxy.
func fresh(ctx context.Context, server string, d *dialect, sagas, connections, replicas int) (servers, proxy figures, err error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return servers, proxy, err
	}
	defer os.RemoveAll(dir)
	keys := filepath.Join(dir, "keys.json")
	if _, err := codec.CreateKeysetFile(keys); err != nil {
		return servers, proxy, err
	}
	var all []*child
	behind := []string{"proxy"}
	for range max(replicas, 1) {
		c, err := startChild(ctx, "", server, keys)
		if err != nil {
			return servers, proxy, err
		}
		defer c.stop()
		all, behind = append(all, c), append(behind, c.work)
	}
	var front usage
	if replicas > 0 {
		c, err := startChild(ctx, "", behind...)
		if err != nil {
			return servers, proxy, err
		}
		defer c.stop()
		all = slices.Insert(all, 0, c)
	}
	if _, err := repeat(ctx, max(sagas/10, 1), connections, whole(d), all...); err != nil {
		return servers, proxy, err
	}
	if front, err = all[0].usage("/"); err != nil {
		return servers, proxy, err
	}
	if servers, err = repeat(ctx, sagas, connections, whole(d), all...); err != nil || replicas == 0 {
		return servers, proxy, err
	}
	after, err := all[0].usage("/")
	proxy = servers
	proxy.used.CPU = after.CPU - front.CPU
	servers.used.CPU -= proxy.used.CPU
	return servers, proxy, err
}

// heapCurve leaves more and more sagas suspended and looks at the server's heap,
// after a collection, and at the most memory that it ever held.
func heapCurve(ctx context.Context, m measurement, to io.Writer) error {
	server, err := startChild(ctx, "", "mcpsaga")
	if err != nil {
		return err
	}
	defer server.stop()
	call, err := reach(server, proposal, "rounds", 3, 0, 0)
	if err != nil {
		return err
	}
	suspended := m.Int("suspended")
	out := newTable("suspended", "heap KB", "growth B", "peak MB")
	var start usage
	// Pools and connections come into being with the first sagas, which do not count.
	for done, next := -10_000, 0; ; done, next = next, min(max(next*10, 10_000), suspended) {
		if _, err := repeat(ctx, next-done, m.connections, call, server); err != nil {
			return err
		}
		u, err := server.usage("/heap")
		if err != nil {
			return err
		}
		if next == 0 {
			start = u
		}
		out.row("%d\t%.0f\t%d\t%.0f", next, float64(u.Heap)/1e3, int64(u.Heap)-int64(start.Heap), float64(u.MaxRSS)/1e6)
		if next >= suspended {
			return out.print(to)
		}
	}
}
