package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

// ledgerHome is a home with a ledger, in which sagas wait.
type ledgerHome struct {
	*home
	book *records.Book
}

func newLedgerHome(t *testing.T) *ledgerHome {
	t.Helper()
	h := newHome(t)
	h.env = append(h.env, "SAGA_KEYSET=k.json", "SAGA_AUDIENCE=prod", "SAGA_LEDGER=sqlite:l.db")
	h.ok("keys", "new")
	keys, err := codec.LoadKeyset(filepath.Join(h.dir, "k.json"))
	require.NoError(t, err)
	store, err := sqlite.Open(t.Context(), filepath.Join(h.dir, "l.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return &ledgerHome{h, records.New(store, func() *codec.Keyset { return keys }, "prod", 0)}
}

var tripTool = records.Target{Name: "trip", Revision: 2}

// waits adds a saga that waits for its client until due.
func (h *ledgerHome) waits(id byte, due time.Time, change func(*records.Entry)) {
	h.t.Helper()
	require.NoError(h.t, h.book.Announce(h.t.Context(), []records.Target{tripTool}))
	e, err := h.book.Saga(h.t.Context(), "somebody", [16]byte{id, 1})
	require.NoError(h.t, err)
	e.Target, e.Began, e.Effects = tripTool, time.Now().Add(-3*time.Hour), []string{"hold-hotel", "hold-flight"}
	e.Wake = due
	change(e)
	require.NoError(h.t, h.book.Put(h.t.Context(), e))
}

func unchanged(*records.Entry) {}

func TestLedgerLists(t *testing.T) {
	t.Parallel()
	h := newLedgerHome(t)
	_, stderr, code := h.run("ledger")
	assert.Zero(t, code)
	assert.Contains(t, stderr, "No server with this keyset and audience has used this ledger yet")
	require.NoError(t, h.book.Announce(t.Context(), []records.Target{tripTool}))
	_, stderr, _ = h.run("ledger")
	assert.Contains(t, stderr, "Nothing waits")

	due := time.Now().Add(time.Hour).Truncate(time.Second)
	h.waits(0xab, due, unchanged)
	h.waits(0xcd, due, func(e *records.Entry) {
		e.Attempts, e.LastError = 3, "hotel:\x1b[31m no answer\nsecond line"
	})
	table := h.ok("ledger")
	for _, want := range []string{
		"SAGA", "ab010000000000000000000000000000", "trip", "suspended", "3 h ago", due.Local().Format("2006-01-02 15:04:05"),
		"hold-hotel, hold-flight", "failing", "no answer",
	} {
		assert.Contains(t, table, want)
	}
	assert.NotContains(t, table, "\x1b", "what a service said is not trusted")
	assert.Equal(t, 3, strings.Count(table, "\n"))

	var rows []map[string]any
	require.NoError(t, json.Unmarshal([]byte(h.ok("ledger", "--output", "json")), &rows))
	require.Len(t, rows, 2)
	for _, row := range rows {
		assert.Equal(t, "trip", row["tool"])
		assert.EqualValues(t, 2, row["revision"])
		assert.Equal(t, []any{"hold-hotel", "hold-flight"}, row["effects"])
		assert.Equal(t, due.UTC().Format(time.RFC3339), row["due"])
	}

	out := h.ok("ledger", "check")
	assert.Regexp(t, `answers +in `, out)
	assert.Regexp(t, `sagas that wait .* 2\n`, out)
	assert.Regexp(t, `failing +1\n`, out)

	// With other keys, or for another audience, nothing is found, and nothing is harmed.
	h.ok("keys", "new", "--keyset", "other.json")
	for _, args := range [][]string{{"--keyset", "other.json"}, {"--audience", "test"}} {
		stdout, stderr, code := h.run(append([]string{"ledger"}, args...)...)
		assert.Zero(t, code)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, "look at --keyset and --audience")
		_, stderr, code = h.run(append([]string{"ledger", "undo", "ab"}, args...)...)
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, stderr, "look at --keyset and --audience")
	}
}

