package doccheck

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// llms.txt, by the format of llmstxt.org, names every document once, says in a few words what is in it, and nothing that
// is not there.
func TestLLMsFile(t *testing.T) {
	text := read(t, "llms.txt")
	head, lists, _ := strings.Cut(text, "\n## ")
	assert.Regexp(t, `^# \w+\n\n> [^\n]+\n\n`, head, "a title and a summary come first")
	assert.NotContains(t, head, "](", "links are in the lists")
	var named []string
	for line := range strings.Lines("## " + lists) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || strings.HasPrefix(line, "## ") {
			continue
		}
		m := regexp.MustCompile(`^- \[[^\]]+\]\(([^)]+)\): (.+)$`).FindStringSubmatch(line)
		if !assert.NotNil(t, m, "%q is no item of a list", line) {
			continue
		}
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1])))
		assert.NoError(t, err)
		assert.LessOrEqual(t, len(strings.Fields(m[2])), 14, "the words of %q", line)
		named = append(named, m[1])
	}
	want := documents(t)
	slices.Sort(named)
	slices.Sort(want)
	assert.Equal(t, want, named)
}
