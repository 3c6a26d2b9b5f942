package doccheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Who imports saga and server has few modules in the graph, and few lines in go.sum: those of the library, and two for itself.
func TestImportersGetFewModules(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "all")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.LessOrEqual(t, strings.Count(string(out), "\n")+1, 40, "modules:\n%s", out)
	sums := read(t, "go.sum")
	assert.LessOrEqual(t, strings.Count(sums, "\n")+2, 50, "lines of go.sum:\n%s", sums)
}

// Who makes a program of tools has in go.sum what the command has.
func TestOwnProgramsGetFewModules(t *testing.T) {
	sums := read(t, "examples/lunch/go.sum")
	assert.LessOrEqual(t, strings.Count(sums, "\n"), 254, "lines of go.sum:\n%s", sums)
}

// What users install and require replaces nothing: go install refuses that, and others ignore it.
func TestNoModuleReplacesAnother(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "*", "go.mod"))
	require.NoError(t, err)
	deeper, err := filepath.Glob(filepath.Join(root, "*", "*", "go.mod"))
	require.NoError(t, err)
	for _, file := range append(append(files, deeper...), filepath.Join(root, "go.mod")) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if !strings.Contains(file, "bench/durable") {
			assert.NotRegexp(t, `(?m)^\s*replace\b`, string(text), file)
		}
	}
}
