package program

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/examples/releasenotes"
	"github.com/mcpsaga/mcpsaga/examples/reporeport"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// asProgram makes the test binary be the program.
const asProgram = "SAGA_TEST_AS_PROGRAM"

// lookEvery is how often the program looks at its keyset file.
const lookEvery = "SAGA_TEST_LOOK_EVERY"

// asOlder makes it be a server of an older revision of MCP.
const asOlder = "SAGA_TEST_AS_OLDER"

func TestMain(m *testing.M) {
	if os.Getenv(asOlder) != "" {
		_ = olderServer().Run(context.Background(), &mcp.StdioTransport{})
		return
	}
	if os.Getenv(asProgram) != "" {
		every, _ := time.ParseDuration(os.Getenv(lookEvery))
		o := examples()
		if asked := os.Getenv(askedKMS); asked != "" {
			o.KMS = kmsInFiles(asked)
		}
		(&program{options: o, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, lookAtKeys: every}).process()
	}
	// Tests wait for processes and reloads most of the time. -parallel changes it.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// examples is the program cmd/saga.
func examples() Options {
	repo, flags := ".", flag.NewFlagSet("saga", flag.ContinueOnError)
	flags.Func("repo", "the `DIR` of repositories", func(dir string) error {
		repo = dir
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("%s is not a directory", dir)
		}
		return nil
	})
	return Options{Server: server.Options{Name: "saga"}, Example: "release_notes", Flags: flags, Setup: func(_ context.Context, o *server.Options) error {
		o.Tools = []saga.Definition{complextool.Tool, releasenotes.New(repo), reporeport.New(repo)}
		return nil
	}}
}

// home is a user's machine: directories of their own, and the program.
type home struct {
	t   *testing.T
	dir string
	env []string
	// program is another program than that of the examples, if it is not empty.
	program string
}

func newHome(t *testing.T) *home {
	t.Helper()
	dir := t.TempDir()
	return &home{t: t, dir: dir, env: []string{
		asProgram + "=1", "HOME=" + dir, "XDG_CONFIG_HOME=" + dir + "/config", "XDG_STATE_HOME=" + dir + "/state",
		"PATH=" + os.Getenv("PATH"), "ACCESSIBLE=1", "SAGA_RETRY_FOR=2s", "GOCOVERDIR=" + dir,
	}}
}

func (h *home) command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(h.t, err)
	name := "saga" // as if found in PATH
	if h.program != "" {
		self, name = h.program, filepath.Base(h.program)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	h.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env, cmd.Dir = h.env, h.dir
	cmd.Args[0] = name
	return cmd
}

// run runs the program without a terminal.
func (h *home) run(args ...string) (stdout, stderr string, code int) {
	h.t.Helper()
	var out, text bytes.Buffer
	cmd := h.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &text
	code = exitOf(h.t, cmd.Run())
	return out.String(), text.String(), code
}

// exitOf is the exit code of a program that ended with err.
func exitOf(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	require.NoError(t, err)
	return 0
}

// ok runs the program, which must succeed, and returns its output.
func (h *home) ok(args ...string) string {
	h.t.Helper()
	stdout, stderr, code := h.run(args...)
	require.Zero(h.t, code, "saga %s: %s", strings.Join(args, " "), stderr)
	return stdout
}

