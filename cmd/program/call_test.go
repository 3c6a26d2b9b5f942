package program

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCallExitCodes(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address, _ := h.serve()
	h.env = append(h.env, "SAGA_SERVER="+strings.TrimSuffix(address, "/mcp"))
	for name, c := range map[string]struct {
		answers, more, stdout, stderr string
		code                          int
	}{
		"done":              {answers: bothAnswers, stdout: done},
		"the tool fails":    {answers: `{"step-elicitation-A":{"target":"x"},"step-sampling-B":"No."}`, stdout: "not initiated", code: exitFailed},
		"declined":          {answers: `{"step-elicitation-A":"decline"}`, stdout: "declined", code: exitDeclined},
		"sampling refused":  {answers: `{"step-elicitation-A":{"target":"x"},"step-sampling-B":null}`, code: exitDeclined},
		"an answer missing": {answers: firstAnswer, stderr: `"step-sampling-B"`, code: exitNeedsAnswer},
		"an unfit answer":   {answers: `{"step-elicitation-A":{"target":7}}`, stderr: "target", code: exitNeedsAnswer},
		"no answers at all": {stderr: "no terminal", code: exitNeedsAnswer},
		"no such argument":  {answers: bothAnswers, more: "bogus=1", stderr: "bogus", code: exitUsage},
		"no server":         {answers: bothAnswers, more: "--server http://127.0.0.1:1 --retry-for 1ms", stderr: "saga serve", code: exitServer},
		"json":              {answers: bothAnswers, more: "--output json", stdout: `"text": "Deployment to production`},
		"another argument":  {answers: bothAnswers, more: "initial_arg=value", stdout: done},
		"a name twice":      {answers: bothAnswers, more: `--json {"initial_arg":"x","initial_arg":"value"}`, stderr: "duplicate", code: exitUsage},
		"nested, twice":     {answers: bothAnswers, more: `--json {"initial_arg":{"a":1,"a":2}}`, stderr: "duplicate", code: exitUsage},
		"JSON arguments":    {answers: bothAnswers, more: `--json {"initial_arg":"value"}`, stdout: done},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"call", "complex_tool"}
			if c.answers != "" {
				args = append(args, "--answers", h.file("answers.json", c.answers))
			}
			stdout, stderr, code := h.run(append(args, strings.Fields(c.more)...)...)
			assert.Equal(t, c.code, code, stderr)
			assert.Contains(t, stdout, c.stdout)
			assert.Contains(t, stderr, c.stderr)
		})
	}
	stdout, stderr, code := h.run("call", "no_such_tool")
	assert.Equal(t, exitServer, code)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "saga tools lists what the server has")
	_, stderr, _ = h.run("get", "x")
	assert.Contains(t, stderr, "The server has no prompts")
	assert.Contains(t, h.ok("tools"), "* complex_tool")
	var tools []map[string]any
	require.NoError(t, json.Unmarshal([]byte(h.ok("tools", "--output", "json")), &tools))
	assert.Contains(t, tools[0], "inputSchema")
}

// TestResumeOnOtherServers answers one step on each of two servers that are
// killed in between, and has a third finish.
func TestResumeOnOtherServers(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "keyset.json")
	start := func() (string, func()) {
		address, cmd := h.serve("--keyset", "keyset.json", "--audience", "test")
		return address, func() { kill(t, cmd) }
	}
	first, stop := start()
	_, stderr, code := h.run("call", "complex_tool", "--server", first)
	require.Equal(t, exitNeedsAnswer, code)
	saved := regexp.MustCompile(`--resume (\S+)`).FindStringSubmatch(stderr)
	require.NotNil(t, saved, stderr)
	file := filepath.Join(h.dir, "state", "saga", "calls", saved[1]+".json")
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	stop()

	_, stderr, code = h.run("call", "--resume", saved[1], "--answers", h.file("a.json", firstAnswer))
	assert.Equal(t, exitServer, code, "the first server is gone")
	assert.Contains(t, stderr, saved[1])

	second, stop := start()
	_, _, code = h.run("call", "--resume", saved[1], "--server", second, "--answers", h.file("a.json", firstAnswer))
	assert.Equal(t, exitNeedsAnswer, code)
	stop()

	third, _ := start()
	// The first answer is not needed any more: it is in the file.
	stdout := h.ok("call", "--resume", saved[1], "--server", third, "--answers", h.file("b.json", `{"step-sampling-B":"Yes."}`))
	assert.Equal(t, done, stdout)
	assert.NoFileExists(t, file, "the call is over")
}

