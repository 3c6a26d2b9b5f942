package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mcpsaga/mcpsaga/codec"
)

var growth = []curve{{"rounds", roundsCurve, 0}, {"size", sizeCurve, 0}, {"connections", connectionsCurve, 0}, {"replicas", replicasCurve, 0}, {"heap", heapCurve, 0}}

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
func roundsCurve(ctx context.Context, m measurement) string {
	server, floor := startChild(ctx, "", "mcpsaga"), startChild(ctx, "", "floor")
	places := []int{1, 2, 3, 4, 6, 8, 12, 16}
	var points []*point
	for _, d := range []*dialect{mrtr, proposal} {
		for _, row := range []struct {
			name, tool string
			server     *child
		}{{"floor", "rounds", floor}, {"machine", "rounds", server}, {"flow", "rounds_flow", server}} {
			for _, n := range places {
				// More follow, so that the turn measured suspends again.
				p := m.point(row.name, reach(server, d, row.tool, n+17, 0, n), row.server)
				p.kind = d.name
				points = append(points, p)
			}
		}
	}
	m.measure(ctx, points)
	var rows []string
	for ; len(points) > 0; points = points[len(places):] {
		row, cost := points[0].name+"\t"+points[0].kind, map[int]float64{}
		for i, n := range places {
			cost[n] = points[i].median(cpu)
			row += fmt.Sprintf("\t%.1fµs", cost[n])
		}
		rows = append(rows, fmt.Sprintf("%s\t%.3f\t%.3f", row, slope(places[:6], cost)/cost[2], slope(places, cost)/cost[2]))
	}
	return table("tool\tprotocol\tround 1\t2\t3\t4\t6\t8\t12\t16\tslope to 8\tto 16", rows...)
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
func sizeCurve(ctx context.Context, m measurement) string {
	server := startChild(ctx, "", "mcpsaga")
	var points []*point
	for _, n := range []int{1 << 10, 4 << 10, 16 << 10, 64 << 10, largest} {
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
func connectionsCurve(ctx context.Context, m measurement) string {
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
func replicasCurve(ctx context.Context, m measurement) string {
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
func heapCurve(ctx context.Context, m measurement) string {
	server := startChild(ctx, "", "mcpsaga")
	var start uint64
	return m.growing(ctx, m.point("heap", reach(server, proposal, "rounds", 3, 0, 0), server), "suspended\theap KB\tgrowth B\tpeak MB", func(n int, u usage) string {
		if n == 0 {
			start = u.Heap
		}
		return fmt.Sprintf("%d\t%.0f\t%d\t%.0f", n, float64(u.Heap)/1e3, int64(u.Heap)-int64(start), float64(u.MaxRSS)/1e6)
	})
}

// growing does an operation of one turn as often as the flag says that has the first head's name, and has a
// row of cells for what the server has used on the way.
func (m measurement) growing(ctx context.Context, p *point, heads string, cells func(n int, u usage) string) string {
	var rows []string
	flag, _, _ := strings.Cut(heads, "\t")
	// Pools and connections come into being with the first sagas, which do not count.
	for done, next, all := -10_000, 0, m.Int(flag); done < all; done, next = next, min(max(next*10, 10_000), all) {
		p.repeat(ctx, next-done)
		rows = append(rows, cells(next, p.servers[0].usage("/heap")))
	}
	return table(heads, rows...)
}
