package releasenotes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/gittest"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A client that shows forms and has no model gets to the end: the user writes the
// notes, beginning with the commits.
func TestWithoutAModel(t *testing.T) {
	root := t.TempDir()
	gittest.New(t, root)
	played := sagatest.Player{Client: steps.Features{Forms: true}}.Play(t, New(root), nil,
		sagatest.Accept("range", map[string]any{"range": "all"}),
		sagatest.Func("write", func(a sagatest.Asked) sagatest.Answer {
			return sagatest.Accept("write", map[string]any{"notes": a.Form().Fields[0].Default})
		}),
	)
	assert.True(t, played.Good(), played.Text())
	assert.Equal(t, "Wrote the release notes for all commits to RELEASE_NOTES.md.", played.Text())
	assert.Equal(t, "# Unreleased\n\n- Begin\n", textOf(t, root, "RELEASE_NOTES.md"))
	assert.Contains(t, played.Find("write").Message(), "no model")
}

// If the model is refused or fails, the user writes the notes, beginning with the commits or with the
// last draft.
func TestTheModelRefused(t *testing.T) {
	root := t.TempDir()
	gittest.New(t, root)
	for name, c := range map[string]struct {
		before []sagatest.Answer
		want   string
		why    string
	}{
		"at once": {nil, "# Unreleased\n\n- Begin\n", "beginning with the commits"},
		"a change": {[]sagatest.Answer{
			sagatest.Say("draft", "# Notes"),
			sagatest.Accept("review", map[string]any{"notes": "# Mine", "feedback": "more"}),
		}, "# Mine\n", "Edit the draft"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(filepath.Join(root, "RELEASE_NOTES.md")))
			script := append([]sagatest.Answer{sagatest.Accept("range", map[string]any{"range": "all"})}, c.before...)
			played := sagatest.Play(t, New(root), nil, append(script,
				sagatest.Fail("draft", -1, "User rejected sampling request"),
				sagatest.Func("write", func(a sagatest.Asked) sagatest.Answer {
					return sagatest.Accept("write", map[string]any{"notes": a.Form().Fields[0].Default})
				}))...)
			assert.True(t, played.Good(), played.Text())
			assert.Equal(t, c.want, textOf(t, root, "RELEASE_NOTES.md"))
			assert.Contains(t, played.Find("write").Message(), c.why)
		})
	}
}

// A file that changes between question and answer is not replaced unasked.
func TestReplacedIsWhatWasAskedAbout(t *testing.T) {
	root := t.TempDir()
	gittest.New(t, root)
	file := filepath.Join(root, "RELEASE_NOTES.md")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o666))
	changes := 0
	replace := func(again bool) sagatest.Answer {
		return sagatest.Func("replace", func(a sagatest.Asked) sagatest.Answer {
			if again {
				changes++
				require.NoError(t, os.WriteFile(file, []byte{byte('0' + changes)}, 0o666))
			}
			return sagatest.Accept("replace", map[string]any{"replace": true})
		})
	}
	start := []sagatest.Answer{
		sagatest.Accept("range", map[string]any{"range": "all"}), sagatest.Say("draft", "# Notes"),
		sagatest.Accept("review", map[string]any{"notes": "# Notes"}),
	}
	played := sagatest.Play(t, New(root), nil, append(start, replace(true), replace(false))...)
	assert.True(t, played.Good(), played.Text())
	assert.Equal(t, "# Notes\n", textOf(t, file))
	assert.Contains(t, played.Rounds[3].Asked[0].Message(), "exists already")
	assert.Contains(t, played.Rounds[4].Asked[0].Message(), "exists already")

	// A user who does not want that has not written in vain.
	require.NoError(t, os.WriteFile(file, []byte("4"), 0o666))
	played = sagatest.Play(t, New(root), nil, append(start, sagatest.Accept("replace", map[string]any{"replace": false}))...)
	assert.True(t, played.Good(), played.Text())
	assert.Contains(t, played.Text(), "stays as it is")
	assert.Contains(t, played.Text(), "# Notes")
	assert.Equal(t, "4", textOf(t, file))
}
