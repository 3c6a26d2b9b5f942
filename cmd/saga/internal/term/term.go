// Package term asks a person at a terminal what a saga wants to know.
//
// Everything a server sends is shown without what a terminal would act on. The
// person can always leave a question: decline it, dismiss it, or stop the call
// to go on with it later.
package term

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"charm.land/huh/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/plain"
)

// maxWidth keeps lines readable on wide terminals, in columns.
const maxWidth = 100

// errLeft says that the person pressed Esc to leave a form.
var errLeft = errors.New("left the form")

// Terminal asks the person in front of it.
type Terminal struct {
	in         io.Reader
	out        io.Writer
	accessible bool
	width      int
	// open shows an address in the person's browser; nil if that is not possible.
	open func(ctx context.Context, url string) error
	// answered keeps what was entered, by step id as first asked, so that a form
	// that is asked again starts from it.
	answered map[string]entered
	// lines is the input of the form that is being shown, if it is one of lines.
	lines *lineReader
}

// Is reports whether f is a terminal.
func Is(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// New returns the terminal at in and out, or nil if one of them is none. It uses
// questions of plain lines, fit for screen readers, if the environment variable
// SAGA_ACCESSIBLE is set, TERM is "dumb", or the terminal does not know its size.
func New(in, out *os.File, getenv func(string) string) *Terminal {
	if !Is(in) || !Is(out) {
		return nil
	}
	t := &Terminal{
		in: in, out: out, width: maxWidth,
		accessible: getenv("SAGA_ACCESSIBLE") != "" || getenv("TERM") == "dumb",
		answered:   map[string]entered{},
	}
	if width, height, err := term.GetSize(int(out.Fd())); err == nil && width > 0 && height > 0 {
		t.width = min(width, maxWidth)
	} else {
		t.accessible = true // a form on a screen without a size would not be seen
	}
	if opener := browser(getenv); opener != nil {
		t.open = func(ctx context.Context, url string) error {
			return exec.CommandContext(ctx, opener[0], append(opener[1:], url)...).Run()
		}
	}
	return t
}

// browser returns the command that opens an address, or nil.
func browser(getenv func(string) string) []string {
	switch {
	case runtime.GOOS == "darwin":
		return []string{"open"}
	case runtime.GOOS == "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	case getenv("DISPLAY") != "" || getenv("WAYLAND_DISPLAY") != "":
		return []string{"xdg-open"}
	}
	return nil
}

// heading introduces a question. The texts are the server's.
func (t *Terminal) heading(who, message string) {
	style := lipgloss.NewStyle().Bold(true)
	hint := ""
	if !t.accessible {
		hint = t.styled(lipgloss.NewStyle().Faint(true), "  (Esc: do not answer, Ctrl-C: save and stop)")
	}
	lipgloss.Fprintln(t.out, "\n"+t.styled(style, "── "+plain.Short(who, maxLabel))+hint)
	shown, left := plain.Clip(message, maxMessage, maxLines)
	t.say(shown)
	if left > 0 {
		t.say(fmt.Sprintf("… (%d more characters are not shown)", left))
	}
}

// What of a server's texts is shown, in characters and lines: more would push what
// the person is to decide out of sight, and keeps the program busy.
const (
	maxMessage     = 20_000
	maxLines       = 300
	maxLabel       = 200
	maxDescription = 2000
	maxHelpLines   = 15
)

// say prints text, which must be clean, wrapped to the terminal's width.
func (t *Terminal) say(text string) {
	lipgloss.Fprintln(t.out, ansi.Wrap(text, t.width, ""))
}

func (t *Terminal) styled(style lipgloss.Style, text string) string {
	if t.accessible {
		return text
	}
	return style.Render(text)
}

// run shows pages of fields until they are filled in. Its errors are errLeft,
// client.ErrPause and ctx's.
func (t *Terminal) run(ctx context.Context, pages ...*huh.Group) error {
	form := huh.NewForm(pages...).WithAccessible(t.accessible)
	if t.accessible {
		t.lines = newLineReader(ctx, t.in)
		defer t.lines.close()
		if err := form.WithInput(t.lines).WithOutput(t.out).RunWithContext(ctx); err != nil {
			return err
		}
		return t.lines.failure()
	}
	return t.show(ctx, form.WithWidth(t.width))
}

// over reports whether there is no more input. Validation must then let anything
// pass: the form library would ask for ever.
func (t *Terminal) over() bool { return t.lines != nil && t.lines.ended() }

// choose asks which of the options to take. Its errors are those of run.
func (t *Terminal) choose(ctx context.Context, title string, options ...huh.Option[string]) (string, error) {
	choice := options[0].Value
	list := huh.NewSelect[string]().Title(title).Options(options...).Value(&choice)
	err := t.run(ctx, huh.NewGroup(list))
	return choice, err
}

// What to do with a question other than answering it.
const (
	optionBack    = "back"
	optionDecline = "decline"
	optionCancel  = "cancel"
	optionPause   = "pause"
)

// stopOption saves the call and ends the program.
func stopOption() huh.Option[string] {
	return huh.NewOption("Stop here: save the call and go on later", optionPause)
}

// note prints a remark of this program.
func (t *Terminal) note(format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), "\n")
	lipgloss.Fprintln(t.out, t.styled(lipgloss.NewStyle().Faint(true), ansi.Wrap(text, t.width, "")))
}
