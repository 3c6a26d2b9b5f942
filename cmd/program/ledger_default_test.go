package program

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/gittest"
)

// Without being told, a user's own server has a ledger beside the user's own keyset; one
// with a keyset that is named, and perhaps shared, has none.
func TestDefaultLedger(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	own := filepath.Join(h.dir, "config", "saga", "ledger.db")
	h.ok("keys", "new", "--keyset", "k.json")
	h.ok("stdio", "--keyset", "k.json")
	assert.NoFileExists(t, own)
	h.ok("stdio", "--ledger", "off")
	assert.NoFileExists(t, own)
	h.ok("stdio", "--ledger", "memory")
	assert.NoFileExists(t, own)
	h.ok("stdio")
	info, err := os.Stat(own)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	h.ok("ledger", "check")
	_, stderr, code := h.run("stdio", "--keyset", "k.json", "--ledger", "sqlite:sub/l.db")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "there is no directory")
	require.NoError(t, os.Mkdir(filepath.Join(h.dir, "sub"), 0o700))
	h.ok("stdio", "--keyset", "k.json", "--ledger", "sqlite:sub/l.db")
	assert.FileExists(t, filepath.Join(h.dir, "sub", "l.db"))
	_, stderr, _ = h.run("stdio", "--log-json")
	assert.Contains(t, stderr, `"ledger":"sqlite:`+own+`"`)
}

// stdio has a server answer what comes on its input.
func (h *home) stdio(input string, args ...string) string {
	cmd := h.command(append([]string{"stdio"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	require.NoError(h.t, err)
	return string(out)
}

// Hosts start a server over stdio in each project. With the user's own keyset and ledger, none works on what another has begun.
func TestOwnLedgersAreOfOneDirectory(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	audience := func(args ...string) string {
		out, _ := h.printed(append(args, "--print-config")...)
		for line := range strings.Lines(out) {
			if rest, ok := strings.CutPrefix(line, "audience: "); ok {
				return strings.Trim(strings.TrimSpace(strings.Split(rest, "#")[0]), `'"`)
			}
		}
		return "none"
	}
	own := audience("stdio")
	assert.Equal(t, "stdio "+h.dir, own)
	gittest.New(t, h.dir)
	elsewhere := audience("stdio", "--repo", h.dir)
	assert.Regexp(t, `^`+own+` [0-9a-f]{8}$`, elsewhere, "its tools do something else")
	other := *h
	other.dir = filepath.Join(h.dir, "other")
	require.NoError(t, os.Mkdir(other.dir, 0o700))
	odd := *h
	odd.dir = filepath.Join(h.dir, "odd \xff")
	require.NoError(t, os.Mkdir(odd.dir, 0o700))
	h.ok("keys", "new", "--keyset", "k.json")
	for _, args := range [][]string{{"serve"}, {"stdio", "--keyset", "k.json"}, {"stdio", "--ledger", "sqlite:l.db"}} {
		assert.Empty(t, audience(args...), args)
	}
	assert.Equal(t, "mine", audience("stdio", "--audience", "mine"))

	call := `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"complex_tool","arguments":{"initial_arg":"x"}}}` + "\n"
	token := regexp.MustCompile(`"sagaToken":"([^"]+)"`).FindStringSubmatch(h.stdio(call))
	require.NotNil(t, token)
	cancel := `{"jsonrpc":"2.0","id":2,"method":"tools/cancelSaga","params":{"sagaToken":"` + token[1] + `"}}` + "\n"
	assert.Contains(t, other.stdio(cancel), `"error"`, "another project's")
	assert.Contains(t, h.stdio(cancel), `"result"`)

	ask := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"release_notes","arguments":{},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"
	require.Contains(t, h.stdio(ask, "--repo", h.dir), "resumeToken")
	assert.Contains(t, h.ok("ledger", "--audience", elsewhere), "release_notes", "operators find it")
	_, stderr, _ := h.run("ledger", "--audience", own)
	assert.Contains(t, stderr, "A server logs its audience when it starts", "or read how to")
	shown := odd.ok("stdio", "--print-config")
	assert.Contains(t, shown, `odd \xff`, "stores take UTF-8 alone")
	assert.True(t, utf8.ValidString(shown))
}
