package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// contestant is a server with a dialect, of this build or, if program is set, of
// another.
type contestant struct {
	*point
	*dialect
	program, kind string
}

// contestants are what is compared, in both dialects. The floors come first: the
// others are compared with them. With a base, ours are followed by what they were there.
func (m measurement) contestants(base string) (all []*contestant) {
	for _, d := range []*dialect{proposal, mrtr} {
		for _, kind := range []string{"floor", "mcpsaga", "mcpsaga-flow", "mounted", "go-sdk"} {
			if d == proposal && (kind == "mounted" || kind == "go-sdk") {
				continue // the SDK does not speak it
			}
			all = append(all, &contestant{m.point(kind, whole(d)), d, "", kind})
			if base != "" && kind != "floor" && kind != "go-sdk" {
				all = append(all, &contestant{m.point("base of "+kind, whole(d)), d, base, kind})
			}
		}
	}
	return all
}

// compare keeps all servers running and gives each a short load in turn, round after
// round.
func compare(ctx context.Context, m measurement) {
	base := m.String("base")
	if base != "" && m.String("into") != "" {
		check(errors.New("documents show this build alone: give --base or --into"))
	}
	all := m.contestants(base)
	points := make([]*point, len(all))
	for i, who := range all {
		who.servers, points[i] = []*child{startChild(ctx, who.program, who.kind)}, who.point
	}
	m.measure(ctx, points)
	of := func(name string, d *dialect) []figures {
		return all[slices.IndexFunc(all, func(c *contestant) bool { return c.point.name == name && c.dialect == d })].taken
	}
	t := newTable("server", "protocol", "CPU/turn", "× floor", "quartiles", "turns/s", "allocs/turn", "B/turn", "peak MB", "token")
	lines := ""
	for _, who := range all {
		r := who.taken
		low, middle, high := against(r, of("floor", who.dialect), figures.micros)
		t.row("%s\t%s\t%.1fµs\t%.2f\t%.2f–%.2f\t%.0f\t%d\t%d\t%.0f\t%d",
			who.point.name, who.dialect.name, median(r, figures.micros), middle, low, high, median(r, figures.rate),
			median(r, func(f figures) uint64 { return f.used[0].Mallocs / uint64(f.turns) }),
			median(r, func(f figures) uint64 { return f.used[0].Bytes / uint64(f.turns) }),
			median(r, figures.megabytes), median(r, func(f figures) int { return f.token }))
		if who.program != "" {
			low, middle, high := against(of(who.kind, who.dialect), r, figures.micros)
			lines += fmt.Sprintf("%s, %s: %.3f of the base's CPU time per turn (quartiles %.3f–%.3f).\n\n", who.kind, who.dialect.name, middle, low, high)
		}
	}
	low, middle, high := against(of("mcpsaga", mrtr), of("go-sdk", mrtr), figures.rate)
	m.section("compare",
		fmt.Sprintf("%s; %d rounds of %d sagas for each server and protocol, %d connections.\n", where(), m.rounds, m.sagas, m.connections), t,
		lines+fmt.Sprintf("mcpsaga answers %.1f times as many turns per second as go-sdk (quartiles %.1f–%.1f).", middle, low, high))
}

// table is a table in Markdown that is being filled.
type table []string

func newTable(heads ...string) *table {
	return &table{strings.Join(heads, "\t"), strings.Join(slices.Repeat([]string{"--:"}, len(heads)), "\t")}
}

// row adds a row; tabs in the format separate its cells.
func (t *table) row(format string, args ...any) { *t = append(*t, fmt.Sprintf(format, args...)) }

// String is the table with its columns aligned.
func (t *table) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	for _, row := range *t {
		fmt.Fprintf(w, "| %s\t|\n", strings.ReplaceAll(row, "\t", "\t| "))
	}
	w.Flush()
	return b.String()
}

// where says on what the figures were taken, which they are nothing without.
func where() string {
	return fmt.Sprintf("%s, %s/%s, %d CPUs (%s)", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		cmp.Or(inFile("/proc/cpuinfo", `model name\s*: (.*)`), "of unknown make"))
}

func median[T cmp.Ordered](all []figures, f func(figures) T) T {
	var values []T
	for _, x := range all {
		values = append(values, f(x))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// against divides a figure by another's in the same round, and returns of these
// ratios the values that a quarter, half and three quarters do not exceed.
func against(a, b []figures, f func(figures) float64) (low, middle, high float64) {
	list := make([]float64, len(a))
	for i := range a {
		list[i] = f(a[i]) / f(b[i])
	}
	slices.Sort(list)
	n := len(list)
	return list[n/4], list[n/2], list[min(n*3/4, n-1)]
}
