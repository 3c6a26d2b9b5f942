package main

import (
	"context"
	"fmt"
)

// contestants are the servers whose turns are compared with those of the first. The SDK does not
// speak the proposal.
var contestants = []struct {
	server string
	*dialect
	ours bool
}{
	{"go-sdk", mrtr, false}, {"mounted", mrtr, true},
	{"mcpsaga", mrtr, true}, {"mcpsaga-flow", mrtr, true}, {"mcpsaga", proposal, true}, {"mcpsaga-flow", proposal, true},
}

// turnsTable compares what a turn costs. With a base, each server of ours is followed by
// the same server of that build.
func turnsTable(ctx context.Context, m measurement) string {
	var points []*point
	for _, c := range contestants {
		add := func(name, program string) {
			p := m.point(name, c.name, whole(c.dialect), startChild(ctx, program, c.server))
			p.round *= turns
			points = append(points, p)
		}
		if add(c.server, ""); m.base != "" && c.ours {
			add("base of "+c.server, m.base)
		}
	}
	return m.table(ctx, points, "server\tprotocol\tCPU/turn\t× go-sdk\tquartiles\tturns/s\tallocs/turn\tB/turn\tpeak MB\ttoken", func(p *point) string {
		return fmt.Sprintf("%s\t%s\t%.1fµs\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f", p.name, p.kind, p.median(cpu), p.ratio(cpu, "%.3f\t%.3f–%.3f", points[0]),
			p.median(rate), p.median(allocations), p.median(allocated), p.median(peak), p.median(token))
	})
}
