package term

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

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
	return &Table{out: out, width: Columns(out), heads: heads}
}

// Columns is how wide a terminal is, or 0 for what is none or does not know it.
func Columns(f *os.File) int {
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
	var columns bytes.Buffer
	w := tabwriter.NewWriter(&columns, 0, 4, 2, ' ', 0)
	if t.heads != nil {
		fmt.Fprintln(w, strings.Join(t.heads, "\t"))
	}
	_, _ = w.Write(t.rows.Bytes())
	_ = w.Flush() // a buffer takes all
	text := columns.String()
	if !t.fits(text) {
		text = t.records()
	}
	t.rows.Reset()
	_, err := io.WriteString(t.out, text)
	return err
}

func (t *Table) fits(text string) bool {
	for line := range strings.Lines(text) {
		if t.width > 0 && ansi.StringWidth(line) > t.width {
			return false
		}
	}
	return true
}

// records writes each row as lines: with their heads, or else the first cell, and the
// others below it; or beside it, if there is one.
func (t *Table) records() string {
	const indent = 4
	var b strings.Builder
	label := 0
	for _, head := range t.heads {
		label = max(label, len(head)+2)
	}
	for row := range strings.Lines(t.rows.String()) {
		if name, value, _ := strings.Cut(row, "\t"); t.heads == nil && !strings.Contains(value, "\t") {
			label = max(label, utf8.RuneCountInString(name)+2)
		}
	}
	for row := range strings.Lines(t.rows.String()) {
		if t.heads != nil && b.Len() > 0 {
			b.WriteByte('\n')
		}
		cells := strings.Split(strings.TrimSuffix(row, "\n"), "\t")
		if t.heads == nil && len(cells) == 2 && label <= t.width/2 {
			fmt.Fprintln(&b, Fit(fmt.Sprintf("%-*s%s", label, cells[0], cells[1]), label, t.width))
			continue
		}
		for i, cell := range cells {
			switch {
			case cell == "":
			case t.heads != nil:
				fmt.Fprintln(&b, Fit(fmt.Sprintf("%-*s%s", label, t.heads[i], cell), label, t.width))
			case i == 0:
				fmt.Fprintln(&b, Fit(cell, indent, t.width))
			default:
				fmt.Fprintln(&b, Fit(strings.Repeat(" ", indent)+cell, indent, t.width))
			}
		}
	}
	return b.String()
}

// Fit breaks a line between its words, so that nothing is wider than so many columns. What
// follows the first break is indented. A word is broken only if it is longer than a line.
func Fit(line string, indent, width int) string {
	if indent > width/2 {
		indent = min(4, width/2)
	}
	var b strings.Builder
	for room := width; ; room = width - indent {
		part := line[:min(len(line), 16*room)] // more than can be seen of it
		for len(part) < len(line) && !utf8.RuneStart(line[len(part)]) {
			part = part[:len(part)-1]
		}
		end := len(ansi.Truncate(part, room, ""))
		if end == len(line) {
			return b.String() + line
		}
		if cut := strings.LastIndexByte(line[:end+1], ' '); strings.TrimSpace(line[:max(cut, 0)]) != "" {
			end = cut
		}
		end = max(end, 1)
		b.WriteString(strings.TrimRight(line[:end], " ") + "\n" + strings.Repeat(" ", indent))
		line = strings.TrimLeft(line[end:], " ")
	}
}

// help writes lines, of at most so many columns.
type help struct {
	out   io.Writer
	width int
	line  []byte
}

// NewHelp returns a writer for help, whose lines it breaks where a terminal ends.
func NewHelp(out *os.File) io.Writer {
	if width := Columns(out); width > 0 {
		return &help{out: out, width: min(width, maxWidth)}
	}
	return out
}

// explained finds where the explanation begins in a line of help: behind a gap.
var explained = regexp.MustCompile(`^ *\S+( \S+)*  +`)

// Write implements io.Writer.
func (h *help) Write(text []byte) (int, error) {
	h.line = append(h.line, text...)
	end := bytes.LastIndexByte(h.line, '\n') + 1
	var b strings.Builder
	for line := range strings.Lines(string(h.line[:end])) {
		line = strings.TrimRight(line, " \n")
		indent := len(explained.FindString(line))
		if indent == 0 {
			indent = len(line) - len(strings.TrimLeft(line, " "))
		}
		if indent > h.width/2 {
			indent = 10
		}
		b.WriteString(Fit(line, indent, h.width) + "\n")
	}
	h.line = append(h.line[:0], h.line[end:]...)
	_, err := io.WriteString(h.out, b.String())
	return len(text), err
}