func TestLedgerUndo(t *testing.T) {
	t.Parallel()
	h := newLedgerHome(t)
	later := time.Now().Add(time.Hour)
	h.waits(0xab, later, unchanged)
	h.waits(0xac, later, unchanged)
	h.waits(0xad, later, unchanged)

	_, stderr, code := h.run("ledger", "undo", "a")
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, "3 sagas")
	_, stderr, code = h.run("ledger", "undo", "ff")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "no saga ff")
	assert.NotContains(t, stderr, "Nothing waits", "three do")
	_, stderr, code = h.run("ledger", "undo", "ad", "--wait", "300ms")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, `is one running that has the tool "trip" in revision 2?`)

	// A server with the tool takes what is due, and does it.
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 3 {
			found, _, err := h.book.Take(t.Context(), []records.Target{tripTool}, 1, time.Minute)
			if !assert.NoError(t, err) || !assert.Len(t, found, 1) {
				return
			}
			e := found[0]
			assert.True(t, e.UndoNow)
			if e.ID[0] == 0xac {
				e.Attempts, e.LastError, e.Wake = 1, "hotel: no answer", later
			} else {
				e.Ended, e.Wake, e.KeepUntil = true, time.Time{}, later
			}
			assert.NoError(t, h.book.Put(t.Context(), e))
		}
	}()
	_, stderr, code = h.run("ledger", "undo", "AB01")
	assert.Zero(t, code, stderr)
	assert.Contains(t, stderr, "it is undone")
	_, stderr, code = h.run("ledger", "undo", "ac")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "could not be undone: hotel: no answer")
	<-done
}

func TestLedgerMistakes(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	h.file("no.db", "this is no database, and is to stay as it is, however long it may be")
	for line, want := range map[string]struct {
		code int
		text string
	}{
		"ledger --ledger sqlite:missing.db --keyset k.json":         {exitFailed, "missing.db"},
		"ledger check --ledger sqlite:no.db --keyset k.json":        {exitFailed, "no.db"},
		"serve --addr 127.0.0.1:0 --ledger sqlite:no.db":            {exitFailed, "--ledger off"},
		"serve --addr 127.0.0.1:0 --ledger sqlite:":                 {exitUsage, "sqlite:PATH"},
		"stdio --ledger redis://cache":                              {exitUsage, "--ledger is none of off, memory"},
		"ledger --keyset k.json":                                    {exitUsage, "name the ledger with --ledger"},
		"ledger --ledger memory":                                    {exitUsage, "in memory"},
		"ledger --ledger off":                                       {exitUsage, "name the ledger"},
		"ledger --ledger sqlite:":                                   {exitUsage, "sqlite:PATH"},
		"ledger --ledger sqlite:no.db --keyset missing.json":        {exitFailed, "missing.json"},
		"ledger frobnicate":                                         {exitUsage, "frobnicate"},
		"ledger undo --ledger sqlite:no.db":                         {exitUsage, "one argument"},
		"ledger check x":                                            {exitUsage, "no arguments"},
		"ledger --ledger postgres://127.0.0.1:1/x --keyset k.json":  {exitFailed, "127.0.0.1"},
		"serve --addr 127.0.0.1:0 --ledger postgres://u:[::bad/x":   {exitFailed, "--ledger off"},
		"serve --addr 127.0.0.1:0 --ledger sqlite:dir/../k.json":    {exitFailed, "k.json"},
		"serve --addr 127.0.0.1:0 --ledger sqlite:nowhere\x00/l.db": {exitFailed, "--ledger off"},
	} {
		if strings.ContainsRune(line, 0) {
			continue // no argument of a process can hold it
		}
		_, stderr, code := h.run(strings.Fields(line)...)
		assert.Equal(t, want.code, code, "%s: %s", line, stderr)
		assert.Contains(t, stderr, want.text, line)
	}
	assert.NoFileExists(t, filepath.Join(h.dir, "missing.db"), "to look does not create")
	kept, err := os.ReadFile(filepath.Join(h.dir, "no.db"))
	require.NoError(t, err)
	assert.Contains(t, string(kept), "this is no database")
}

