package comparison_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk/comparison"
)

// The three versions hold the same conversation with an unmodified client of the
// Go SDK, and do the same to the calendar.
func TestTheThreeVersionsDoTheSame(t *testing.T) {
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			var c comparison.Calendar
			u := &user{accept: map[string]any{"target": "production", "sure": true}}
			r, err := u.call(t, v.serve(t, &c))
			require.NoError(t, err)
			assert.Equal(t, "Deploying v2 to production in slot 1.", text(r))
			assert.False(t, r.IsError)
			assert.Equal(t, []string{
				"Where do you want to deploy?", "Is deploying to production safe right now?",
				"The model says: Yes. Deploy to production in slot 1?",
			}, u.asked)
			assert.Equal(t, []int{1}, c.Reserved())
		})
		t.Run(v.name+", declined", func(t *testing.T) {
			var c comparison.Calendar
			u := &user{accept: map[string]any{"target": "staging"}}
			r, err := u.call(t, v.serve(t, &c))
			require.NoError(t, err)
			assert.True(t, r.IsError)
			assert.Len(t, u.asked, 3)
			assert.Empty(t, c.Reserved(), "the slot is released")
		})
	}
}

// A client of an older revision knows nothing of rounds: the server has to ask. The
// Go SDK does so for the first round and then returns the next questions as the
// result; package server goes on to the end. (The Go SDK's own client, which knows
// rounds in all revisions, would go on from there, so it is told not to.)
func TestClientsOfOlderRevisions(t *testing.T) {
	for i, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			var c comparison.Calendar
			u := &user{protocol: "2025-11-25", manual: true, accept: map[string]any{"target": "production", "sure": true}}
			url := v.serve(t, &c)
			if i == 0 {
				url += older
			}
			r, err := u.call(t, url)
			require.NoError(t, err)
			if i > 0 {
				assert.Len(t, u.asked, 3)
				assert.Equal(t, "Deploying v2 to production in slot 1.", text(r))
				return
			}
			assert.Equal(t, []string{"Where do you want to deploy?"}, u.asked)
			assert.Empty(t, r.Content)
			assert.Contains(t, r.InputRequests, "model")
			assert.Equal(t, []int{1}, c.Reserved(), "and the slot stays reserved")
		})
	}
}

// lines counts what is neither empty nor only a comment.
func lines(t *testing.T, file string) (n int) {
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

func document(t *testing.T) string {
	raw, err := os.ReadFile("../../docs/comparison.md")
	require.NoError(t, err)
	return string(raw)
}

// row returns the cells of the table row that begins with a title.
func row(t *testing.T, title string) []string {
	t.Helper()
	for line := range strings.Lines(document(t)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if strings.TrimSpace(cells[0]) == title && len(cells) > 1 {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			return cells[1:]
		}
	}
	t.Fatalf("docs/comparison.md has no row %q", title)
	return nil
}

func TestLinesInDocument(t *testing.T) {
	var want []string
	for _, v := range versions {
		want = append(want, fmt.Sprint(lines(t, v.file)))
	}
	assert.Equal(t, want, row(t, "lines of code"))
}

// The document has the mistakes of mistakes_test.go, when each is caught, and the
// names of the tests.
func TestMistakesInDocument(t *testing.T) {
	for i, m := range mistakes {
		cells := row(t, fmt.Sprintf("%d. %s", i+1, m.title))
		assert.Equal(t, []string{string(m.sdk), string(m.machine), string(m.flow), "`" + m.test + "`"}, cells, m.title)
	}
	rows := regexp.MustCompile(`(?m)^\| \d+\. `).FindAllString(document(t), -1)
	assert.Len(t, rows, len(mistakes))
	assert.Len(t, mistakes, 12)
}
