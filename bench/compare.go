package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// contestant is a server with a dialect, of this build or, if program is set, of
// another.
type contestant struct {
	point
	*dialect
	program, kind string
}

// contestants are what is compared, in both dialects. The floors come first: the
// others are compared with them. With a base, ours are followed by what they were there.
func contestants(base string) (all []*contestant) {
	for _, d := range []*dialect{proposal, mrtr} {
		for _, kind := range []string{"floor", "mcpsaga", "mcpsaga-flow", "mounted", "go-sdk"} {
			if d == proposal && (kind == "mounted" || kind == "go-sdk") {
				continue // the SDK does not speak it
			}
			all = append(all, &contestant{point{name: kind, operation: whole(d)}, d, "", kind})
			if base != "" && kind != "floor" && kind != "go-sdk" {
				all = append(all, &contestant{point{name: "base of " + kind, operation: whole(d)}, d, base, kind})
			}
		}
	}
	return all
}

// compare keeps all servers running and gives each a short load in turn, round after
// round.
func compare(ctx context.Context, m measurement) error {
	if m.String("base") != "" && m.String("into") != "" {
		return errors.New("documents show this build alone: give --base or --into")
	}
	all := contestants(m.String("base"))
	points := make([]*point, len(all))
	for i, who := range all {
		var err error
		if who.server, err = startChild(ctx, who.program, who.kind); err != nil {
			return err
		}
		defer who.server.stop()
		points[i] = &who.point
	}
	if err := m.measure(ctx, m.sagas*turns, points); err != nil {
		return err
	}
	return m.section("compare", func(out io.Writer) error {
		fmt.Fprintf(out, "%s; %d rounds of %d sagas for each server and protocol, %d connections.\n\n", where(), m.rounds, m.sagas, m.connections)
		return report(out, all)
	})
}

func report(to io.Writer, all []*contestant) error {
	of := func(name string, d *dialect) []figures {
		return all[slices.IndexFunc(all, func(c *contestant) bool { return c.point.name == name && c.dialect == d })].taken
	}
	least := func(r []figures) float64 { return slices.Min(mapped(r, figures.micros)) }
	out := newTable("server", "protocol", "CPU/turn", "least", "× floor", "quartiles", "of leasts", "turns/s", "sagas/s", "allocs/turn", "B/turn", "peak MB", "token")
	for _, who := range all {
		r, floor := who.taken, of("floor", who.dialect)
		low, middle, high := against(r, floor, figures.micros)
		rate := median(r, figures.rate)
		out.row("%s\t%s\t%.1fµs\t%.1fµs\t%.2f\t%.2f–%.2f\t%.2f\t%.0f\t%.0f\t%d\t%d\t%.0f\t%d",
			who.point.name, who.dialect.name, median(r, figures.micros), least(r), middle, low, high, least(r)/least(floor), rate, rate/turns,
			median(r, func(f figures) uint64 { return f.used.Mallocs / uint64(f.turns) }),
			median(r, func(f figures) uint64 { return f.used.Bytes / uint64(f.turns) }),
			median(r, megabytes), median(r, func(f figures) int { return f.token }))
	}
	if err := out.print(to); err != nil {
		return err
	}
	for _, who := range all {
		if who.program != "" {
			low, middle, high := against(of(who.kind, who.dialect), who.taken, figures.micros)
			fmt.Fprintf(to, "%s, %s: %.3f of the base's CPU time per turn (quartiles %.3f–%.3f).\n\n", who.kind, who.dialect.name, middle, low, high)
		}
	}
	low, middle, high := against(of("mcpsaga", mrtr), of("go-sdk", mrtr), figures.rate)
	_, err := fmt.Fprintf(to, "mcpsaga answers %.1f times as many turns per second as go-sdk (quartiles %.1f–%.1f).\n", middle, low, high)
	return err
}
