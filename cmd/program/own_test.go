package program

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/buildtest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// newLunch is a user's machine with the program of docs/start.md.
func newLunch(t *testing.T) *home {
	h := newHome(t)
	h.env = append(h.env, "LUNCH_RETRY_FOR=1ms")
	h.program = filepath.Join(h.dir, "lunch")
	require.NoError(t, buildtest.Program(h.program, "../../examples/lunch"))
	return h
}

// A program of twenty lines serves its tool, is killed while the tool waits, and takes the answer when it is there
// again.
func TestOwnProgram(t *testing.T) {
	t.Parallel()
	h := newLunch(t)
	ledger := []string{"--ledger", "sqlite:" + filepath.Join(h.dir, "x.db")}
	url, served := h.serve(append(ledger, "--skills")...)
	assert.Contains(t, h.ok("read", "--server", url, "skill://order-lunch/SKILL.md"), "order_lunch")
	address := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), server.Endpoint)

	_, stderr, code := h.run("call", "--server", url, "order_lunch", "office=Berlin")
	assert.Equal(t, exitNeedsAnswer, code)
	assert.Contains(t, stderr, "lunch call --resume ")
	kill(t, served)

	var calls []callRow
	require.NoError(t, json.Unmarshal([]byte(h.ok("calls", "--output", "json")), &calls))
	require.Len(t, calls, 1)
	assert.Equal(t, "What would you like?", calls[0].Waits)
	assert.Contains(t, h.ok("token", "explain", calls[0].Name), `"tool": "order_lunch"`)

	again := h.command(append([]string{"serve", "--addr", address}, ledger...)...)
	h.startServe(again)
	answers := h.file("answers.json", `{"meal":{"dish":"soup"}}`)
	if full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0); err == nil { // on other systems there is none
		resume := h.command("call", "--resume", calls[0].Name, "--answers", answers)
		var said strings.Builder
		resume.Stdout, resume.Stderr = full, &said
		assert.Equal(t, exitFailed, exitOf(t, resume.Run()))
		assert.Contains(t, said.String(), "the standard output cannot be written")
		assert.Contains(t, said.String(), "--resume", "the way to the result is kept")
		require.NoError(t, full.Close())
	}
	assert.Equal(t, "Ordered soup for Berlin.\n", h.ok("call", "--resume", calls[0].Name, "--answers", answers))
	assert.Contains(t, h.ok("tools", "--server", url), "Orders lunch.")
	assert.Contains(t, h.ok(append([]string{"ledger", "check"}, ledger...)...), "can be written  yes")
	assert.Equal(t, "Ordered soup for Berlin.\n", h.ok("call", "--stdio", h.program+" stdio", "order_lunch", "office=Berlin", "--answers", answers))

	worker := h.command(append([]string{"worker"}, ledger...)...)
	log, err := worker.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())
	lines := bufio.NewScanner(log)
	for lines.Scan() && !strings.Contains(lines.Text(), "msg=working") {
	}
	require.NoError(t, worker.Process.Signal(os.Interrupt))
	_, err = io.Copy(io.Discard, log)
	require.NoError(t, err)
	assert.NoError(t, worker.Wait())
}

// Nothing of such a program is called saga: not its messages, variables and directories.
func TestOwnProgramHasItsOwnName(t *testing.T) {
	t.Parallel()
	h := newLunch(t)
	for _, line := range []string{"frobnicate", "serve --frob", "call", "keys promote", "tools --server http://127.0.0.1:1", "worker --ledger off", "token explain x"} {
		_, stderr, code := h.run(strings.Fields(line)...)
		assert.NotZero(t, code, line)
		assert.True(t, strings.HasPrefix(stderr, "lunch: "), "%s: %s", line, stderr)
		assert.NotContains(t, strings.ReplaceAll(stderr, "no saga", ""), "saga", line)
	}
	help := h.ok("serve", "--help")
	assert.Contains(t, help, "$LUNCH_TOKEN_TTL")
	assert.NotContains(t, strings.ToLower(help), "saga")
	assert.Contains(t, h.ok("--help"), "lunch call order_lunch office=")
	assert.Regexp(t, `(?m)^lunch +\S+\nmcpsaga +\S+\n`, h.ok("version"))

	h.env = append(h.env, "LUNCH_TOKEN_TTL=never")
	_, stderr, _ := h.run("serve")
	assert.Contains(t, stderr, "LUNCH_TOKEN_TTL")

	h.ok("keys", "new")
	assert.FileExists(t, filepath.Join(h.dir, "config", "lunch", "keyset.json"))
	h.ok("ledger", "check", "--ledger", "sqlite:"+h.file("ledger.db", ""))
}

// What Go says is the default of the flags, and the setup has the last word.
func TestFlagsHaveTheDefaultsOfOptions(t *testing.T) {
	t.Parallel()
	own := flag.NewFlagSet("", flag.ContinueOnError)
	dish, loud := own.String("dish", "soup", "the `DISH` of the day"), own.Bool("loud", false, "whether it is called out")
	var got server.Options
	run := func(o server.Options, args ...string) int {
		o.Tools, o.Name = []saga.Definition{}, "kitchen"
		dir := t.TempDir()
		args = append([]string{"kitchen", "serve", "--ledger", "off", "--keyset", filepath.Join(dir, "k.json")}, args...)
		p := &program{stdin: os.Stdin, stdout: os.Stdout, stderr: nowhere(t), options: Options{Server: o, Flags: own, Setup: func(_ context.Context, o *server.Options) error {
			got = *o
			return errors.New("enough")
		}}}
		require.Zero(t, (&program{stdin: os.Stdin, stdout: nowhere(t), stderr: nowhere(t)}).run(t.Context(), []string{"kitchen", "keys", "new", "--keyset", args[5]}))
		return p.run(t.Context(), args)
	}
	assert.Equal(t, exitFailed, run(server.Options{TokenTTL: time.Hour, Workers: -1, AllowedHosts: []string{"a.example.com"}}))
	assert.Equal(t, time.Hour, got.TokenTTL)
	assert.Equal(t, 24*time.Hour, got.SessionTTL)
	assert.Equal(t, -1, got.Workers)
	assert.Equal(t, []string{"a.example.com"}, got.AllowedHosts)
	assert.Equal(t, "soup", *dish)
	assert.NotNil(t, got.Logger)

	run(server.Options{TokenTTL: time.Hour, Workers: -1, AllowedHosts: []string{"a.example.com"}},
		"--token-ttl", "2m", "--workers", "3", "--allow-host", "b.example.com", "--allow-host", "c.example.com", "--dish", "pasta", "--loud")
	assert.Equal(t, 2*time.Minute, got.TokenTTL)
	assert.Equal(t, 3, got.Workers)
	assert.Equal(t, []string{"b.example.com", "c.example.com"}, got.AllowedHosts)
	assert.Equal(t, "pasta", *dish)
	assert.True(t, *loud)

	got = server.Options{}
	assert.Equal(t, exitFailed, run(server.Options{Ledger: ledger.NewMemory(ledger.MemoryOptions{})}))
	assert.Empty(t, got.Name, "the ledger is named by a flag, so the server is not set up")
}

// nowhere is a file whose contents are of no interest.
func nowhere(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}
