package term

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
)

// WriteTable writes rows, whose cells are separated by tabs, below heads, if there are any. They stand in columns, unless these
// are too wide for a terminal: then each row is a record, of lines that fit. What is no terminal gets columns. Texts must be clean.
func WriteTable(out *os.File, heads string, rows []string) error {
	_, err := io.WriteString(out, table(columns(out), heads, rows))
	return err
}

// columns is how wide a terminal is, or 0 for what is none or does not know it.
func columns(f *os.File) int {
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// table is a table for a terminal of a width; 0 is no limit.
func table(width int, heads string, rows []string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	if heads != "" {
		fmt.Fprintln(w, strings.TrimRight(heads, "\t"))
	}
	for _, row := range rows {
		fmt.Fprintln(w, row)
	}
	_ = w.Flush() // a builder takes all
	for line := range strings.Lines(b.String()) {
		if width > 0 && ansi.StringWidth(line) > width {
			return records(width, heads, rows)
		}
	}
	return b.String()
}

// records has each row as lines: the cells behind their heads or, without heads, the others
// behind the first.
func records(width int, heads string, rows []string) string {
	var lines [][2]string // each a label and what stands behind it
	label := 0
	add := func(name, text string) {
		lines = append(lines, [2]string{name, text})
		label = max(label, ansi.StringWidth(name)+2)
	}
	names := strings.Split(heads, "\t")
	for i, row := range rows {
		cells := strings.Split(row, "\t")
		if heads == "" {
			add(cells[0], strings.Join(cells[1:], "  "))
			continue
		}
		if i > 0 {
			add("", "")
		}
		for i, cell := range cells {
			if cell != "" {
				add(names[i], cell)
			}
		}
	}
	var b strings.Builder
	for _, l := range lines {
		if l[0] == "" && l[1] == "" {
			b.WriteByte('\n')
			continue
		}
		b.WriteString(hang(l[0]+strings.Repeat(" ", label-ansi.StringWidth(l[0])), l[1], width))
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

// Bar shows the progress of a call at a terminal: in one line, which it removes again or, in
// plain lines, in a line for each new text. A nil Bar shows nothing. It is safe for concurrent use.
type Bar struct {
	out   io.Writer
	name  string // of the program, which begins a line
	width int
	lines bool

	mu    sync.Mutex
	shown string
	last  time.Time // when that was shown
	next  string    // what timer shows; empty is nothing
	timer *time.Timer
}

const (
	// redraw is how often the line changes at most, and newLine how often a line is added.
	redraw  = 100 * time.Millisecond
	newLine = 2 * time.Second
)

// NewBar returns a bar of a program for out, or nil if that is no terminal.
func NewBar(out *os.File, program string) *Bar {
	if !Is(out) {
		return nil
	}
	b := &Bar{out: out, name: program}
	b.width, _, b.lines = look(out)
	return b
}

// Show shows progress. If it comes faster than a person reads, Show leaves some out, but not the last.
func (b *Bar) Show(p client.Progress) {
	text := Progress(p)
	if b == nil || text == "" {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	after := redraw - time.Since(b.last)
	if b.lines {
		after = newLine - time.Since(b.last)
	}
	if b.next = text; after <= 0 {
		b.draw()
		return
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	b.timer = time.AfterFunc(after, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.draw()
	})
}

// draw shows what was planned.
func (b *Bar) draw() {
	text := b.next
	if b.next = ""; text == "" || text == b.shown {
		return
	}
	b.shown, b.last = text, time.Now()
	if b.lines {
		fmt.Fprintln(b.out, b.name+": "+text)
		return
	}
	// One column stays free: in the last one some terminals begin a new line.
	fmt.Fprint(b.out, "\r"+ansi.Truncate(text, b.width-1, "…")+ansi.EraseLineRight)
}

// Clear removes the line, so that something else can be shown.
func (b *Bar) Clear() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next = ""
	if b.shown != "" && !b.lines {
		fmt.Fprint(b.out, "\r"+ansi.EraseLineRight)
	}
	b.shown, b.last = "", time.Time{}
}

// Progress describes a server's report of progress in one line.
func Progress(p client.Progress) string {
	var parts []string
	switch {
	case p.Total > 0:
		parts = append(parts, fmt.Sprintf("%.0f%%", min(max(p.Done/p.Total, 0), 1)*100))
	case p.Done > 0:
		parts = append(parts, fmt.Sprintf("%.6g", p.Done))
	case p.Task != nil:
		parts = append(parts, strings.ReplaceAll(p.Task.Status, "_", " "))
	case !p.Until.IsZero():
		parts = append(parts, "the tool waits until "+clock(p.Until))
	}
	if message := plain.Short(p.Message, maxLabel); message != "" {
		parts = append(parts, message)
	}
	return strings.Join(parts, " ")
}

// clock formats a time, with its day unless that is today.
func clock(t time.Time) string {
	t = t.Local()
	if day := time.DateOnly; t.Format(day) != time.Now().Format(day) {
		return t.Format("2006-01-02 15:04")
	}
	return t.Format("15:04:05")
}
