package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"
)

// table is a table in Markdown that is being filled.
type table struct{ rows [][]string }

func newTable(heads ...string) *table {
	return &table{[][]string{heads, slices.Repeat([]string{"--:"}, len(heads))}}
}

// row adds a row; tabs in the format separate its cells.
func (t *table) row(format string, args ...any) {
	t.rows = append(t.rows, strings.Split(fmt.Sprintf(format, args...), "\t"))
}

// print prints the table with its columns aligned.
func (t *table) print(to io.Writer) error {
	for _, cells := range t.rows {
		for i, cell := range cells {
			width := 0
			for _, other := range t.rows {
				width = max(width, utf8.RuneCountInString(other[i]))
			}
			fmt.Fprintf(to, "| %*s ", width, cell)
		}
		fmt.Fprintln(to, "|")
	}
	_, err := fmt.Fprintln(to)
	return err
}

// where says on what the figures were taken, which they are nothing without.
func where() string {
	return fmt.Sprintf("%s, %s/%s, %d CPUs (%s)", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
		cmp.Or(inFile("/proc/cpuinfo", `model name\s*: (.*)`), "of unknown make"))
}

// median is the median over rounds of a figure.
func median[T cmp.Ordered](all []figures, f func(figures) T) T {
	values := mapped(all, f)
	slices.Sort(values)
	return values[len(values)/2]
}

func mapped[T any](all []figures, f func(figures) T) []T {
	out := make([]T, len(all))
	for i, x := range all {
		out[i] = f(x)
	}
	return out
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

func megabytes(f figures) float64 { return float64(f.used.MaxRSS) / 1e6 }
