package doccheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Exchanges that documents show are lines of a recorded one, in a row; and what tests record
// is shown.
func TestTranscriptsInDocuments(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "testdata", "transcripts", "*.txt"))
	require.NoError(t, err)
	recorded := make(map[string]string)
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		recorded[filepath.Base(name)] = "\n" + strings.TrimRight(string(b), "\n") + "\n"
	}
	shown := map[string]bool{"saga-proposal.txt": true} // docs/protocols.md has its like
	for _, name := range documents(t) {
		for _, block := range blocks(read(t, name), "transcript") {
			found := false
			for file, text := range recorded {
				if strings.Contains(text, "\n"+block+"\n") {
					found, shown[file] = true, true
				}
			}
			assert.True(t, found, "%s: no file of testdata/transcripts has these lines:\n%s", name, block)
		}
	}
	for file := range recorded {
		assert.True(t, shown[file], "no document shows lines of testdata/transcripts/%s", file)
	}
}
