package program

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/state"
)

// unwritable is where nothing can be saved, not even by root.
const unwritable = "/proc/position.json"

// A call is not begun whose position cannot be kept where that is wanted.
func TestSaveWhereNothingCanBeSaved(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	_, stderr, code := h.run("call", "complex_tool", "--server", "http://127.0.0.1:1/mcp", "--save", unwritable)
	assert.Equal(t, exitUsage, code, "it has not looked for the server")
	assert.Contains(t, stderr, "nothing can be saved there")
	address, _ := h.serve()
	_, stderr, code = h.run("call", "complex_tool", "--server", address, "--save", t.TempDir(), "--answers", h.file("a.json", firstAnswer))
	assert.Equal(t, exitUsage, code, stderr)
}

// What cannot be saved where it was wanted is saved with the user's other calls, or else shown.
func TestAPositionThatCannotBeSaved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"} {
		t.Setenv(name, dir)
	}
	stderr, err := os.Create(filepath.Join(dir, "stderr"))
	require.NoError(t, err)
	defer stderr.Close()
	p := &program{stderr: stderr, name: "saga", self: "saga"}
	saved := &state.Call{URL: "http://127.0.0.1:1/mcp", Position: client.Position{Version: 1, Dialect: "saga", Tool: "complex_tool", Token: "sealed"}}
	path, err := p.keep(saved, unwritable)
	require.NoError(t, err)
	said, err := os.ReadFile(stderr.Name())
	require.NoError(t, err)
	assert.Contains(t, string(said), "it could not be saved in "+unwritable)
	again, err := state.Load(path)
	require.NoError(t, err)
	assert.Equal(t, saved.Position.Token, again.Position.Token)

	for _, name := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"} {
		t.Setenv(name, "/proc/none")
	}
	_, err = p.keep(saved, unwritable)
	require.ErrorContains(t, err, "saga call --resume FILE")
	line := regexp.MustCompile(`(?m)^\{.*\}$`).FindString(err.Error())
	file := dir + "/line.json"
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	again, err = state.Load(file)
	require.NoError(t, err)
	assert.Equal(t, saved.URL, again.URL)
	assert.Equal(t, saved.Position.Token, again.Position.Token)
}

// A saved call stays one of the server that it is from until another has answered.
func TestAServerThatDoesNotAnswerIsNotRemembered(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address, _ := h.serve()
	path := h.dir + "/position.json"
	_, _, code := h.run("call", "complex_tool", "--server", address, "--save", path)
	require.Equal(t, exitNeedsAnswer, code)
	for _, other := range []string{"http://127.0.0.1:1/mcp", "http://127.0.0.1:2/mcp"} {
		_, _, code = h.run("call", "--resume", path, "--server", other, "--retry-for", "10ms", "--answers", h.file("a.json", firstAnswer))
		assert.Equal(t, exitServer, code)
		saved, err := state.Load(path)
		require.NoError(t, err)
		assert.Equal(t, address, saved.URL)
	}
	h.ok("call", "--resume", path, "--answers", h.file("b.json", bothAnswers))
}
