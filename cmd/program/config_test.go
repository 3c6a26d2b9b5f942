package program

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/server"
)

// printed runs a program that prints its configuration, and returns that, without the places, and the places alone.
func (h *home) printed(args ...string) (config string, from map[string]string) {
	h.t.Helper()
	from = make(map[string]string)
	for line := range strings.Lines(h.ok(args...)) {
		said, where, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  # ")
		require.True(h.t, ok, line)
		config += said + "\n"
		name, _, _ := strings.Cut(strings.TrimPrefix(said, "# "), ": ")
		from[name] = where
	}
	return config, from
}

// The command line comes before the environment, and that before the file. What is printed says so, and is such a file.
func TestConfig(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "SAGA_LEASE=20s", "SAGA_PAGE_SIZE=7", "SAGA_AUDIENCE=")
	path := h.file("saga.yaml", `# of a deployment
token-ttl: 30m
ledger: off
audience: prod
allow-host: [tools.example.com, example.org]
auth-claim: [a, "b,c"]
page-size: 9
lease: 30s
workers: 2
repo: .
answers: a.json # of other commands
`)
	config, from := h.printed("serve", "--config", path, "--print-config", "--workers", "3")
	for _, line := range []string{
		"token-ttl: 30m0s", `ledger: "off"`, "audience: prod", "allow-host: [tools.example.com, example.org]", `auth-claim: [a, 'b,c']`,
		"page-size: 7", "lease: 20s", "workers: 3", "max-sessions: 10000", "undo-grace: 720h0m0s", "allow-origin: []", "# repo: not shown",
	} {
		assert.Contains(t, "\n"+config, "\n"+line+"\n")
	}
	for name, where := range map[string]string{
		"token-ttl": path + ", line 2", "audience": path + ", line 4", "page-size": "environment, SAGA_PAGE_SIZE", "workers": "command line", "max-body": "default",
	} {
		assert.Equal(t, where, from[name], name)
	}

	again, _ := h.printed("serve", "--config", h.file("printed.yaml", config), "--print-config", "--repo", ".")
	assert.Equal(t, config, again)

	config, _ = h.printed("serve", "--auth-issuer", "", "--print-config", "--repo", ".")
	assert.Contains(t, config, "\n# auth-issuer: not set\n")
	again, _ = h.printed("serve", "--config", h.file("printed.yaml", config), "--print-config", "--repo", ".")
	assert.Equal(t, config, again)

	for line, want := range map[string]string{"auth-issuer: ''": "auth-issuer is empty", "auth-api-keys: ''": "auth-api-keys is empty"} {
		for _, more := range [][]string{nil, {"--print-config"}} {
			_, stderr, code := h.run(append([]string{"serve", "--config", h.file("empty.yaml", line)}, more...)...)
			assert.Equal(t, exitUsage, code, line)
			assert.Contains(t, stderr, want)
		}
	}

	h.env = append(h.env, "SAGA_CONFIG="+path)
	_, from = h.printed("worker", "--print-config", "--ledger", "postgres://x")
	assert.Equal(t, path+", line 9", from["workers"])
	assert.NotContains(t, from, "addr")
}

// A server starts with what was printed, also where none has run before.
func TestPrintedConfigStartsAServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	config := h.file("printed.yaml", h.ok("serve", "--print-config"))
	address, _ := h.startServe(h.command("--config", config, "serve", "--addr", "127.0.0.1:0"))
	_, _, code := h.run("call", "complex_tool", "--server", address)
	assert.Equal(t, exitNeedsAnswer, code)
}

// A SIGHUP has no file override the environment, whatever the name of the file is.
func TestLevelOfTheEnvironmentStays(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.file("e", "log-level: debug")
	cmd := h.command("serve", "--addr", "127.0.0.1:0", "--config", "e")
	cmd.Env = append(cmd.Env, "SAGA_LOG_LEVEL=info")
	log, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if strings.Contains(lines.Text(), "url=") {
			require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
		}
		if strings.Contains(lines.Text(), "settings loaded again") {
			assert.Contains(t, lines.Text(), "log-level=INFO")
			return
		}
	}
	assert.Fail(t, "the settings were not loaded again")
}

