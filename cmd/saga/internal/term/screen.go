package term

import (
	"context"
	"errors"
	"io"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/huh/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/cancelreader"

	"github.com/mcpsaga/mcpsaga/client"
)

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
	_, err := tea.NewProgram(s, tea.WithContext(ctx), tea.WithInput(t.in), tea.WithOutput(t.out)).Run()
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

// erase takes what the last frame has left to the cursor's lines.
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

// Read implements io.Reader. It returns one byte.
func (l *lineReader) Read(p []byte) (n int, err error) {
	if l.err == nil {
		n, l.err = l.in.Read(p[:1])
	}
	return n, l.err
}

// over reports whether there is no more input. Validation must then let anything
// pass: the form library would ask for ever.
func (t *Terminal) over() bool { return t.lines != nil && t.lines.err != nil }
