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

	"github.com/mcpsaga/mcpsaga/client"
)

// screen is a form while it is shown. It is a program of its own, as the library's
// ends with an empty frame, which leaves lines of the one before on the terminal: they
// look like a form, and no key does anything there. This one ends with a frame of blank
// lines as high as the last, over which the cursor then goes back.
type screen struct {
	form   *huh.Form
	left   bool // by Esc
	rows   int  // of the terminal
	height int  // of the last frame
}

// show shows the form until it is filled in, and takes it from the terminal. Its errors
// are those of run.
func (t *Terminal) show(ctx context.Context, form *huh.Form) error {
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

// Init implements tea.Model.
func (s *screen) Init() tea.Cmd { return s.form.Init() }

// Update implements tea.Model.
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

// View implements tea.Model.
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
