package program

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCalls(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	_, stderr, code := h.run("calls")
	assert.Zero(t, code)
	assert.Contains(t, stderr, "no saved calls")

	address, _ := h.serve()
	var saved []string // in the order in which they were saved, which names of one second do not tell
	for i := range 2 {
		_, _, code := h.run("call", "complex_tool", "initial_arg=x", "--server", address)
		require.Equal(t, exitNeedsAnswer, code)
		found, err := filepath.Glob(filepath.Join(h.dir, "state", "saga", "calls", "*.json"))
		require.NoError(t, err)
		require.Len(t, found, i+1)
		saved = append(saved, slices.DeleteFunc(found, func(path string) bool { return slices.Contains(saved, path) })...)
	}
	name := strings.TrimSuffix(filepath.Base(saved[0]), ".json")
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(saved[0]), "broken.json"), []byte("{"), 0o600))

	dir := filepath.Dir(saved[0])
	for name, age := range map[string]time.Duration{"broken": 2 * time.Hour, strings.TrimSuffix(filepath.Base(saved[1]), ".json"): time.Hour} {
		at := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(filepath.Join(dir, name+".json"), at, at))
	}
	list := h.ok("calls")
	assert.Regexp(t, name+`  +tool complex_tool +`+address+` +just now +Please provide the deployment target:`, list)
	assert.Contains(t, list, "broken")
	assert.Contains(t, list, "cannot be read")
	var rows []map[string]any
	require.NoError(t, json.Unmarshal([]byte(h.ok("calls", "--output", "json")), &rows))
	require.Len(t, rows, 3)
	assert.Equal(t, []any{"broken", strings.TrimSuffix(filepath.Base(saved[1]), ".json"), name}, []any{rows[0]["name"], rows[1]["name"], rows[2]["name"]}, "the oldest comes first")
	for _, row := range rows {
		assert.Equal(t, row["name"] == "broken", row["error"] != nil)
	}

	precious := h.file("precious.json", `{"not":"a call"}`)
	for _, args := range []string{"", name + " --all", precious, "nothing", "broken nothing"} {
		_, _, code := h.run(append([]string{"calls", "rm"}, strings.Fields(args)...)...)
		assert.Equal(t, exitUsage, code, args)
	}
	assert.FileExists(t, precious)
	h.ok("calls", "rm", name)
	assert.NoFileExists(t, saved[0])
	h.ok("calls", "rm", "broken")
	assert.FileExists(t, saved[1])
	h.ok("calls", "rm", "--all")
	assert.NoFileExists(t, saved[1])
	_, stderr, code = h.run("calls", "rm", "--all")
	assert.Zero(t, code)
	assert.Contains(t, stderr, "removed 0 saved calls")
}

