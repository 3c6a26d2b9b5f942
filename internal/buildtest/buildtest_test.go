package buildtest

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProgram(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "program")
	require.NoError(t, Program(file, "./testdata", "-ldflags=-s -w -X main.says=this"))
	out, err := exec.Command(file).Output()
	require.NoError(t, err)
	assert.Equal(t, "this\n", string(out))
	require.ErrorContains(t, Program(file, "./nowhere"), "nowhere")
}
