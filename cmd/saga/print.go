package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
)

// say writes a remark for the user. What goes to the standard output is for
// programs.
func (p *program) say(format string, args ...any) {
	fmt.Fprintf(p.stderr, format+"\n", args...)
}

// print writes a server's text to the standard output: as it is for a program,
// harmless for a terminal.
func (p *program) print(text string) {
	if term.Is(p.stdout) {
		text = plain.Text(text)
	}
	fmt.Fprintln(p.stdout, strings.TrimRight(text, "\n"))
}

// printJSON writes a value as indented JSON, which has no control characters of its own.
func (p *program) printJSON(value any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return failed(err)
	}
	p.print(b.String())
	return nil
}

// table writes to the standard output what tabs separate, in columns below their heads.
func (p *program) table(heads ...string) *term.Table { return term.NewTable(p.stdout, heads...) }

// printRows writes what a list holds: as JSON, or as a table, or that there is nothing.
func printRows[T any](p *program, c *cli.Command, rows []T, nothing, heads string, columns func(T) string) error {
	switch {
	case c.String("output") == "json":
		return p.printJSON(orEmpty(rows))
	case len(rows) == 0:
		p.say("%s", nothing)
		return nil
	}
	table := p.table(strings.FieldsFunc(heads, func(r rune) bool { return r == '\t' })...)
	for _, row := range rows {
		fmt.Fprintln(table, columns(row))
	}
	return failed(table.Flush())
}

// orEmpty has a list that is nil encoded as an empty one.
func orEmpty[T any](list []T) []T { return append([]T{}, list...) }

// maxCell limits a text in a table, in characters.
const maxCell = 40

func cell(text string) string { return plain.Short(text, maxCell) }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func ago(t time.Time) string {
	d := time.Since(t)
	switch {
	case t.IsZero():
		return "unknown"
	case d < time.Minute:
		return "just now"
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// until says until when a task is kept, if that is known.
func until(expires *time.Time) string {
	switch {
	case expires == nil:
		return "?"
	case time.Now().After(*expires):
		return "no more"
	}
	return "until " + expires.Local().Format("2006-01-02 15:04")
}
