package program

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
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
		assert.Equal(t, exitUsage, code, origin)
		assert.Contains(t, stderr, "--allow-origin")
	}
}

// Without --addr the server listens on the loopback interface only.
func TestServeListensOnThisMachine(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("reads what the process listens on from /proc: needs Linux")
	}
	host, port, err := net.SplitHostPort(defaultAddr)
	require.NoError(t, err)
	assert.True(t, net.ParseIP(host).IsLoopback())
	assert.Contains(t, newHome(t).ok("serve", "--help"), `(default: "`+defaultAddr+`")`)
	if other, err := net.Dial("tcp", defaultAddr); err == nil {
		require.NoError(t, other.Close())
		t.Skipf("another program listens on port %s of this machine", port)
	}

	h := newHome(t)
	_, cmd := h.startServe(h.command("serve"))
	listening := listeners(t, cmd.Process.Pid)
	assert.NotEmpty(t, listening)
	for _, address := range listening {
		assert.True(t, address.Addr().IsLoopback(), address)
	}
}

// listeners are the TCP addresses that a process listens on.
func listeners(t *testing.T, pid int) (list []netip.AddrPort) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/", pid)
	open, err := os.ReadDir(dir + "fd")
	require.NoError(t, err)
	own := map[string]bool{}
	for _, f := range open {
		if link, err := os.Readlink(dir + "fd/" + f.Name()); err == nil {
			own[strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")] = true
		}
	}
	const listen = "0A"
	for _, table := range []string{"net/tcp", "net/tcp6"} {
		lines, err := os.ReadFile(dir + table)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		for line := range strings.Lines(string(lines)) {
			columns := strings.Fields(line)
			if columns[3] != listen || !own[columns[9]] {
				continue
			}
			address, port, _ := strings.Cut(columns[1], ":")
			raw, err := hex.DecodeString(address)
			require.NoError(t, err)
			for i := 0; i < len(raw); i += 4 { // words in the machine's order, which is little-endian here
				slices.Reverse(raw[i : i+4])
			}
			ip, ok := netip.AddrFromSlice(raw)
			require.True(t, ok)
			number, err := strconv.ParseUint(port, 16, 16)
			require.NoError(t, err)
			list = append(list, netip.AddrPortFrom(ip.Unmap(), uint16(number)))
		}
	}
	return list
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

// Behind a proxy that is trusted, callers have limits of their own. Anybody else who
// sends its header is not believed.
func TestServeTellsCallersApartBehindAProxy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags []string
		lost  bool
	}{
		"a trusted proxy": {[]string{"--trusted-proxy", "10.0.0.0/8", "--trusted-proxy", "127.0.0.1"}, true},
		"another":         {[]string{"--trusted-proxy", "10.0.0.0/8"}, false},
		"no proxy":        {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, _ := newHome(t).serve(test.flags...)
			send := func(from, session, message string) *http.Response {
				r, err := http.NewRequest(http.MethodPost, address, strings.NewReader(message))
				require.NoError(t, err)
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-Forwarded-For", "198.51.100.99, "+from)
				if session != "" {
					r.Header.Set("Mcp-Session-Id", session)
				}
				w, err := http.DefaultClient.Do(r)
				require.NoError(t, err)
				_, err = io.Copy(io.Discard, w.Body)
				require.NoError(t, err)
				require.NoError(t, w.Body.Close())
				return w
			}
			open := func(from string) string {
				id := send(from, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`).Header.Get("Mcp-Session-Id")
				require.NotEmpty(t, id)
				return id
			}
			// listen opens the stream of a session, which is then in use.
			listen := func(from, session string) int {
				r, err := http.NewRequest(http.MethodGet, address, nil)
				require.NoError(t, err)
				r.Header.Set("Accept", "text/event-stream")
				r.Header.Set("X-Forwarded-For", "198.51.100.99, "+from)
				r.Header.Set("Mcp-Session-Id", session)
				w, err := http.DefaultClient.Do(r)
				require.NoError(t, err)
				t.Cleanup(func() { _ = w.Body.Close() })
				return w.StatusCode
			}
			const greedy, other = "203.0.113.7", "203.0.113.8"
			for range 100 { // MaxSessionsPerPrincipal
				assert.Equal(t, http.StatusOK, listen(greedy, open(greedy)))
			}
			assert.Equal(t, http.StatusOK, listen(other, open(other)), "nobody takes another's sessions")
			assert.Equal(t, test.lost, listen(greedy, open(greedy)) == http.StatusServiceUnavailable)
		})
	}
	for _, proxy := range []string{"0.0.0.0/0", "proxy.example.com"} {
		_, stderr, code := newHome(t).run("serve", "--addr", "127.0.0.1:0", "--trusted-proxy", proxy)
		assert.Equal(t, exitUsage, code, proxy)
		assert.Contains(t, stderr, "--trusted-proxy")
	}
}
