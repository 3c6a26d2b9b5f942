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

// table is a table in Markdown that is being filled. Tabs separate the cells of a row.
type table []string

func newTable(heads string) *table {
	return &table{heads, strings.Repeat("\t--:", strings.Count(heads, "\t")+1)[1:]}
}

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

// table measures the points, and has a row of cells for each.
func (m measurement) table(ctx context.Context, points []*point, heads string, cells func(p *point) string) *table {
	m.measure(ctx, points)
	t := newTable(heads)
	for _, p := range points {
		*t = append(*t, cells(p))
	}
	return t
}

// ratio words how a figure of a point compares with another's in the same round: median and quartiles.
func ratio(kind int, format string, p, other *point) string {
	low, middle, high := against(p, other, kind)
	return fmt.Sprintf(format, middle, low, high)
}

// where says on what the figures were taken, which they are nothing without.
func where() string {
	return fmt.Sprintf("%s, %s/%s, %d CPUs (%s)", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		cmp.Or(inFile("/proc/cpuinfo", `model name\s*: (.*)`), "of unknown make"))
}

// section prints a part of the report: text and tables. If a document is to be kept, the
// part is put there as well, in place of what stands between its marks:
//
//	<!-- bench:name -->
//	<!-- /bench:name -->
func (m measurement) section(name string, parts ...any) {
	var b bytes.Buffer
	for _, p := range parts {
		fmt.Fprintln(&b, p)
	}
	fmt.Fprint(m.Root().Writer, b.String())
	if into := m.String("into"); into != "" {
		document, err := withSection(must(os.ReadFile(into)), name, b.Bytes())
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
