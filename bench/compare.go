package main

import (
	"context"
	"errors"
	"fmt"
)

// contestants are what is compared. The floor of a dialect comes before the servers that are
// compared with it. The SDK does not speak the proposal.
var contestants = []struct {
	server string
	*dialect
	ours bool
}{
	{"floor", proposal, false}, {"mcpsaga", proposal, true}, {"mcpsaga-flow", proposal, true},
	{"floor", mrtr, false}, {"mcpsaga", mrtr, true}, {"mcpsaga-flow", mrtr, true}, {"mounted", mrtr, true}, {"go-sdk", mrtr, false},
}

// compare keeps all servers running and gives each a short load in turn, round after
// round. With a base, each of ours is followed by what it was there.
func compare(ctx context.Context, m measurement) string {
	base := m.String("base")
	if base != "" && m.String("into") != "" {
		check(errors.New("documents show this build alone: give --base or --into"))
	}
	var points []*point
	last := make(map[string]*point) // by server
	for _, c := range contestants {
		add := func(name, program string) {
			p := m.point(name, whole(c.dialect), startChild(ctx, program, c.server))
			last[name] = p
			p.kind, p.floor = c.name, last["floor"]
			points = append(points, p)
		}
		if add(c.server, ""); base != "" && c.ours {
			add("base of "+c.server, base)
		}
	}
	text := m.table(ctx, points, "server\tprotocol\tCPU/turn\t× floor\tquartiles\tturns/s\tallocs/turn\tB/turn\tpeak MB\ttoken", func(p *point) string {
		return fmt.Sprintf("%s\t%s\t%.1fµs\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f", p.name, p.kind, p.median(cpu), p.ratio(cpu, "%.2f\t%.2f–%.2f", p.floor),
			p.median(rate), p.median(allocations), p.median(allocated), p.median(peak), p.median(token))
	})
	for i, p := range points[1:] {
		if ours := points[i]; p.name == "base of "+ours.name {
			text += ours.ratio(cpu, "\n"+ours.name+", "+p.kind+": %.3f of the base's CPU time per turn (quartiles %.3f–%.3f).\n", p)
		}
	}
	return text + last["mcpsaga"].ratio(rate, "\nmcpsaga answers %.1f times as many turns per second as go-sdk (quartiles %.1f–%.1f).\n", last["go-sdk"])
}
