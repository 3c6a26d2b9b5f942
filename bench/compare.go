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
func compare(ctx context.Context, m measurement) {
	base := m.String("base")
	if base != "" && m.String("into") != "" {
		check(errors.New("documents show this build alone: give --base or --into"))
	}
	var points []*point
	var floor, machine *point
	for _, c := range contestants {
		p := m.point(c.server, whole(c.dialect), startChild(ctx, "", c.server))
		switch c.server {
		case "floor":
			floor = p
		case "mcpsaga":
			machine = p
		}
		p.kind, p.floor = c.name, floor
		points = append(points, p)
		if base != "" && c.ours {
			then := m.point("base of "+c.server, whole(c.dialect), startChild(ctx, base, c.server))
			then.kind, then.floor, then.later = c.name, floor, p
			points = append(points, then)
		}
	}
	t := m.table(ctx, points, "server\tprotocol\tCPU/turn\t× floor\tquartiles\tturns/s\tallocs/turn\tB/turn\tpeak MB\ttoken", func(p *point) string {
		return fmt.Sprintf("%s\t%s\t%.1fµs\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f", p.name, p.kind, p.median(cpu), ratio(cpu, "%.2f\t%.2f–%.2f", p, p.floor),
			p.median(rate), p.median(allocations), p.median(allocated), p.median(peak), p.median(token))
	})
	lines := ""
	for _, p := range points {
		if p.later != nil {
			lines += ratio(cpu, p.later.name+", "+p.kind+": %.3f of the base's CPU time per turn (quartiles %.3f–%.3f).\n\n", p.later, p)
		}
		if p.name == "go-sdk" {
			lines += ratio(rate, "mcpsaga answers %.1f times as many turns per second as go-sdk (quartiles %.1f–%.1f).", machine, p)
		}
	}
	m.section("compare", fmt.Sprintf("%s; %d rounds of %d sagas for each server and protocol, %d connections.\n", where(), m.rounds, m.sagas, m.connections), t, lines)
}
