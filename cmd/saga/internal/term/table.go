package term

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// Table writes rows, whose cells are separated by tabs. They stand in columns, unless these
// are too wide for a terminal: then each row is a record, of lines that fit. What is no
// terminal gets columns. Texts must be clean.
type Table struct {
	out   io.Writer
	width int // 0: no limit
	heads []string
	rows  bytes.Buffer
}

// NewTable returns a table for out, with heads for its columns, or none.
func NewTable(out *os.File, heads ...string) *Table {
	return &Table{out: out, width: columns(out), heads: heads}
}

// columns is how wide a terminal is, or 0 for what is none or does not know it.
func columns(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Write implements io.Writer.
func (t *Table) Write(rows []byte) (int, error) { return t.rows.Write(rows) }

// Flush writes the rows as a table. What is written after that is another one.
func (t *Table) Flush() error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	if len(t.heads) > 0 {
		fmt.Fprintln(w, strings.Join(t.heads, "\t"))
	}
	_, _ = w.Write(t.rows.Bytes())
	_ = w.Flush() // a buffer takes all
	text := b.String()
	if t.width > 0 {
		for line := range strings.Lines(text) {
			if ansi.StringWidth(line) > t.width {
				text = t.records()
				break
			}
		}
	}
	t.rows.Reset()
	_, err := io.WriteString(t.out, text)
	return err
}

// records writes each row as lines: the cells behind their heads or, without heads, the others
// behind the first.
func (t *Table) records() string {
	rows := strings.Split(strings.TrimSuffix(t.rows.String(), "\n"), "\n")
	label := 0
	for _, head := range t.heads {
		label = max(label, len(head)+2)
	}
	for _, row := range rows {
		if first, _, _ := strings.Cut(row, "\t"); len(t.heads) == 0 {
			label = max(label, ansi.StringWidth(first)+2)
		}
	}
	pad := func(name string) string { return name + strings.Repeat(" ", label-ansi.StringWidth(name)) }
	var b strings.Builder
	for n, row := range rows {
		cells := strings.Split(row, "\t")
		if len(t.heads) == 0 {
			b.WriteString(hang(pad(cells[0]), strings.Join(cells[1:], "  "), t.width))
			continue
		}
		if n > 0 {
			b.WriteByte('\n')
		}
		for i, cell := range cells {
			if cell != "" {
				b.WriteString(hang(pad(t.heads[i]), cell, t.width))
			}
		}
	}
	return b.String()
}

// hang writes text behind a label, in lines that begin below its own beginning and end where
// the terminal does. Words are broken only if they are longer than a line. A label that leaves
// too little room has a line of its own.
func hang(label, text string, width int) string {
	indent := ansi.StringWidth(label)
	if indent > max(width/2, 4) {
		return strings.TrimRight(wrap(label, width), " ") + "\n" + hang("    ", text, width)
	}
	return label + strings.ReplaceAll(wrap(text, width-indent), "\n", "\n"+strings.Repeat(" ", indent)) + "\n"
}

// wrap breaks text between words, of which a hyphen is a part.
func wrap(text string, width int) string {
	const hyphen = "\ue000" // of private use, so not in a text that is clean
	wrapped := ansi.Wrap(strings.ReplaceAll(text, "-", hyphen), width, "")
	lines := strings.Split(wrapped, "\n")
	for i, line := range lines {
		if ansi.StringWidth(line) > width { // Wrap does not count a space before a word that fills the line
			lines[i] = ansi.Hardwrap(strings.TrimSpace(line), width, false)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"), hyphen, "-")
}

// explained finds what stands before the explanation in a line of help: up to a gap. Other lines have
// their indentation.
var explained = regexp.MustCompile(`^ *\S+( \S+)*  +|^ *`)

// WriteHelp writes help, whose lines it breaks where a terminal ends.
func WriteHelp(out io.Writer, help string) {
	width := 0
	if f, ok := out.(*os.File); ok {
		width = min(columns(f), maxWidth)
	}
	for line := range strings.Lines(help) {
		if width > 0 {
			line = strings.TrimRight(line, " \n")
			label := explained.FindString(line)
			line = hang(label, line[len(label):], width)
		}
		_, _ = io.WriteString(out, line)
	}
}