// A call that the server does not take up again is not to be resumed again. The user
// learns what has become of it and how to start anew; the answers are kept.
func TestRefusedResume(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	address, cmd := h.serve("--keyset", "k.json")
	_, _, code := h.run("call", "complex_tool", "initial_arg=it's", "--server", address, "--save", "saved.json")
	require.Equal(t, exitNeedsAnswer, code)
	kill(t, cmd)

	h.ok("keys", "new", "--keyset", "other.json")
	other, _ := h.serve("--keyset", "other.json")
	_, stderr, code := h.run("call", "--resume", "saved.json", "--server", other, "--answers", h.file("a.json", bothAnswers))
	assert.Equal(t, exitServer, code)
	for _, want := range []string{
		"does not continue this call", "waited for too long", "other keys", "the tool has not run", "stays",
		"have ended\nand acted", "another user's", "may do everything twice", "in its ledger", "saga cancel saved.json\nStart again with",
		"saga call complex_tool\n", "saga calls rm saved.json",
	} {
		assert.Contains(t, stderr, want)
	}
	assert.NotContains(t, stderr, "Continue with")
	data, err := os.ReadFile(filepath.Join(h.dir, "saved.json"))
	require.NoError(t, err)
	assert.Contains(t, string(data), `"target": "production"`)
	assert.Contains(t, string(data), `"url": "`+address, "another server may know the call, so this one has not become its own")

	_, stderr, code = h.run("cancel", "saved.json", "--server", other)
	assert.Equal(t, exitServer, code)
	assert.Contains(t, stderr, "nothing was undone")
	assert.Contains(t, stderr, "in its ledger\nStart again with")
	assert.FileExists(t, filepath.Join(h.dir, "saved.json"))

	// In MCP 2026-07-28 nothing cancels a call.
	_, _, code = h.run("call", "complex_tool", "initial_arg=x", "--server", other, "--protocol", "2026-07-28", "--save", "modern.json")
	require.Equal(t, exitNeedsAnswer, code)
	_, stderr, code = h.run("cancel", "modern.json")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "do not resume it")
	assert.Contains(t, stderr, "saga calls rm modern.json")

	// Of a prompt there is nothing to undo.
	prompt := features(t)
	_, _, code = h.run("get", "write", "topic=a b", "--server", prompt, "--save", "prompt.json")
	require.Equal(t, exitNeedsAnswer, code)
	_, stderr, code = h.run("get", "--resume", "prompt.json", "--server", features(t), "--answers", h.file("w.json", `{"tone":{"tone":"x"}}`))
	assert.Equal(t, exitServer, code)
	assert.Contains(t, stderr, "saga get write\n")
	assert.NotContains(t, stderr, "undone")
}

// Advice names the command that the user has.
func TestAdviceNamesTheCommand(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	self, err := os.Executable()
	require.NoError(t, err)
	odd := filepath.Join(h.dir, "my tools")
	require.NoError(t, os.Mkdir(odd, 0o700))
	require.NoError(t, os.Symlink(self, filepath.Join(odd, "saga")))
	address, _ := h.serve()
	cmd := h.command("call", "complex_tool", "--server", address)
	cmd.Path, cmd.Args[0] = filepath.Join(odd, "saga"), filepath.Join(odd, "saga")
	out, err := cmd.CombinedOutput()
	assert.Equal(t, exitNeedsAnswer, exitOf(t, err))
	assert.Contains(t, string(out), "  '"+odd+"/saga' call --resume ")
	assert.Contains(t, string(out), "  '"+odd+"/saga' cancel ")

	cmd = h.command("call")
	cmd.Args[0] = "./bin/saga"
	out, _ = cmd.CombinedOutput()
	assert.Contains(t, string(out), "./bin/saga tools lists them; see ./bin/saga call --help")
}

// A call that is not over is not replaced by the position of another.
func TestSaveKeepsAnotherCall(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address, _ := h.serve()
	call := []string{"call", "complex_tool", "--server", address, "--save", "saved.json"}
	_, _, code := h.run(call...)
	require.Equal(t, exitNeedsAnswer, code)
	before, err := os.ReadFile(filepath.Join(h.dir, "saved.json"))
	require.NoError(t, err)
	_, stderr, code := h.run(call...)
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, "saga call --resume saved.json\n")
	assert.Contains(t, stderr, "saga calls rm saved.json\n")
	after, err := os.ReadFile(filepath.Join(h.dir, "saved.json"))
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))

	h.ok("call", "--resume", "saved.json", "--save", "saved.json", "--answers", h.file("a.json", bothAnswers))
	assert.NoFileExists(t, filepath.Join(h.dir, "saved.json"))
}

// A server that does not answer is named as what the call failed by, and for how long it was waited for.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	silent := []string{"--stdio", "while read -r line; do :; done", "--timeout", "150ms"}
	for _, args := range []string{"call x", "call x a=b", "tools", "call x --protocol saga", "call x a=b --protocol 2025-11-25"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			_, stderr, code := newHome(t).run(append(strings.Fields(args), silent...)...)
			assert.Equal(t, exitServer, code)
			assert.Contains(t, stderr, "the server did not answer in time\nIt has 150ms to answer a request, unless --timeout gives it more")
			assert.NotContains(t, stderr, "deadline")
		})
	}
}
