package program

import (
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/auth"
)

// statusWith is how a server answers a ping with these headers.
func statusWith(t *testing.T, address string, headers ...string) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, address, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// Machines call with keys of whose hashes the server has a file. It is loaded again when it changes, and one that cannot be
// leaves those that were loaded.
func TestServeForMachines(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("SIGHUP")
	}
	h := newHome(t)
	key, hash := auth.NewAPIKey()
	other, otherHash := auth.NewAPIKey()
	old, oldHash := auth.NewAPIKey()
	line := "- {hash: " + hash + ", subject: nightly, scopes: [tools]}\n"
	path := h.file("api-keys.yaml", line+"- {hash: "+oldHash+", subject: old, expires: 2020-01-01}\n- {hash: "+otherHash+", subject: few}\n")
	address, cmd := h.serve("--auth-api-keys", path, "--auth-scope", "tools:read")
	status := func(key string) int { return statusWith(t, address, "Authorization", "Bearer "+key) }
	assert.Equal(t, 200, status(key))
	assert.Equal(t, 403, status(other))
	assert.Equal(t, 401, status(old))
	assert.Equal(t, 401, statusWith(t, address))
	assert.Contains(t, h.ok("tools", "--server", address, "--bearer", key), "complex_tool")

	for _, unusable := range []string{"nothing like a list\n", "", "# ", "null"} {
		h.file("api-keys.yaml", unusable)
		require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, 200, status(key), "those that were loaded stay: %q", unusable)
	}
	h.file("api-keys.yaml", strings.Replace(line, hash, otherHash, 1))
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return status(key) == 401 && status(other) == 200 }, 4*time.Second, 20*time.Millisecond)

	again := *h
	again.env = append(append([]string{}, h.env...), lookEvery+"=20ms", "SAGA_AUTH_API_KEYS="+path)
	address, _ = again.serve("--auth-proxy-user", "X-User", "--trusted-proxy", "127.0.0.1")
	assert.Equal(t, 401, status(key))
	assert.Equal(t, 200, statusWith(t, address, "X-User", "ann"))
	h.file("api-keys.yaml", line)
	require.Eventually(t, func() bool { return status(key) == 200 }, 10*time.Second, 20*time.Millisecond, "also without a signal")
	h.file("api-keys.yaml", "[]")
	require.Eventually(t, func() bool { return status(key) == 401 }, 10*time.Second, 20*time.Millisecond)
}

