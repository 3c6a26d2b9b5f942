package main

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// contestant is a server with a dialect, and what was measured of it.
type contestant struct {
	name string
	*dialect
	program, server string // of another build, unless program is empty
	running         *child
	taken           []figures
}

// contestants are what is compared, in both dialects. The floors come first: the
// others are compared with them. With a base, ours follow as they were there.
func contestants(base string) (all []*contestant) {
	for _, d := range []*dialect{proposal, mrtr} {
		for _, server := range []string{"floor", "mcpsaga", "mcpsaga-flow", "mounted", "go-sdk"} {
			if d == proposal && (server == "mounted" || server == "go-sdk") {
				continue // the SDK does not speak it
			}
			all = append(all, &contestant{name: server, dialect: d, server: server})
			if base != "" && server != "floor" && server != "go-sdk" {
				all = append(all, &contestant{name: "base of " + server, dialect: d, program: base, server: server})
			}
		}
	}
	return all
}

// compare keeps all servers running and gives each a short load in turn, round after
// round: so what else the machine does disturbs all of them alike.
func compare(ctx context.Context, m measurement) error {
	all := contestants(m.String("base"))
	for _, who := range all {
		var err error
		if who.running, err = startChild(ctx, who.program, who.server); err != nil {
			return err
		}
		defer who.running.stop()
	}
	for round := range m.rounds + 1 {
		for _, who := range all {
			f, err := load(ctx, who.dialect, m.sagas, m.connections, who.running)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", who.name, round, err)
			}
			if round > 0 { // the first warms up
				who.taken = append(who.taken, f)
			}
		}
		slices.Reverse(all) // nobody always follows the same
	}
	if m.rounds%2 == 0 {
		slices.Reverse(all)
	}
	return m.section("compare", func(out io.Writer) error {
		fmt.Fprintf(out, "%s; %d rounds of %d sagas for each server and protocol, %d connections.\n\n", where(), m.rounds, m.sagas, m.connections)
		return report(out, all)
	})
}

func report(to io.Writer, all []*contestant) error {
	of := func(name string, d *dialect) []figures {
		return all[slices.IndexFunc(all, func(c *contestant) bool { return c.name == name && c.dialect == d })].taken
	}
	least := func(r []figures) float64 { return slices.Min(mapped(r, figures.micros)) }
	out := newTable("server", "protocol", "CPU/turn", "least", "× floor", "quartiles", "of leasts", "turns/s", "sagas/s", "allocs/turn", "B/turn", "peak MB", "token")
	for _, who := range all {
		r, floor := who.taken, of("floor", who.dialect)
		low, middle, high := against(r, floor, figures.micros)
		rate := median(r, figures.rate)
		out.row("%s\t%s\t%.1fµs\t%.1fµs\t%.2f\t%.2f–%.2f\t%.2f\t%.0f\t%.0f\t%d\t%d\t%.0f\t%d",
			who.name, who.dialect.name, median(r, figures.micros), least(r), middle, low, high, least(r)/least(floor), rate, rate/turns,
			median(r, func(f figures) uint64 { return f.used.Mallocs / uint64(f.turns) }),
			median(r, func(f figures) uint64 { return f.used.Bytes / uint64(f.turns) }),
			median(r, megabytes), median(r, func(f figures) int { return f.token }))
	}
	if err := out.print(to); err != nil {
		return err
	}
	for _, who := range all {
		if who.program != "" {
			low, middle, high := against(of(who.server, who.dialect), who.taken, figures.micros)
			fmt.Fprintf(to, "%s, %s: %.3f of the base's CPU time per turn (quartiles %.3f–%.3f).\n\n", who.server, who.dialect.name, middle, low, high)
		}
	}
	low, middle, high := against(of("mcpsaga", mrtr), of("go-sdk", mrtr), figures.rate)
	_, err := fmt.Fprintf(to, "mcpsaga answers %.1f times as many turns per second as go-sdk (quartiles %.1f–%.1f).\n", middle, low, high)
	return err
}