func (h *home) file(name, text string) string {
	path := filepath.Join(h.dir, name)
	require.NoError(h.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// serve starts a server and returns its address and process.
func (h *home) serve(args ...string) (string, *exec.Cmd) {
	h.t.Helper()
	return h.startServe(h.command(append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...))
}

// startServe starts a server and returns its URL.
func (h *home) startServe(cmd *exec.Cmd) (string, *exec.Cmd) {
	h.t.Helper()
	stderr, err := cmd.StderrPipe()
	require.NoError(h.t, err)
	require.NoError(h.t, cmd.Start())
	lines := bufio.NewScanner(stderr)
	address := regexp.MustCompile(`url=(http://[^ ]+)`)
	for lines.Scan() {
		if found := address.FindStringSubmatch(lines.Text()); found != nil {
			drained := make(chan struct{})
			go func() {
				defer close(drained)
				for lines.Scan() {
				}
			}()
			h.t.Cleanup(func() {
				_ = cmd.Process.Kill()
				<-drained
				_ = cmd.Wait()
			})
			return found[1], cmd
		}
	}
	require.Fail(h.t, "the server did not start")
	return "", nil
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, cmd.Process.Signal(syscall.SIGKILL))
	_, _ = cmd.Process.Wait()
}

const (
	bothAnswers = `{"step-elicitation-A":{"target":"production"},"step-sampling-B":"Yes, all systems are green."}`
	firstAnswer = `{"step-elicitation-A":{"target":"production"}}`
	done        = "Deployment to production initiated successfully based on confirmation.\n"
)

// inProcess runs the program without starting a process, which is faster.
func inProcess(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		require.NoError(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	in, out, text := open("in"), open("out"), open("err")
	code = (&program{options: examples(), stdin: in, stdout: out, stderr: text}).run(t.Context(), append([]string{"saga"}, args...))
	read := func(f *os.File) string {
		data, err := os.ReadFile(f.Name())
		require.NoError(t, err)
		return string(data)
	}
	return read(out), read(text), code
}

func TestHelp(t *testing.T) {
	for _, command := range []string{"", "serve", "stdio", "call", "tasks", "tasks watch", "tools", "keys", "keys new", "keys promote", "ledger", "ledger undo", "ledger close", "ledger show", "ledger check", "token explain", "completion"} {
		out, _, code := inProcess(t, append(strings.Fields(command), "--help")...)
		assert.Zero(t, code)
		assert.Contains(t, out, strings.TrimSpace("saga "+command))
	}
	out, _, _ := inProcess(t, "call", "--help")
	assert.Contains(t, out, "SAGA_ANSWERS")
	assert.Contains(t, out, "Exit codes:")
	out, _, _ = inProcess(t, "completion", "bash")
	assert.Contains(t, out, "saga")
	out, _, code := inProcess(t, "--version")
	assert.Zero(t, code)
	assert.Contains(t, out, "saga")
}

func TestUsageErrors(t *testing.T) {
	for line, want := range map[string]string{
		"frobnicate":                                     "frobnicate",
		"call":                                           "which tool",
		"call x --frob":                                  "frob",
		"call x --output xml":                            "--output",
		"call x --max-rounds many":                       "many",
		"call x --server a --stdio b":                    "either",
		"call x --timeout -1s":                           "--timeout",
		"call x --timeout 0s --login":                    "--timeout",
		"call x --max-rounds -1":                         "--max-rounds",
		"call x --answers missing.json":                  "missing.json",
		"call x --json [":                                "--json",
		"call x --json [1]":                              "unmarshal JSON array",
		`call x --json {"a":1}{"b":2}`:                   "after top-level value",
		"call --resume missing.json":                     "missing.json",
		"call x --model-url oracle":                      "--model",
		"call x --header Host:b":                         "would not be sent",
		"call x --json {\"a\":\"\xff\"}":                 "--json is not in UTF-8",
		"call x --server http://user:hush@localhost/mcp": "no password",
		"call x --server user:hush@localhost":            `"…@localhost" is not a URL`,
		"call x --server http://user:hu%sh@localhost":    `"…@localhost" is not a URL`,
		"logout user:hush@localhost":                     `"…@localhost" is not a URL`,
		"logout https://u:hush@h/":                       "no password",
		"call x --header nonsense":                       "--header",
		"tools x":                                        "no arguments",
		"serve x":                                        "no arguments",
		"serve --log-level loud":                         "debug, info, warn or error",
		"serve --workers -3":                             "--workers",
		"serve --session-ttl -1h":                        "--session-ttl",
		"keys frobnicate":                                "frobnicate",
		"worker --ledger off":                            "name the ledger with --ledger",
		"worker --ledger memory":                         "a worker finds nothing to do",
		"worker --keyset missing.json":                   "name the ledger with --ledger",
		"keys promote":                                   "one argument",
		"ledger --ledger sqlite:x close --yes a":         "--ledger does not count before the command close: write it behind, as in close --ledger; see saga ledger close --help",
		"tasks --stdio true --server http://a watch b":   "--stdio does not count before the command watch",
		"calls --output json rm x":                       "the command rm has no flag --output; see saga calls rm --help",
		"tasks --output json watch b":                    "the command watch has no flag --output",
		"serve --keyset-kms x://y":                       "program.Options.KMS",
		"keys list --keyset-kms x://y":                   "program.Options.KMS",
		"token explain":                                  "one argument",
	} {
		_, stderr, code := inProcess(t, strings.Fields(line)...)
		assert.Equal(t, exitUsage, code, line)
		assert.Contains(t, stderr, want, line)
		assert.NotContains(t, stderr, "hush")
		assert.Less(t, strings.Count(stderr, "\n"), 4, line)
	}
}

// Help is given whatever stands before it.
func TestHelpBehindFlags(t *testing.T) {
	for _, line := range []string{"tasks --output json help", "tasks --output json h", "calls --help rm"} {
		_, stderr, code := inProcess(t, strings.Fields(line)...)
		assert.Zero(t, code, line)
		assert.Empty(t, stderr, line)
	}
}
