package interop

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serveWithFlags starts the command's server on an address of its own, and returns its endpoint and what it logs.
func serveWithFlags(t *testing.T, env []string, flags ...string) (endpoint string, log func() string) {
	require.NoError(t, buildSaga())
	cmd := exec.Command(filepath.Join(work, "saga"), append([]string{"serve", "--addr", "127.0.0.1:0"}, flags...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"HOME=" + cmd.Dir}, env...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var mu sync.Mutex
	var text bytes.Buffer
	lines, done := bufio.NewReader(stderr), make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		_ = cmd.Wait()
	})
	log = func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
	found := make(chan string, 1)
	go func() {
		defer close(done)
		for {
			line, err := lines.ReadString('\n')
			mu.Lock()
			text.WriteString(line)
			mu.Unlock()
			if _, after, ok := strings.Cut(line, "msg=serving url="); ok {
				found <- strings.Fields(after)[0]
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case endpoint = <-found:
	case <-done:
	case <-time.After(time.Minute):
	}
	require.NotEmpty(t, endpoint, "%s", log())
	return endpoint, log
}

// TestAuthorizationByFlags: with flags alone, a server takes the tokens of an authorization server that it knows by its issuer
// alone, and says what clients need to get them.
func TestAuthorizationByFlags(t *testing.T) {
	t.Parallel()
	issuer := startAuthServer(t)
	for _, opaque := range []bool{false, true} {
		flags := []string{"--auth-issuer", issuer, "--auth-machines", "--auth-scope", "tools:read", "--auth-tool-scope", "complex_tool=orders"}
		var env []string
		audience := "" // that of the endpoint
		if opaque {
			audience = "http://127.0.0.1:1/opaque"
			flags = append(flags, "--auth-audience", audience, "--auth-introspect-id", "resource-server", "--auth-introspect-secret", "env:HUSH")
			env = append(env, "HUSH=secret of resource-server")
		}
		endpoint, log := serveWithFlags(t, env, flags...)
		if !opaque {
			audience = endpoint
		}
		metadata := strings.TrimSuffix(endpoint, "/mcp") + "/.well-known/oauth-protected-resource/mcp"
		good := machineToken(t, issuer, "machine", audience, "tools:read orders")
		assert.Equal(t, opaque, strings.Count(good, ".") != 2)
		for _, version := range []string{"2026-07-28", "2025-11-25"} {
			status, header, _ := ask(t, endpoint, version, "initialize", "")
			assert.Equal(t, 401, status)
			assert.Equal(t, `Bearer resource_metadata="`+metadata+`", scope="tools:read"`, header.Get("WWW-Authenticate"))
			status, header, _ = ask(t, endpoint, version, "initialize", machineToken(t, issuer, "machine", audience, "orders"))
			assert.Equal(t, 403, status)
			assert.Contains(t, header.Get("WWW-Authenticate"), `error="insufficient_scope"`)
			status, _, body := ask(t, endpoint, version, "initialize", good)
			assert.Equal(t, 200, status, body)
			status, header, _ = ask(t, endpoint, version, "initialize", good[:len(good)-3]+"AAA")
			assert.Equal(t, 401, status)
			assert.Contains(t, header.Get("WWW-Authenticate"), `error="invalid_token"`)
			other := machineToken(t, issuer, "machine", "http://127.0.0.1:1/other", "tools:read")
			if opaque {
				other = machineToken(t, issuer, "machine", "http://127.0.0.1:1/opaque/other", "tools:read")
			}
			status, _, _ = ask(t, endpoint, version, "initialize", other)
			assert.Equal(t, 401, status, "a token for another server")
		}
		// The tool's scope is asked for by the call alone.
		call := `{"name":"complex_tool","arguments":{"initial_arg":"x"}}`
		status, header, _ := ask(t, endpoint, "2025-11-25", "tools/callSaga", machineToken(t, issuer, "machine", audience, "tools:read"), call)
		assert.Equal(t, 403, status)
		assert.Contains(t, header.Get("WWW-Authenticate"), `scope="tools:read orders"`)
		status, _, body := ask(t, endpoint, "2025-11-25", "tools/callSaga", good, call)
		assert.Equal(t, 200, status, body)
		assert.Contains(t, body, "sagaToken")

		resp, err := http.Get(metadata)
		require.NoError(t, err)
		raw, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.JSONEq(t, `{"resource":"`+endpoint+`","authorization_servers":["`+issuer+`"],"scopes_supported":["orders","tools:read"],
			"bearer_methods_supported":["header"],"resource_name":"saga"}`, string(raw))
		assert.NotContains(t, log(), "secret of")
		assert.NotContains(t, log(), good)
	}
}

// TestAuthorizationServerIsAway: a server starts without it, says so, and has clients with tokens come again.
func TestAuthorizationServerIsAway(t *testing.T) {
	t.Parallel()
	token := machineToken(t, startAuthServer(t), "machine", "http://127.0.0.1:1/mcp", "tools:read")
	const away = "http://127.0.0.1:1"
	endpoint, log := serveWithFlags(t, nil, "--auth-issuer", away, "--auth-introspect-id", "us", "--auth-introspect-secret", "/proc/version")
	require.Eventually(t, func() bool { return strings.Contains(log(), "the authorization server cannot be asked; until it can") }, 10*time.Second, 10*time.Millisecond)
	status, _, _ := ask(t, endpoint, "2026-07-28", "initialize", "")
	assert.Equal(t, 401, status)
	for _, token := range []string{token, "opaque"} {
		status, header, body := ask(t, endpoint, "2026-07-28", "initialize", token)
		assert.Equal(t, 503, status)
		assert.NotEmpty(t, header.Get("Retry-After"))
		assert.NotContains(t, body, "127.0.0.1")
	}
}
