package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What newcomers get wrong is answered with what to do, in words of this program.
func TestMistakesGetAdvice(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a command misspelt":         {[]string{"cal", "x"}, exitUsage, `there is no command "cal"; did you mean call?; see saga --help`},
		"a command below, misspelt":  {[]string{"tasks", "wathc"}, exitUsage, `did you mean watch?`},
		"a flag misspelt":            {[]string{"call", "x", "--anwsers", "f"}, exitUsage, `-anwsers; did you mean --answers?; see saga call --help`},
		"a flag like no other":       {[]string{"call", "x", "--frobnicate"}, exitUsage, `-frobnicate; see saga call --help`},
		"resume what is not there":   {[]string{"call", "--resume", "x"}, exitUsage, "there is no saved call x; saga calls lists"},
		"cancel what is not there":   {[]string{"cancel", "x"}, exitUsage, "there is no saved call x; saga calls lists"},
		"remove what is not there":   {[]string{"calls", "rm", "x"}, exitUsage, "there is no saved call x; saga calls lists"},
		"no such command":            {[]string{"rotate"}, exitUsage, `there is no command "rotate"; see saga --help`},
		"no such command of keys":    {[]string{"keys", "rotate"}, exitUsage, `there is no command "rotate"; see saga keys --help`},
		"no such command of tokens":  {[]string{"token", "x"}, exitUsage, `there is no command "x"; see saga token --help`},
		"an address without scheme":  {[]string{"tools", "--server", "localhost:8080"}, exitUsage, "is not a URL such as http://127.0.0.1:8080/mcp"},
		"repositories that are not":  {[]string{"serve", "--repo", "nowhere"}, exitUsage, "nowhere is not a directory"},
		"a keyset that exists":       {[]string{"keys", "new", "--keyset", "k.json"}, exitFailed, "saga keys add --keyset k.json"},
		"a key that is not there":    {[]string{"keys", "disable", "--keyset", "k.json", "x"}, exitUsage, "saga keys list --keyset k.json shows them"},
		"a key is added, what next":  {[]string{"keys", "add", "--keyset", "k.json"}, 0, "saga keys promote --keyset k.json "},
		"a keyset that is missing":   {[]string{"keys", "list", "--keyset", "other.json"}, exitFailed, "create it with: saga keys new --keyset other.json"},
		"a key for what is missing":  {[]string{"keys", "add", "--keyset", "other.json"}, exitFailed, "create it with: saga keys new --keyset other.json"},
		"a keyset nowhere":           {[]string{"keys", "new", "--keyset", "no/where/k.json"}, exitFailed, "there is no directory no/where: make it first"},
		"a token without keys":       {[]string{"token", "explain", "x", "--keyset", "none.json"}, exitFailed, "name that of the server with --keyset"},
		"no ledger to work on":       {[]string{"worker", "--keyset", "none.json", "--ledger", "sqlite:none/none.db"}, exitFailed, "there is no ledger: stat none/none.db: no such file or directory\nName that of the servers with --ledger; saga serve makes one"},
		"no ledger":                  {[]string{"ledger", "--ledger", "sqlite:none.db"}, exitFailed, "Name that of the servers with --ledger; saga serve makes one"},
		"a ledger without keys":      {[]string{"ledger", "--ledger", "postgres://x", "--keyset", "none.json"}, exitFailed, "name that of the server with --keyset"},
		"tokens of no time":          {[]string{"serve", "--token-ttl", "-5s"}, exitUsage, `"-5s" for flag --token-ttl: it must be 1s at least`},
		"an origin that is none":     {[]string{"serve", "--addr", "127.0.0.1:0", "--ledger", "off", "--allow-origin", "x"}, exitUsage, `--allow-origin "x": it must be scheme, host and port`},
		"a host that is none":        {[]string{"serve", "--addr", "127.0.0.1:0", "--ledger", "off", "--allow-host", "http://x"}, exitUsage, `--allow-host "http://x": it must be a host name`},
		"a server that ends":         {[]string{"tools", "--stdio", "exit 3", "--protocol", "2025-11-25", "--retry-for", "1ms"}, exitServer, "the server process ended: exit status 3"},
		"a server that is not there": {[]string{"tools", "--stdio", "/nonexistent/server", "--retry-for", "3s"}, exitServer, "exit status 127"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, stderr, code := h.run(c.args...)
			assert.Equal(t, c.code, code)
			assert.Contains(t, stderr, c.want)
			assert.NotContains(t, stderr, "trying again")
		})
	}
}

