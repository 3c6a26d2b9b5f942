package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// --allow-origin lets a page in, as its browser sees it; what lets in more than it
// says is refused at the start, with what to do.
func TestServeAllowsOrigins(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address, _ := h.serve("--allow-origin", "https://app.example.com")
	for origin, want := range map[string]int{"https://app.example.com": 204, "https://evil.example": 403} {
		preflight, err := http.NewRequest(http.MethodOptions, address, nil)
		require.NoError(t, err)
		preflight.Header.Set("Origin", origin)
		preflight.Header.Set("Access-Control-Request-Method", "POST")
		preflight.Header.Set("Access-Control-Request-Headers", "content-type,mcp-session-id")
		response, err := http.DefaultClient.Do(preflight)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, want, response.StatusCode)
		if want == 204 {
			assert.Equal(t, origin, response.Header.Get("Access-Control-Allow-Origin"))
		} else {
			assert.Contains(t, string(body), "--allow-origin")
		}
	}
	for _, origin := range []string{"*", "app.example.com", "null", "https://*.example.com"} {
		_, stderr, code := h.run("serve", "--addr", "127.0.0.1:0", "--allow-origin", origin)
		assert.Equal(t, exitFailed, code, origin)
		assert.Contains(t, stderr, "AllowedOrigins")
	}
}

// Unless told otherwise, nobody but this machine reaches the server.
func TestServeListensOnThisMachine(t *testing.T) {
	t.Parallel()
	host, _, err := net.SplitHostPort(defaultAddr)
	require.NoError(t, err)
	assert.True(t, net.ParseIP(host).IsLoopback())
	assert.Contains(t, newHome(t).ok("serve", "--help"), `(default: "`+defaultAddr+`")`)
}

// On standard output there are messages and nothing else; what operators should know
// goes to standard error.
func TestStdioLogsToStandardError(t *testing.T) {
	t.Parallel()
	cmd := newHome(t).command("stdio")
	cmd.Stdin = strings.NewReader("no message\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/resumeSaga","params":{"sagaToken":"x","completedSteps":[]}}` + "\n")
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	require.NoError(t, cmd.Run())
	assert.Contains(t, text.String(), "token refused")
	answers := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	assert.Len(t, answers, 2)
	for _, line := range answers {
		assert.Contains(t, line, `{"jsonrpc":"2.0"`)
	}
}

// A replica that does not tell its keys is not taken for one without the key.
func TestPromoteAsksUnderAnAllowedName(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	address, _ := h.serve("--keyset", "k.json")
	ids := keyIDs(h.ok("keys", "add", "--keyset", "k.json"))
	// The same machine, under a spelling that is not among the server's names.
	foreign := strings.Replace(address, "127.0.0.1", "localhost.", 1)
	if _, err := http.Get(foreign); err != nil {
		t.Skip("this machine does not resolve localhost with a dot at its end")
	}
	_, stderr, code := h.run("keys", "promote", "--keyset", "k.json", "--replica", foreign, ids[1])
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "--allow-host")
	assert.Contains(t, stderr, "nothing was promoted")
}