// A configuration that is printed shows nothing secret.
func TestPrintedConfigHasNoSecrets(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "SAGA_LEDGER=postgres://me:hush@db.example.com/x?password=hush", "SAGA_REPO=.", "SAGA_BEARER=hush", "SAGA_MODEL_KEY=hush")
	for _, command := range []string{"serve", "stdio", "worker"} {
		out := h.ok(command, "--print-config")
		assert.NotContains(t, out, "hush")
		assert.Contains(t, out, "# ledger: without what may be secret: postgres://db.example.com/x  # environment, SAGA_LEDGER\n")
		assert.Contains(t, out, "# repo: not shown  # environment, SAGA_REPO\n")
	}
}

// Every limit of a server can be set, and none is without a value: what is set in Go, or else the default, is printed.
func TestEveryLimitIsPrinted(t *testing.T) {
	t.Parallel()
	printed := func(o server.Options) string {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		require.NoError(t, err)
		defer out.Close()
		p := &program{stdin: os.Stdin, stdout: out, stderr: os.Stderr, options: Options{Server: o, Flags: flag.NewFlagSet("", flag.ContinueOnError)}}
		require.Zero(t, p.run(t.Context(), []string{"kitchen", "serve", "--print-config"}))
		text, err := os.ReadFile(out.Name())
		require.NoError(t, err)
		return string(text)
	}
	text := printed(server.Options{Name: "kitchen", TurnTimeout: 5 * time.Second, UndoGrace: -1, WorkersPerTool: map[string]int{"cook": 2}})
	for _, line := range []string{
		"token-ttl: 10m0s", "undo-grace: 0s", "turn-timeout: 5s", "workers: 16", "lease: 10s", "ledger-limit: 100000", "max-body: 1048576", "page-size: 100",
		"session-ttl: 24h0m0s", "session-idle: 30m0s", "max-sessions: 10000", "max-sessions-per-principal: 100", "max-streams: 1024", "max-streams-per-principal: 64",
		`rate: "0"`, "tool-rate: []", "max-turns: 2048",
	} {
		assert.Contains(t, text, "\n"+line+"  # default\n")
	}
	assert.Contains(t, text, "\n# workers of the tool cook: 2  # program\n")

	// Whatever the options have that bounds anything, of any name.
	o := server.Options{Name: "kitchen", ToolRates: map[string]server.Rate{"cook": {Count: 7, Per: time.Minute}}, WorkersPerTool: map[string]int{"cook": 2}}
	fields, limits := reflect.ValueOf(&o).Elem(), []string{": [cook=7/m]  # default", "# workers of the tool cook: 2"}
	for i := range fields.NumField() {
		if !fields.Type().Field(i).IsExported() {
			continue
		}
		n := int64(1000 + i)
		switch field := fields.Field(i); field.Interface().(type) {
		case time.Duration:
			field.SetInt(n * int64(time.Second))
			limits = append(limits, ": "+(time.Duration(n)*time.Second).String()+"  # default")
		case int, int64:
			field.SetInt(n)
			limits = append(limits, fmt.Sprintf(": %d  # default", n))
		case server.Rate:
			field.Set(reflect.ValueOf(server.Rate{Count: int(n), Per: time.Minute}))
			limits = append(limits, fmt.Sprintf(": %d/m  # default", n))
		}
	}
	require.Greater(t, len(limits), 15)
	text = printed(o)
	for _, limit := range limits {
		assert.Contains(t, text, limit)
	}
}

// Rates come from the command line, the environment and the file as all else does, and are checked.
func TestRatesAreSettings(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "SAGA_RATE=600/m")
	path := h.file("saga.yaml", "tool-rate: [order_lunch=1/s, release_notes=20/10s]\nmax-turns: 7\n")
	config, from := h.printed("serve", "--config", path, "--print-config", "--repo", ".")
	for _, line := range []string{"rate: 600/m", "tool-rate: [order_lunch=1/s, release_notes=20/10s]", "max-turns: 7"} {
		assert.Contains(t, "\n"+config, "\n"+line+"\n")
	}
	assert.Equal(t, "environment, SAGA_RATE", from["rate"])
	for _, wrong := range [][]string{{"--rate", "600"}, {"--tool-rate", "order_lunch"}, {"--tool-rate", "nobody=1/s"}, {"--max-turns", "0"}} {
		_, stderr, code := h.run(append([]string{"serve", "--addr", "127.0.0.1:0"}, wrong...)...)
		assert.Equal(t, exitUsage, code, wrong)
		assert.Contains(t, stderr, wrong[0], wrong)
	}
}

