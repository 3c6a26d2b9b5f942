package tokens_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// corpus returns the states of testdata/corpus by name: forms, texts in several languages, like rows,
// diffs, identifiers, and what has been compressed already. No dictionary was made of them.
func corpus(t testing.TB) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "corpus", "*.json"))
	require.NoError(t, err)
	states := make(map[string]string)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		states[strings.TrimSuffix(filepath.Base(path), ".json")] = strings.TrimSuffix(string(data), "\n")
	}
	require.Len(t, states, 13)
	return states
}
