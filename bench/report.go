package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"strings"
	"text/tabwriter"
)

// table writes a table in Markdown, with its columns aligned. Tabs separate the cells of a row.
func table(heads string, rows ...string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	for _, row := range append([]string{heads, strings.Repeat("\t--:", strings.Count(heads, "\t")+1)[1:]}, rows...) {
		fmt.Fprintf(w, "| %s\t|\n", strings.ReplaceAll(row, "\t", "\t| "))
	}
	w.Flush()
	return b.String()
}

// table measures the points and returns a table with a row for each.
func (m measurement) table(ctx context.Context, points []*point, heads string, cells func(p *point) string) string {
	m.measure(ctx, points)
	var rows []string
	for _, p := range points {
		rows = append(rows, cells(p))
	}
	return table(heads, rows...) + beside(points)
}

// section shows a table and the machine on which it was measured.
func (m measurement) section(name, shown string) string {
	return fmt.Sprintf("\n%s: %s, %s/%s, %d CPUs (%s); %d rounds of %d sagas, %d connections.\n\n%s\n", name,
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cmp.Or(inFile("/proc/cpuinfo", `model name\s*: (.*)`), "of unknown make"),
		m.rounds, m.sagas, m.connections, shown)
}
