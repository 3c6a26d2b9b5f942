package sagatest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/examples/longtalk"
	"github.com/mcpsaga/mcpsaga/examples/releasenotes"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/gittest"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The lengths of the examples' tokens that docs/security.md shows, in the column "in parts".
func TestTokensOfExamples(t *testing.T) {
	document, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	documented := func(what string, length int) {
		assert.Regexp(t, fmt.Sprintf(`(?m)^\| %s \| [\d ]+ \| %d \|`, regexp.QuoteMeta(what), length), string(document))
	}
	documented("`complex_tool`, first question", len(sagatest.Play(t, complextool.Tool, nil, complexScript()...).Rounds[0].Token))
	documented("`long_talk`, fourth question", len(sagatest.Play(t, longtalk.Tool, nil, talkScript()...).Rounds[3].Token))
	root := t.TempDir()
	repository(t, filepath.Join(root, "project"))
	require.NoError(t, os.WriteFile(filepath.Join(root, "project", "NOTES.md"), []byte("Older notes.\n"), 0o666))
	notes := sagatest.Play(t, releasenotes.New(root), notesArgs, notesScript()...)
	documented("`release_notes`, second question", len(notes.Rounds[1].Token))
	documented("`release_notes`, the longest", notes.MaxToken())
}

func complexScript() []answer {
	return []answer{accept("step-elicitation-A", map[string]any{"target": "production"}), say("step-sampling-B", "Yes, it is safe.")}
}

func TestSweepComplexTool(t *testing.T) {
	script := complexScript()
	sagatest.Sweep(t, sagatest.Case{Tool: complextool.Tool, Script: script})
	script[1] = say("step-sampling-B", "No.")
	sagatest.Sweep(t, sagatest.Case{Tool: complextool.Tool, Script: script, Fails: true})
}

func talkScript() []answer {
	script := []answer{say("opinion", "Not much.")}
	for range longtalk.Rounds {
		script = append(script, accept("word", map[string]any{"word": "rain"}))
	}
	return script
}

func TestSweepLongTalk(t *testing.T) {
	sagatest.Sweep(t, sagatest.Case{Tool: longtalk.Tool, Script: talkScript(), MaxRounds: longtalk.Rounds, MaxToken: 800})
}

// repository makes a git repository with two releases.
func repository(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o777))
	gittest.Git(t, dir, nil, "init", "-q", "-b", "master")
	for i, release := range []string{"v1.0", "v1.1"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "code.txt"), []byte(release), 0o666))
		gittest.Commit(t, dir, "Work on "+release, time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC).Unix())
		gittest.Git(t, dir, nil, "tag", release)
	}
}

var notesArgs = map[string]string{"repo": "project", "file": "NOTES.md"}

func notesScript() []answer {
	return []answer{
		sagatest.Func("range", func(a sagatest.Asked) answer {
			return accept("range", map[string]any{"range": a.Choices("range")[0]})
		}),
		say("draft", "# A draft"), accept("review", map[string]any{"notes": "# A draft", "feedback": "shorter"}),
		say("draft", "# v1.1"), accept("review", map[string]any{"notes": "# v1.1"}),
		accept("replace", map[string]any{"replace": true}),
	}
}

func TestSweepReleaseNotes(t *testing.T) {
	root := t.TempDir()
	repository(t, filepath.Join(root, "project"))
	file := filepath.Join(root, "project", "NOTES.md")
	const old = "Older notes.\n"
	sagatest.Sweep(t, sagatest.Case{
		New: func(t testing.TB) sagatest.Subject {
			// Of the repository nothing but this file changes.
			require.NoError(t, os.WriteFile(file, []byte(old), 0o666))
			notes := func() string {
				b, err := os.ReadFile(file)
				assert.NoError(t, err)
				return string(b)
			}
			return sagatest.Subject{
				Tool: releasenotes.New(root), World: func() any { return notes() },
				Check: func(t testing.TB, p *sagatest.Played) {
					if p.Good() {
						assert.Equal(t, "# v1.1\n", notes())
					} else {
						assert.Equal(t, old, notes())
					}
					left, err := filepath.Glob(file + ".*")
					assert.NoError(t, err)
					assert.Empty(t, left, "temporary files are left")
				},
			}
		},
		Args:   notesArgs,
		Script: notesScript(),
	})
}

// Tools that need a model say so before they ask the user for anything.
func TestExamplesThatNeedAModel(t *testing.T) {
	for _, tool := range []saga.Definition{complextool.Tool, longtalk.Tool} {
		played := sagatest.Player{Client: steps.Features{Forms: true}}.Play(t, tool, nil)
		assert.Empty(t, played.Rounds)
		var lacks *engine.UnsupportedError
		require.ErrorAs(t, played.Err, &lacks)
		assert.Equal(t, steps.Features{Forms: true, Sampling: true}, lacks.Needs)
	}
}
