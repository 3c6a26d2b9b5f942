package term

import (
	"bytes"
	"testing"

	tea "charm.land/bubbletea/v2"
	"charm.land/huh/v2"
	"charm.land/lipgloss/v2"
	"github.com/stretchr/testify/assert"
)

// The last frame is as high as the one before and blank, and the cursor goes back over
// as much of it as the terminal holds.
func TestLastFrameIsBlank(t *testing.T) {
	for rows, want := range map[int]string{40: "\r\x1b[9A\x1b[J", 4: "\r\x1b[3A\x1b[J", 1: "\r\x1b[J"} {
		s := &screen{form: huh.NewForm(huh.NewGroup(huh.NewText().Title("Notes").Lines(8)))}
		s.Init()
		s.Update(tea.WindowSizeMsg{Width: 80, Height: rows})
		s.form.WithHeight(10)
		shown := s.View().Content
		assert.Contains(t, shown, "Notes")
		s.form.SubmitCmd, s.form.CancelCmd = tea.Quit, tea.Quit
		s.Update(tea.KeyPressMsg{Code: tea.KeyEsc})
		assert.True(t, s.left)
		blank := s.View().Content
		assert.Regexp(t, `^\n*$`, blank)
		assert.Equal(t, lipgloss.Height(shown), lipgloss.Height(blank))
		var out bytes.Buffer
		s.height = 10
		s.erase(&out)
		assert.Equal(t, want, out.String())
	}
}