func TestMistakesInAuthorization(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	keys, secret := h.file("keys.yaml", "[]\n"), h.file("secret", "hush\n")
	issuer := []string{"--auth-issuer", "https://login.example.com"}
	for want, args := range map[string][]string{
		"--auth-scope needs a way to find out who calls":                    {"--auth-scope", "tools"},
		"--auth-resource is needed where other machines may use the server": append([]string{"--allow-host", "tools.example.com"}, issuer...),
		"must be https, or on this machine":                                 {"--auth-issuer", "http://login.example.com"},
		`there is no tool "complex_toll"; did you mean complex_tool?`:       append([]string{"--auth-tool-scope", "complex_toll=a"}, issuer...),
		"a tool and a scope are wanted":                                     append([]string{"--auth-tool-scope", "complex_tool"}, issuer...),
		`"a b" is no scope`:                                                 append([]string{"--auth-scope", "a b"}, issuer...),
		"--auth-introspect-id is needed as well":                            append([]string{"--auth-introspect-secret", secret}, issuer...),
		"--auth-introspect-secret: it must name a file":                     append([]string{"--auth-introspect-id", "us", "--auth-introspect-secret", "hush"}, issuer...),
		"the environment variable that it names is not set":                 append([]string{"--auth-introspect-id", "us", "--auth-introspect-secret", "env:NONE"}, issuer...),
		"--auth-api-keys: open":                                             {"--auth-api-keys", filepath.Join(h.dir, "none")},
		"field hsah not found":                                              {"--auth-api-keys", h.file("a.yaml", "- {hsah: x}\n")},
		"b2.yaml has more than one document":                                {"--auth-api-keys", h.file("b2.yaml", "[]\n---\n[]\n")},
		`--auth-dpop is no, allowed or required, not "yes"`:                 append([]string{"--auth-dpop", "yes"}, issuer...),
		"--auth-dpop needs a way to find out who calls":                     {"--auth-dpop", "required"},
		"--auth-dpop is about access tokens, and needs the --auth-issuer":   {"--auth-dpop", "required", "--auth-api-keys", keys},
		"--auth-introspect-id is about access tokens":                       {"--auth-introspect-id", "us", "--auth-api-keys", keys},
		"--auth-audience is about access tokens":                            {"--auth-audience", "us", "--auth-api-keys", keys},
		"--auth-machines is about access tokens":                            {"--auth-machines", "--auth-api-keys", keys},
		"--auth-proxy-scopes needs --auth-proxy-user":                       {"--auth-proxy-scopes", "X-Scopes", "--auth-api-keys", keys},
		"none.yaml is empty: for no keys write []":                          {"--auth-api-keys", h.file("none.yaml", "")},
		"--auth-issuer is no URL of a server":                               {"--auth-issuer", "https://u:hush@login.example.com", "--print-config"},
		"--auth-keys-url is no URL of a server":                             append([]string{"--auth-keys-url", "https://u:hush@a.example.com/%%", "--print-config"}, issuer...),
		"is no list of keys, each with a hash":                              {"--auth-api-keys", h.file("b.yaml", "a: 1\n")},
		`"ann" and "bob" have the same key`:                                 {"--auth-api-keys", h.file("d.yaml", "- {hash: "+strings.Repeat("ab", 32)+", subject: ann}\n- {hash: "+strings.Repeat("AB", 32)+", subject: bob}\n")},
		"must have 64 hexadecimal digits":                                   {"--auth-api-keys", h.file("c.yaml", "- {hash: mk_hush, subject: x}\n")},
		"--auth-proxy-user and --trusted-proxy are required":                {"--auth-proxy-user", "X-User"},
		"--auth-keys-url is required for issuers of several names":          {"--auth-issuer", "https://login.example.com/{tid}"},
	} {
		_, stderr, code := h.run(append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
		assert.NotZero(t, code, want)
		assert.Contains(t, stderr, want)
		assert.NotContains(t, stderr, "hush")
	}

	config := h.file("saga.yaml", "auth-issuer: https://login.example.com\nauth-scope: [tools:read]\nauth-tool-scope: [complex_tool=tools:write]\nauth-introspect-id: us\nauth-api-keys: "+keys+"\n")
	out, _ := h.printed("serve", "--config", config, "--print-config", "--auth-introspect-secret", "hush")
	for _, line := range []string{"auth-issuer: https://login.example.com", "auth-scope: ['tools:read']", "auth-tool-scope: ['complex_tool=tools:write']",
		"auth-introspect-id: us", "auth-api-keys: " + keys, "auth-subject: sub", "# auth-introspect-secret: not shown, as it is no name of a file or variable"} {
		assert.Contains(t, "\n"+out, "\n"+line+"\n")
	}
	assert.NotContains(t, out, "hush")
	out, _ = h.printed("serve", "--print-config", "--auth-introspect-secret", secret)
	assert.Contains(t, out, "auth-introspect-secret: "+secret)
}

// What is to say who may call, and is empty as what fills it is missing, must not let all in.
func TestEmptyVariablesOfAuthorization(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	config := h.file("saga.yaml", "auth-api-keys: "+h.file("keys.yaml", "[]\n")+"\n")
	for _, variable := range []string{"SAGA_AUTH_API_KEYS", "SAGA_AUTH_ISSUER", "SAGA_AUTH_SCOPE", "SAGA_AUTH_MACHINES"} {
		empty := *h
		empty.env = append(slices.Clone(h.env), variable+"=")
		for _, more := range []string{"", "--print-config", "--config=" + config} {
			args := slices.DeleteFunc([]string{"serve", "--addr", "127.0.0.1:0", more}, func(s string) bool { return s == "" })
			_, stderr, code := empty.run(args...)
			assert.Equal(t, exitUsage, code, variable)
			assert.Contains(t, stderr, "the environment variable "+variable+" is empty")
		}
	}
	h.env = append(h.env, "SAGA_AUTH_ISSUER=")
	h.ok("worker", "--print-config", "--ledger", "postgres://x") // which has no callers
	h.ok("serve", "--print-config", "--auth-issuer", "https://login.example.com")
}
