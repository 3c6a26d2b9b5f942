package term

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
)

// Bar shows the progress of a call at a terminal: in one line, which it removes again or, in
// plain lines, in a line for each new text. A nil Bar shows nothing. It is safe for concurrent use.
type Bar struct {
	out   io.Writer
	width int
	lines bool

	mu    sync.Mutex
	shown string
	last  time.Time   // when that was shown
	later *time.Timer // shows a text later; nil if none waits
}

const (
	// redraw is how often the line changes at most, and newLine how often a line is added.
	redraw  = 100 * time.Millisecond
	newLine = 2 * time.Second
	// silence is after how long the line says that the server is waited for.
	silence = 2 * time.Second
	// barWidth is how wide the bar itself is, in columns.
	barWidth = 24
)

// NewBar returns a bar for out, or nil if that is no terminal.
func NewBar(out *os.File) *Bar {
	if !Is(out) {
		return nil
	}
	b := &Bar{out: out}
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
	pause := newLine
	if !b.lines {
		pause = redraw
		if p.Total > 0 {
			text = bar(p.Done/p.Total) + " " + text
		}
	}
	b.plan(text, pause-time.Since(b.last))
}

// Expect says that the server is waited for, unless something else is shown soon.
func (b *Bar) Expect() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plan("waiting for the server", silence)
}

// plan shows a text after a time, instead of any that was planned before.
func (b *Bar) plan(text string, after time.Duration) {
	b.drop()
	if after <= 0 {
		b.draw(text)
		return
	}
	var later *time.Timer
	later = time.AfterFunc(after, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.later == later { // else it was too late to stop it
			b.later = nil
			b.draw(text)
		}
	})
	b.later = later
}

// drop cancels what was planned.
func (b *Bar) drop() {
	if b.later != nil {
		b.later.Stop()
		b.later = nil
	}
}

func (b *Bar) draw(text string) {
	if text == b.shown {
		return
	}
	b.shown, b.last = text, time.Now()
	if b.lines {
		fmt.Fprintln(b.out, "saga: "+text)
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
	b.drop()
	if b.shown != "" && !b.lines {
		fmt.Fprint(b.out, "\r"+ansi.EraseLineRight)
	}
	b.shown, b.last = "", time.Time{}
}

// bar draws a part of the whole, which is 1.
func bar(part float64) string {
	full := int(min(max(part, 0), 1) * barWidth)
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
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