// Whatever is wrong with a URL, its password is not shown.
func TestPasswordOfALedgerIsNotShown(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	const secret = "hunter2"
	for _, url := range []string{
		"postgres://saga:" + secret + "@127.0.0.1:1/x",
		"postgres://saga@127.0.0.1:1/x?password=" + secret,
		"postgres://saga:" + secret + "@127.0.0.1:not-a-port/x",
		"postgres://saga:" + secret + "%zz@127.0.0.1/x",
		"postgres://saga:" + secret + "@127.0.0.1:1/x?sslmode=perhaps",
		"postgre://saga:" + secret + "@127.0.0.1:1/x",
		"postgres:saga:" + secret + "@127.0.0.1:1/x",
	} {
		h.env = append(h.env, "SAGA_LEDGER="+url)
		for _, args := range [][]string{
			{"ledger", "--keyset", "k.json"}, {"ledger", "check", "--keyset", "k.json"}, {"ledger", "--help"}, {"serve", "--help"}, {"serve", "--log-level", "loud"},
			{"ledger", "--keyset", "k.json", "--output", "json"},
		} {
			stdout, stderr, _ := h.run(args...)
			assert.NotContains(t, stdout+stderr, secret, "%s %s", url, args)
		}
		cmd := h.command("stdio", "--keyset", "k.json", "--log-level", "debug")
		text, _ := cmd.CombinedOutput()
		assert.NotContains(t, string(text), secret, url)
	}
}

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
	h.ok("stdio", "--keyset", "k.json", "--ledger", "sqlite:sub/l.db")
	assert.FileExists(t, filepath.Join(h.dir, "sub", "l.db"))
	_, stderr, _ := h.run("stdio", "--log-json")
	assert.Contains(t, stderr, `"ledger":"sqlite:`+own+`"`)
}

// readyStatus asks a server how it is.
func readyStatus(t *testing.T, address string) (status string) {
	t.Helper()
	response, err := http.Get(strings.TrimSuffix(address, "/mcp") + "/readyz")
	require.NoError(t, err)
	defer response.Body.Close()
	assert.Equal(t, http.StatusOK, response.StatusCode)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	var ready struct{ Status string }
	require.NoError(t, json.Unmarshal(body, &ready))
	return ready.Status
}

// A ledger is not well if it can only be read, or takes no tasks, whose items are in a table of their own.
func TestCheckOfALedgerThatCanOnlyBeRead(t *testing.T) {
	t.Parallel()
	db := postgrestest.Run(t, "fsync=off")
	h := newHome(t)
	h.serve("--ledger", db.URL("postgres", "postgres"))
	db.Exec("CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA mcpsaga_ledger TO app; GRANT SELECT ON ALL TABLES IN SCHEMA mcpsaga_ledger TO app")
	h.ok("ledger", "check", "--ledger", db.URL("postgres", "postgres"))
	_, stderr, code := h.run("ledger", "check", "--ledger", db.URL("app", "postgres"))
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "permission denied")
	db.Exec("GRANT ALL ON mcpsaga_ledger.records TO app")
	_, stderr, code = h.run("ledger", "check", "--ledger", db.URL("app", "postgres"))
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "permission denied for table items")
}

// A server starts though its database is away, serves what needs none, and goes on with it
// when it is there.
func TestServeStartsWithoutItsDatabase(t *testing.T) {
	t.Parallel()
	db := postgrestest.Run(t, "fsync=off")
	url := db.URL("postgres", "postgres")
	db.Crash()
	h := newHome(t)
	address, _ := h.serve("--ledger", url)
	assert.Equal(t, "degraded", readyStatus(t, address))
	assert.Equal(t, done, h.ok("call", "complex_tool", "--server", address, "--answers", h.file("a.json", bothAnswers)))
	db.Up()
	require.Eventually(t, func() bool { return readyStatus(t, address) == "ready" }, time.Minute, 100*time.Millisecond)
	h.ok("ledger", "check", "--ledger", url)

	db.Crash()
	require.Eventually(t, func() bool { return readyStatus(t, address) == "degraded" }, time.Minute, 100*time.Millisecond)
	db.Up()
	require.Eventually(t, func() bool { return readyStatus(t, address) == "ready" }, time.Minute, 100*time.Millisecond)
	_, stderr, code := h.run("serve", "--addr", "127.0.0.1:0", "--ledger", db.URL("postgres", "nosuch"))
	assert.Equal(t, exitFailed, code, "this does not mend itself")
	assert.Contains(t, stderr, "nosuch")
}