func TestConfigsThatAreWrong(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for text, want := range map[string]string{
		"a: 1\ntoken-tll: 3m\n":                   `FILE, line 1: there is no setting "a"; see`,
		"token-tll: 3m\n":                         `FILE, line 1: there is no setting "token-tll"; did you mean token-ttl?; see`,
		"\ntoken-ttl: never\n":                    "FILE, line 2",
		"token-ttl: 0s\n":                         "it must be 1s at least",
		"token-ttl: {a: 1}\n":                     "FILE, line 1: token-ttl is one value",
		"token-ttl:\n":                            "FILE, line 1: token-ttl is one value",
		"audience: [a, b]\n":                      "FILE, line 1: audience is one value",
		"allow-host: [a, ~]\n":                    "FILE, line 1: allow-host is a value, or a list of values, each on one line",
		"allow-host:\n":                           "FILE, line 1: allow-host is a value, or a list of values, each on one line",
		"allow-host: [a, \"b\\nc\"]\n":            "FILE, line 1: allow-host is a value, or a list of values, each on one line",
		"allow-host: \"b\\nc\"\n":                 "FILE, line 1: allow-host is a value, or a list of values, each on one line",
		"allow-host: &a [*a]\n":                   "FILE",
		"allow-host: [[a]]\n":                     "FILE, line 1: allow-host is a value, or a list of values",
		"token-ttl: 1m\ntoken-ttl: 2m\n":          `"token-ttl" already defined at line 1`,
		"- a\n":                                   "is no YAML mapping of settings",
		"token-ttl: [\n":                          "is no YAML mapping of settings",
		"token-ttl: 1m\n---\nmore: 1\n":           "has more than one document",
		"log-json: maybe\n":                       "FILE, line 1",
		"a: &a [*a]\n":                            "FILE",
		"config: other.yaml\n":                    `there is no setting "config"`,
		strings.Repeat("[", 20_000) + "\n":        "is no YAML mapping of settings",
		"print-config: true\nledger: memory\n#\n": `there is no setting "print-config"`,
	} {
		path := h.file("wrong.yaml", text)
		_, stderr, code := h.run("serve", "--config", path)
		assert.Equal(t, exitUsage, code, text)
		assert.Contains(t, strings.ReplaceAll(stderr, path, "FILE"), want, text)
	}
	_, stderr, code := h.run("serve", "--config", "missing.yaml")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, "missing.yaml: no such file")
	out, _, code := h.run("serve", "--config", h.file("empty.yaml", "# nothing\n"), "--print-config")
	assert.Zero(t, code)
	assert.Regexp(t, regexp.MustCompile(`(?m)^token-ttl: 10m0s  # default$`), out)
}

// A configuration that is printed is one with which a server begins.
func TestWrongConfigsAreNotPrinted(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for line, want := range map[string]string{
		"log-level: off":                         "--log-level is debug",
		"ledger: postgress://me:hush@x/y":        "--ledger is none of",
		"ledger: 'sqlite:'":                      "--ledger is none of",
		"trusted-proxy: [nowhere]":               "--trusted-proxy",
		"allow-host: 'https://a.example.com'":    "--allow-host",
		"allow-origin: a.example.com":            "--allow-origin",
		"{public-url: 'https://x', ledger: off}": "--public-url is for pages",
		"public-url: ftp://x":                    "--public-url",
		"keyset: 'env:'":                         "--keyset env:",
		"keyset-kms: none://":                    "--keyset-kms",
		"lease: 100000h":                         "Lease",
	} {
		path := h.file("wrong.yaml", line)
		for _, more := range [][]string{nil, {"--print-config"}} {
			out, stderr, code := h.run(append([]string{"serve", "--config", path}, more...)...)
			assert.Empty(t, out, line)
			assert.NotZero(t, code, line)
			assert.Contains(t, stderr, want, line)
			assert.NotContains(t, stderr, "hush")
		}
	}
}
