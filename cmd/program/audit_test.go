package program

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/audit"
)

// auditLines are what an audit has.
func auditLines(t *testing.T, text string) (acts []string, list []audit.Record) {
	t.Helper()
	for line := range strings.Lines(text) {
		var r audit.Record
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		list, acts = append(list, r), append(acts, r.Act)
	}
	return acts, list
}

// The ledger has who did what, on whatever server, and nothing that was said.
func TestAuditOfALedger(t *testing.T) {
	t.Parallel()
	h := newLedgerHome(t)
	id := h.waits()
	h.ok("ledger", "undo", id)
	text := h.ok("audit")
	acts, list := auditLines(t, text)
	assert.Subset(t, acts, []string{"begun", "turn", "undo asked", "undoing", "ended"})
	for _, r := range list {
		assert.Equal(t, id, r.Saga)
		assert.Equal(t, "trip", r.Name)
		assert.Positive(t, r.N)
	}
	assert.NotContains(t, text, "tunnel", "what was said")
	assert.Empty(t, h.ok("audit", "--tool", "other"))
	assert.Empty(t, h.ok("audit", "--subject", "ann"))
	assert.Empty(t, h.ok("audit", "--since", "1ns"))
	assert.Equal(t, text, h.ok("audit", "--since", "1h", "--tool", "trip"))
}

// An audit that is not all there is says so: of a saga whose key is no longer enabled, wholly or in part, and of no saga at all.
func TestAuditOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	h := newLedgerHome(t)
	_, stderr, code := h.run("audit")
	assert.Zero(t, code)
	assert.Contains(t, stderr, "no such saga of servers with this --audience")
	h.waits()
	whole := h.ok("audit")
	id := func(line string) string { return strings.Fields(line)[0] }
	old := id(strings.Split(h.ok("keys", "list"), "\n")[1])
	h.ok("keys", "add")
	for _, line := range strings.Split(strings.TrimSpace(h.ok("keys", "list")), "\n")[1:] {
		if id(line) != old {
			h.ok("keys", "promote", id(line))
		}
	}
	require.Equal(t, whole, h.ok("audit"))
	h.ok("keys", "disable", old)
	for _, args := range [][]string{{"audit"}, {"audit", "--subject", "ann"}} {
		out, stderr, code := h.run(args...)
		assert.Equal(t, exitFailed, code)
		assert.Empty(t, out)
		assert.Contains(t, stderr, "what was done in 1 of 1 sagas is missing")
	}
	h.ok("audit", "--tool", "other")
}

// A server writes what it does, and has digests by a key.
func TestAuditOfAServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	file, key := filepath.Join(h.dir, "audit.jsonl"), h.file("audit.key", "a secret that is long enough")
	url, _ := h.serve("--audit", file, "--audit-key", key)
	answers := h.file("answers.json", `{"target":{"target":"production"}}`)
	_, stderr, code := h.run("call", "--server", url, "complex_tool", "initial_arg=hush", "--answers", answers)
	require.Equal(t, exitNeedsAnswer, code, stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	acts, list := auditLines(t, string(text))
	require.NotEmpty(t, list)
	assert.Equal(t, "call", acts[0])
	assert.NotEmpty(t, list[0].Arguments)
	assert.NotContains(t, string(text), "hush")
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	for want, args := range map[string][]string{
		"--audit -: the standard output is for the client": {"stdio", "--audit", "-"},
		"no such file": {"serve", "--audit", filepath.Join(h.dir, "none", "x")},
		"has less than 16 bytes: make it with head -c 32 /dev/urandom": {"serve", "--audit", file, "--audit-key", h.file("short.key", "short")},
	} {
		_, stderr, code := h.run(args...)
		assert.NotZero(t, code)
		assert.Contains(t, stderr, want)
	}
}

// A file that was renamed is left with a SIGHUP. One that cannot be opened again is not.
func TestAuditIsRotated(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("SIGHUP")
	}
	h := newHome(t)
	file, old := filepath.Join(h.dir, "audit.jsonl"), filepath.Join(h.dir, "audit.jsonl.1")
	url, server := h.serve("--audit", file)
	call := func() {
		_, stderr, code := h.run("call", "--server", url, "complex_tool", "initial_arg=x", "--answers", h.file("a.json", `{}`))
		require.Equal(t, exitNeedsAnswer, code, stderr)
	}
	call()
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.Rename(file, old))
	require.NoError(t, server.Process.Signal(syscall.SIGHUP))
	time.Sleep(100 * time.Millisecond) // the signal is on its way
	call()
	after, err := os.ReadFile(old)
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	acts, _ := auditLines(t, string(text))
	assert.Equal(t, []string{"call"}, acts)

	var log bytes.Buffer
	dir := filepath.Join(h.dir, "dir")
	require.NoError(t, os.Mkdir(dir, 0o700))
	f, err := openAuditFile(filepath.Join(dir, "a"), slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Rename(dir, dir+".old"))
	f.hangup <- syscall.SIGHUP
	_, err = f.Write([]byte("kept"))
	require.NoError(t, err)
	kept, err := os.ReadFile(filepath.Join(dir+".old", "a"))
	require.NoError(t, err)
	assert.Equal(t, "kept", string(kept))
	assert.Contains(t, log.String(), "level=ERROR")
}

// How a saga has ended a ledger calls as a server does.
func TestOutcomesOfALedger(t *testing.T) {
	t.Parallel()
	h := newLedgerHome(t)
	to := `"where":{"to":"Oslo"},"elicitation-1":{"to":"Oslo"}`
	right, wrong := h.file("right.json", `{`+to+`,"sure":{"sure":true},"elicitation-2":{"sure":true}}`), h.file("wrong.json", `{`+to+`,"sure":"decline","elicitation-2":"decline"}`)
	asked := h.file("asked.json", `{`+to+`}`)
	for _, protocol := range []string{"saga", "2026-07-28", "2025-11-25"} {
		call := []string{"call", "trip", "--server", h.url, "--protocol", protocol, "--answers"}
		count := func() map[string]int {
			n := map[string]int{}
			_, list := auditLines(t, h.ok("audit"))
			for _, r := range list {
				if r.Act == "ended" {
					n[r.Outcome]++
				}
			}
			return n
		}
		ended := count()
		h.ok(append(call, right)...)
		ended["done"]++
		assert.Equal(t, ended, count(), protocol)
		_, stderr, code := h.run(append(call, wrong)...)
		assert.Equal(t, exitDeclined, code, stderr)
		ended["failed"]++
		assert.Equal(t, ended, count(), protocol)
		if protocol == "saga" {
			_, stderr, code = h.run(append(call, asked, "--save", "saved.json")...)
			require.Equal(t, exitNeedsAnswer, code, stderr)
			h.ok("cancel", "saved.json")
			ended["undone"]++
			assert.Equal(t, ended, count(), protocol)
		}
	}
}
