package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
)

// table is one in Markdown, with its columns aligned. Tabs separate heads, and the cells of a row.
func table(heads string, rows ...string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	for _, row := range append([]string{heads, strings.Repeat("\t--:", strings.Count(heads, "\t")+1)[1:]}, rows...) {
		fmt.Fprintf(w, "| %s\t|\n", strings.ReplaceAll(row, "\t", "\t| "))
	}
	w.Flush()
	return b.String()
}

// table measures the points, and has a row of cells for each.
func (m measurement) table(ctx context.Context, points []*point, heads string, cells func(p *point) string) string {
	m.measure(ctx, points)
	var rows []string
	for _, p := range points {
		rows = append(rows, cells(p))
	}
	return table(heads, rows...)
}

// section prints what a curve shows, and on what it was measured, which figures are nothing without. If a
// document is to be kept, the section is put there as well, in place of what stands between its marks:
//
//	<!-- bench:name -->
//	<!-- /bench:name -->
func (m measurement) section(name, shown string) {
	text := fmt.Appendf(nil, "\n%s: %s, %s/%s, %d CPUs (%s); %d rounds of %d sagas or %d equal turns, %d connections.\n\n%s\n", name,
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cmp.Or(inFile("/proc/cpuinfo", `model name\s*: (.*)`), "of unknown make"),
		m.rounds, m.sagas, m.sagas*turns, m.connections, shown)
	must(m.Root().Writer.Write(text))
	if into := m.String("into"); into != "" {
		document, err := withSection(must(os.ReadFile(into)), name, text)
		if err != nil {
			fail("%s: %w", into, err)
		}
		check(os.WriteFile(into, document, 0o644))
	}
}

// withSection returns the document with another text between the marks of a section.
func withSection(document []byte, name string, text []byte) ([]byte, error) {
	begin, end := "<!-- bench:"+name+" -->\n", "<!-- /bench:"+name+" -->"
	before, rest, found := bytes.Cut(document, []byte(begin))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !found || !ended {
		return nil, fmt.Errorf("there is no section between %q and %q", begin[:len(begin)-1], end)
	}
	return bytes.Join([][]byte{before, []byte(begin + "\n"), bytes.TrimSpace(text), []byte("\n\n" + end), after}, nil), nil
}