func TestSaveKeepsThePositionAllTheTime(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address, _ := h.serve()
	path := filepath.Join(h.dir, "position.json")
	_, _, code := h.run("call", "complex_tool", "--server", address, "--save", path, "--answers", h.file("a.json", firstAnswer))
	require.Equal(t, exitNeedsAnswer, code)
	assert.FileExists(t, path)
	h.ok("call", "--resume", path, "--answers", h.file("b.json", bothAnswers))
	assert.NoFileExists(t, path)
}

// A file that is named by mistake is neither replaced by a saved call nor removed with it.
func TestSaveReplacesNothingElse(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address, _ := h.serve()
	answers := h.file("a.json", bothAnswers)
	for name, content := range map[string]string{"notes.txt": "mine", "keyset.json": `{"key":[]}`} {
		path := h.file(name, content)
		_, stderr, code := h.run("call", "complex_tool", "--server", address, "--save", path, "--answers", answers)
		assert.Equal(t, exitUsage, code)
		assert.Contains(t, stderr, name+" is not a saved call")
		kept, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, content, string(kept))
	}
	h.ok("call", "complex_tool", "--server", address, "--save", h.file("empty", ""), "--answers", answers)
}

func TestCallRunsAServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	self, err := os.Executable()
	require.NoError(t, err)
	stdout := h.ok("call", "complex_tool", "--stdio", "'"+self+"' stdio", "--answers", h.file("a.json", bothAnswers))
	assert.Equal(t, done, stdout)
	assert.FileExists(t, filepath.Join(h.dir, "config", "saga", "keyset.json"))
}

// A command line that names a file of the directory where the call began is run there again.
func TestResumeRunsTheServerWhereItRan(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Chmod(h.file("server", "#!/bin/sh\nexec '"+self+"' stdio\n"), 0o700))
	path := filepath.Join(h.dir, "position.json")
	_, stderr, code := h.run("call", "complex_tool", "--stdio", "./server", "--save", path, "--answers", h.file("a.json", firstAnswer))
	require.Equal(t, exitNeedsAnswer, code, stderr)
	cmd := h.command("call", "--resume", path, "--answers", h.file("b.json", bothAnswers))
	cmd.Dir = t.TempDir()
	stdout, err := cmd.Output()
	require.NoError(t, err)
	assert.Equal(t, done, string(stdout))
}

func TestCallUsesAModel(t *testing.T) {
	t.Parallel()
	asked := 0
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"model":"m","choices":[{"finish_reason":"stop","message":{"role":"assistant","content":"Yes."}}]}`))
	}))
	defer endpoint.Close()
	h := newHome(t)
	address, _ := h.serve()
	h.env = append(h.env, "SAGA_SERVER="+address, "SAGA_MODEL=m", "SAGA_MODEL_URL="+endpoint.URL)
	_, stderr, code := h.run("call", "complex_tool", "--answers", h.file("a.json", firstAnswer))
	assert.Equal(t, exitNeedsAnswer, code, "not without being allowed to")
	assert.Zero(t, asked, stderr)
	stdout := h.ok("call", "complex_tool", "--answers", h.file("a.json", firstAnswer), "--yes-sampling")
	assert.Equal(t, done, stdout)
	assert.Equal(t, 1, asked)

	endpoint.Close() // the model fails: the call waits, and the server hears nothing of it
	_, stderr, code = h.run("call", "complex_tool", "--answers", h.file("a.json", firstAnswer), "--yes-sampling")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "your model failed")
	assert.Contains(t, stderr, "--resume")
}