// Who has misspelt a tool, or calls one that asks in a way of older revisions, is told.
func TestToolsGetAdvice(t *testing.T) {
	t.Parallel()
	list := object{"tools": []object{{"name": "release_notes"}, {"name": "repo_report"}}}
	h, server := newHome(t), hostile(t, map[string]any{"tools/list": list})
	for _, arguments := range []string{"", "a=b"} {
		_, stderr, code := h.run(append([]string{"call", "relase_notes", "--server", server}, strings.Fields(arguments)...)...)
		assert.NotZero(t, code)
		assert.Contains(t, stderr, "; did you mean release_notes?")
	}
	_, stderr, _ := h.run("call", "release_notes", "--server", server)
	assert.NotContains(t, stderr, "did you mean")
	for text, protocol := range map[string]string{
		"elicitation/create: no session": "", "tool 'x' requires task augmentation": "", "roots/list: no session": "2026-07-28",
	} {
		failing := object{"isError": true, "content": []object{{"type": "text", "text": text}}}
		_, stderr, code := h.run("call", "x", "--protocol", protocol, "--server", hostile(t, map[string]any{
			"tools/callSaga": failing, "tools/call": failing}))
		assert.Equal(t, exitFailed, code)
		assert.Equal(t, protocol == "", strings.Contains(stderr, "speak one of these with it: --protocol 2025-11-25"), stderr)
	}
}

// Images and files of a result are written into a directory, and replace nothing there.
func TestCallWritesWhatIsNotText(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	server := hostile(t, map[string]any{"tools/callSaga": object{"content": []object{
		{"type": "text", "text": "Done."},
		{"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zy8+"},
		{"type": "image", "mimeType": "../../etc/passwd", "data": "AA=="},
		{"type": "resource", "resource": object{"uri": "report://x/table.csv", "mimeType": "text/csv", "text": "a,b"}},
		{"type": "audio", "mimeType": "audio/wav", "data": "AQ=="}}}})
	require.NoError(t, os.Mkdir(filepath.Join(h.dir, "out"), 0o700))
	h.file("out/audio.wav", "mine")
	assert.Contains(t, h.ok("call", "x", "--server", server, "--to", "out"), "Done.")
	got := map[string]string{}
	entries, err := os.ReadDir(filepath.Join(h.dir, "out"))
	require.NoError(t, err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(h.dir, "out", e.Name()))
		require.NoError(t, err)
		name := e.Name()
		if string(data) == "\x01" {
			assert.Regexp(t, `^audio-[0-9]+\.wav$`, name, "mine is not replaced")
			name = "audio-N.wav"
		}
		got[name] = string(data)
	}
	assert.Equal(t, map[string]string{"image.svg": "<svg/>", "passwd": "\x00", "table.csv": "a,b", "audio.wav": "mine", "audio-N.wav": "\x01"}, got)
}

// Who has mistyped the path of a server is told which address is wrong, and what is right, whatever is
// spoken; and does not wait for a server that is there.
func TestAPathThatIsWrong(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address, _ := h.serve()
	wrong := strings.TrimSuffix(address, "/mcp") + "/wrong"
	for _, protocol := range []string{"", "saga", "2026-07-28", "2025-11-25", "2024-11-05"} {
		call := []string{"call", "complex_tool", "--server", wrong}
		if protocol != "" {
			call = append(call, "--protocol", protocol)
		}
		_, stderr, code := h.run(call...)
		assert.Equal(t, exitServer, code)
		assert.Equal(t, "saga: the server answered with HTTP status 404: "+wrong+" is not an MCP endpoint; check the path of the URL, which most servers have at /mcp\n", stderr, "protocol %s", protocol)
	}
}

// The token of a saved call is looked into by the call's name.
func TestExplainSavedCall(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address, _ := h.serve()
	_, _, code := h.run("call", "complex_tool", "--server", address, "--save", "saved.json")
	require.Equal(t, exitNeedsAnswer, code)
	out := h.ok("token", "explain", "saved.json")
	assert.Contains(t, out, "complex_tool")
	_, _, code = h.run("token", "explain", "nothing-there")
	assert.Equal(t, exitFailed, code)
}

// A name is suggested if it differs in one place, and not much.
func TestDidYouMean(t *testing.T) {
	names := []string{"call", "calls", "watch", "answers", "release_notes", "promote"}
	for given, want := range map[string]string{
		"cal": "call", "wathc": "watch", "anwsers": "answers", "relase_notes": "release_notes", "releasenotes": "release_notes", "callss": "calls",
		"": "", "x": "", "rotate": "", "frobnicate": "", strings.Repeat("call", 1000): "",
	} {
		if want != "" {
			want = "; did you mean --" + want + "?"
		}
		assert.Equal(t, want, didYouMean(given, "--", names), given)
	}
	assert.Empty(t, didYouMean("call", "", nil))
}
