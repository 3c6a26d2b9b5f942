// Package term asks a person at a terminal the questions of a saga.
//
// It removes from a server's texts what would control the terminal. The person can always
// leave a question: decline it, dismiss it, or stop the call to resume it later.
package term

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/huh/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/cancelreader"
	"golang.org/x/term"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/plain"
)

// maxWidth keeps lines readable on wide terminals, in columns.
const maxWidth = 100

// Terminal asks the person in front of it.
type Terminal struct {
	in         io.Reader
	out        io.Writer
	accessible bool
	width      int
	height     int // 0 if it is not known
	// inputs keeps what was entered, by step id as first asked, so that a form
	// that is asked again starts from it.
	inputs map[string][]*input
	// lines is the input of the form that is being shown, if it is one of lines.
	lines *lineReader
}

// Is reports whether f is a terminal.
func Is(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// New returns the terminal at in and out, or nil if one of them is none. Its forms are plain
// lines, fit for screen readers, if the environment variable ACCESSIBLE is set, TERM is
// "dumb", or the terminal does not know its size.
func New(in, out *os.File) *Terminal {
	if !Is(in) || !Is(out) {
		return nil
	}
	t := &Terminal{in: in, out: out, inputs: map[string][]*input{}}
	t.width, t.height, t.accessible = look(out)
	return t
}

// look returns the size of a terminal, and whether it gets plain lines: a form on a
// screen without a size would not be seen.
func look(out *os.File) (width, height int, accessible bool) {
	accessible = os.Getenv("ACCESSIBLE") != "" || os.Getenv("TERM") == "dumb"
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return maxWidth, 0, true
	}
	return min(width, maxWidth), height, accessible
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
	if lines := lipgloss.Height(ansi.Wrap(shown, t.width, "")); t.height > 0 && lines > t.height-formLines {
		t.say(fmt.Sprintf("(These are %d lines: scroll up if you do not see the first.)", lines))
	}
}

// formLines is how many lines of the screen a form needs below a message.
const formLines = 10

// Limits of what is shown of a server's texts, in characters and lines: more would push
// the form out of sight.
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

// Options of a person who is asked something.
const (
	optionBack    = "back"
	optionAgree   = "agree"
	optionDecline = "decline"
	optionCancel  = "cancel"
	optionPause   = "pause"
)

// choose asks which of the options to take, or to stop. Its errors are those of run.
func (t *Terminal) choose(ctx context.Context, title string, options ...huh.Option[string]) (string, error) {
	choice := options[0].Value
	options = append(options, huh.NewOption("Stop here: save the call to resume it later", optionPause))
	err := t.run(ctx, huh.NewGroup(huh.NewSelect[string]().Title(title).Options(options...).Value(&choice)))
	if err == nil && choice == optionPause {
		err = client.ErrPause
	}
	return choice, err
}

func (t *Terminal) note(format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), "\n")
	lipgloss.Fprintln(t.out, t.styled(lipgloss.NewStyle().Faint(true), ansi.Wrap(text, t.width, "")))
}

// errLeft says that the person pressed Esc to leave a form.
var errLeft = errors.New("left the form")

// run shows pages of fields until they are filled in. Its errors are errLeft,
// client.ErrPause and ctx's.
func (t *Terminal) run(ctx context.Context, pages ...*huh.Group) error {
	form := huh.NewForm(pages...)
	if t.accessible {
		return t.runLines(ctx, form)
	}
	form.WithWidth(t.width)
	form.SubmitCmd, form.CancelCmd = tea.Quit, tea.Quit
	s := &screen{form: form}
	// Signals end ctx. A handler of the library's own would wait for ever for a loop that ctx has ended before.
	_, err := tea.NewProgram(s, tea.WithContext(ctx), tea.WithInput(t.in), tea.WithOutput(t.out), tea.WithoutSignalHandler()).Run()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	switch {
	case errors.Is(err, tea.ErrInterrupted):
		return client.ErrPause
	case err != nil:
		return err
	}
	s.erase(t.out)
	switch {
	case s.left:
		return errLeft
	case form.State == huh.StateAborted:
		return client.ErrPause
	}
	return nil
}

// screen is a form while it is shown. The library's own program ends with an empty frame, which
// leaves lines of a form that is over on the terminal; this one ends with blank lines.
type screen struct {
	form   *huh.Form
	left   bool // by Esc
	rows   int  // of the terminal
	height int  // of the last frame
}

func (s *screen) Init() tea.Cmd { return s.form.Init() }

func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		s.rows = m.Height
	case tea.KeyPressMsg:
		if m.String() == "esc" && s.form.State == huh.StateNormal && !filtering(s.form.GetFocusedField()) {
			s.left = true
			msg = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl} // the form's own way out
		}
	}
	_, cmd := s.form.Update(msg) // which returns itself
	return s, cmd
}

func (s *screen) View() tea.View {
	content := s.form.View()
	if content == "" {
		content = strings.Repeat("\n", max(s.height-1, 0))
	} else {
		s.height = lipgloss.Height(content)
	}
	view := tea.NewView(content)
	view.ReportFocus = true
	return view
}

// erase removes the lines of the last frame.
func (s *screen) erase(out io.Writer) {
	back := "\r"
	if up := min(s.height, s.rows) - 1; up > 0 {
		back += ansi.CursorUp(up)
	}
	_, _ = io.WriteString(out, back+ansi.EraseScreenBelow)
}

// filtering reports whether Esc means to leave a list's filter.
func filtering(field huh.Field) bool {
	list, ok := field.(interface{ GetFiltering() bool })
	return ok && list.GetFiltering()
}

// runLines asks for one field after the other, in plain lines.
func (t *Terminal) runLines(ctx context.Context, form *huh.Form) error {
	in, err := cancelreader.NewReader(t.in)
	if err != nil {
		return err
	}
	defer in.Close()
	defer context.AfterFunc(ctx, func() { in.Cancel() })()
	t.lines = &lineReader{in: in}
	err = form.WithAccessible(true).WithInput(t.lines).WithOutput(t.out).RunWithContext(ctx)
	switch cause := context.Cause(ctx); {
	case cause != nil:
		return cause
	case err != nil:
		return err
	case errors.Is(t.lines.err, io.EOF):
		return client.ErrPause
	}
	return t.lines.err
}

// lineReader keeps the form library, which makes a buffer for each field, from reading
// more than a line, and remembers how the input ended: the library takes the end for an answer.
type lineReader struct {
	in  io.Reader
	err error
}

// Read implements io.Reader. It returns one byte at most.
func (l *lineReader) Read(p []byte) (n int, err error) {
	if l.err == nil {
		n, l.err = l.in.Read(p[:min(len(p), 1)])
	}
	return n, l.err
}

// over reports whether there is no more input. Validation must then let anything
// pass: the form library would ask for ever.
func (t *Terminal) over() bool { return t.lines != nil && t.lines.err != nil }
