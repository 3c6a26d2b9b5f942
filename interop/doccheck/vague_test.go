package doccheck

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vague are words that say less than the name of who acts, or of what happens.
var vague = regexp.MustCompile(`(?i)\b(somebody|nobody|whoever|told|goes on)\b`)

// mostVague is how many of them the code may have, tests not counted.
const mostVague = 80

// Code names who acts: a client, an operator, another replica.
func TestCodeSaysWhoActs(t *testing.T) {
	found := make(map[string]int)
	sum := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		raw, err := os.ReadFile(path)
		if n := len(vague.FindAll(raw, -1)); n > 0 {
			found[path] = n
			sum += n
		}
		return err
	})
	require.NoError(t, err)
	assert.LessOrEqual(t, sum, mostVague, "%v", found)
}
