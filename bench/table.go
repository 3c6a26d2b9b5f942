package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"
)

// output is where tables go, and how they look.
type output struct {
	io.Writer
	markdown bool
	document string // a file that is kept up to date, or empty
}

// outputOf is where the flags say.
func outputOf(c *cli.Command) output {
	return output{c.Root().Writer, c.Bool("markdown"), c.String("into")}
}

// table is a table that is being filled.
type table struct {
	to   output
	rows [][]string
}

func (o output) table(heads ...string) *table { return &table{o, [][]string{heads}} }

// row adds a row; tabs in the format separate its cells.
func (t *table) row(format string, args ...any) {
	t.rows = append(t.rows, strings.Split(fmt.Sprintf(format, args...), "\t"))
}

// flush prints the table.
func (t *table) flush() error {
	if t.to.markdown {
		return t.flushMarkdown()
	}
	out := tabwriter.NewWriter(t.to, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, cells := range t.rows {
		fmt.Fprintln(out, strings.Join(cells, "\t")+"\t")
	}
	return out.Flush()
}

func (t *table) flushMarkdown() error {
	var b strings.Builder
	for i, cells := range t.rows {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|--:", len(cells)) + "|\n")
		}
	}
	_, err := io.WriteString(t.to, b.String()+"\n")
	return err
}

// where says on what the figures were taken, which they are nothing without.
func where() string {
	return fmt.Sprintf("%s, %s/%s, %d CPUs (%s)", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), processor())
}

// processor names the CPU where the system tells it.
func processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "of unknown make"
	}
	_, rest, found := strings.Cut(string(info), "model name")
	name, _, _ := strings.Cut(rest, "\n")
	if !found {
		return "of unknown make"
	}
	return strings.Trim(name, " \t:")
}
