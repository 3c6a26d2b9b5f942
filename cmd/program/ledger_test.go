package program

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// ledgerHome is a home with a ledger, and a server whose tool trip has effects.
type ledgerHome struct {
	*home
	url     string
	stop    func()
	failing atomic.Bool // hotels cannot be given back
}

func newLedgerHome(t *testing.T) *ledgerHome {
	t.Helper()
	h := &ledgerHome{home: newHome(t)}
	h.env = append(h.env, "SAGA_KEYSET=k.json", "SAGA_AUDIENCE=prod", "SAGA_LEDGER=sqlite:l.db")
	h.ok("keys", "new")
	keys, err := codec.LoadKeyset(filepath.Join(h.dir, "k.json"))
	require.NoError(t, err)
	store, err := sqlite.Open(t.Context(), filepath.Join(h.dir, "l.db"))
	require.NoError(t, err)
	s, err := server.New(server.Options{
		Keys: keys, Audience: "prod", Ledger: store, Tools: []saga.Definition{h.trip("trip", true), h.trip("trip_mail", false)}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	web := httptest.NewServer(s.Handler())
	h.url = web.URL + server.Endpoint
	h.stop = sync.OnceFunc(func() {
		web.Close()
		s.Close()
		assert.NoError(t, store.Close())
	})
	t.Cleanup(h.stop)
	return h
}

// trip asks where to, holds a hotel and a flight, and asks whether that is right. Without undo, the flight is mailed for.
func (h *ledgerHome) trip(tool string, undo bool) saga.Definition {
	type where struct {
		To string `json:"to"`
	}
	type sure struct {
		Sure bool `json:"sure"`
	}
	to, right := &steps.Form[where]{ID: "where", Message: "Where to?"}, &steps.Form[sure]{ID: "sure", Message: "Right?"}
	hold := func(name string, undo func() error) *saga.Effect[string, string] {
		return &saga.Effect[string, string]{
			Name: name, Tries: 1,
			Do:   func(_ context.Context, _ saga.Key, in string) (string, error) { return in, nil },
			Undo: func(context.Context, saga.Performed[string, string]) error { return undo() },
		}
	}
	hotel := hold("hold-hotel", func() error {
		if h.failing.Load() {
			return errors.New("hotel:\x1b[31m no answer\nsecond line")
		}
		return nil
	})
	flight := hold("hold-flight", func() error { return nil })
	if !undo {
		flight.Name, flight.Undo = "mail", nil
	}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: tool, Revision: 2, Asks: []steps.Question{to, right}, Effects: []saga.Declared{hotel, flight}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			w, err := saga.Ask(r, to)
			if err != nil {
				return "", err
			}
			for _, e := range []*saga.Effect[string, string]{hotel, flight} {
				if _, err := saga.Do(r, e, w.To); err != nil {
					return "", err
				}
			}
			_, err = saga.Ask(r, right)
			return "booked", err
		},
	}
}

// waits begins a saga that has held both and waits for its client, and returns its id.
func (h *ledgerHome) waits() (id string) {
	h.t.Helper()
	return h.waitsIn("trip")
}

func (h *ledgerHome) waitsIn(tool string) (id string) {
	h.t.Helper()
	before := h.ids()
	_, stderr, code := h.run("call", tool, "--server", h.url, "--answers", h.file("to.json", `{"where":{"to":"Oslo, by the secret tunnel"}}`))
	require.Equal(h.t, exitNeedsAnswer, code, stderr)
	for id := range h.ids() {
		if !before[id] {
			return id
		}
	}
	require.Fail(h.t, "the ledger does not list it")
	return ""
}

// ids are those of the sagas that wait.
func (h *ledgerHome) ids() map[string]bool {
	h.t.Helper()
	ids := map[string]bool{}
	for _, row := range h.rows("ledger") {
		ids[row["saga"].(string)] = true
	}
	return ids
}

// rows are what a command prints as JSON.
func (h *ledgerHome) rows(args ...string) (rows []map[string]any) {
	h.t.Helper()
	require.NoError(h.t, json.Unmarshal([]byte(h.ok(append(args, "--output", "json")...)), &rows))
	return rows
}

func TestLedgerLists(t *testing.T) {
	t.Parallel()
	h := newLedgerHome(t)
	_, stderr, code := h.run("ledger")
	assert.Zero(t, code)
	assert.Contains(t, stderr, "Nothing waits")
	assert.Empty(t, h.rows("ledger"))
	first, second := h.waits(), h.waits()
	h.failing.Store(true)
	_, stderr, code = h.run("ledger", "undo", second)
	assert.Equal(t, exitFailed, code, stderr)

	table := h.ok("ledger")
	for _, want := range []string{
		"SAGA", first, second, "trip", "suspended", "just now", time.Now().Local().Format("2006-"),
		"hold-hotel, hold-flight", "failing", "no answer",
	} {
		assert.Contains(t, table, want)
	}
	assert.NotContains(t, table, "\x1b", "what a service said is not trusted")
	assert.Equal(t, 3, strings.Count(table, "\n"))

	rows := h.rows("ledger")
	require.Len(t, rows, 2)
	for _, row := range rows {
		assert.Equal(t, "trip", row["tool"])
		assert.EqualValues(t, 2, row["revision"])
		assert.NotEmpty(t, row["due"])
	}
	assert.Equal(t, []any{"hold-hotel", "hold-flight"}, rows[0]["effects"])
	assert.Equal(t, []any{"hold-hotel"}, rows[1]["effects"])
	assert.EqualValues(t, 1, rows[1]["attempts"])

	// For another audience nothing is found, and with other keys nothing is read. Nothing is harmed.
	stdout, stderr, code := h.run("ledger", "--audience", "test")
	assert.Zero(t, code)
	assert.Empty(t, stdout)
	assert.Contains(t, stderr, "look at --keyset and --audience")
	_, stderr, code = h.run("ledger", "undo", first, "--audience", "test")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "look at --keyset and --audience")
	h.ok("keys", "new", "--keyset", "other.json")
	table = h.ok("ledger", "--keyset", "other.json")
	assert.Equal(t, 2, strings.Count(table, "unreadable"))
	assert.NotContains(t, table, "hotel")
	for _, row := range h.rows("ledger", "--keyset", "other.json") {
		assert.Regexp(t, "^[0-9a-f]{32}$", row["saga"])
		assert.Contains(t, table, row["saga"])
		_, stderr, code = h.run("ledger", "show", row["saga"].(string), "--keyset", "other.json")
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, stderr, "was sealed with a key that is not enabled, or was altered")
	}
	assert.Contains(t, table, "was sealed with a key that is not enabled, or was altered")
	_, stderr, code = h.run("ledger", "undo", first, "--keyset", "other.json")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "no saga "+first)
}

func TestLedgerUndo(t *testing.T) {
	t.Parallel()
	h := newLedgerHome(t)
	first, second, third := h.waits(), h.waits(), h.waits()
	for _, args := range [][]string{{"undo", "zz"}, {"show", "zz"}} {
		_, stderr, code := h.run(append([]string{"ledger"}, args...)...)
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, stderr, "no saga "+args[1])
		assert.NotContains(t, stderr, "Nothing waits", "three do")
	}
	for _, command := range []string{"undo", "show"} {
		_, stderr, code := h.run("ledger", command, "")
		assert.Equal(t, exitUsage, code)
		assert.Contains(t, stderr, "the id of the saga is empty")
	}
	_, stderr, code := h.run("ledger", "undo", strings.ToUpper(first[:12]))
	assert.Zero(t, code, stderr)
	assert.Contains(t, stderr, "it is undone")
	_, stderr, code = h.run("ledger", "undo", first)
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "no saga "+first)
	h.failing.Store(true)
	for range 2 { // the second tries again what could not be undone
		_, stderr, code = h.run("ledger", "undo", second)
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, stderr, "could not be undone: ")
		assert.Contains(t, stderr, "no answer")
	}
	history := h.ok("ledger", "show", second)
	assert.Regexp(t, `(?m) end +hold-hotel +not undone$`, history)
	assert.Regexp(t, `(?m) not undone +hold-hotel +undo of "hold-hotel": .*no answer`, history)
	h.failing.Store(false)
	_, stderr, code = h.run("ledger", "undo", second)
	assert.Zero(t, code, stderr)
	h.stop()
	_, stderr, code = h.run("ledger", "undo", third, "--wait", "300ms")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, `is one running that has the tool "trip" in revision 2?`)
}

// Sagas whose ids begin alike are told apart.
func TestLedgerFindsByTheBeginning(t *testing.T) {
	t.Parallel()
	p := &program{stderr: os.Stderr}
	ids := []string{"ab01" + strings.Repeat("0", 28), "ab02" + strings.Repeat("0", 28), "cd01" + strings.Repeat("0", 28), ""}
	read := 0
	list := func(yield func(durable.Waiting, error) bool) {
		for read = 1; read <= len(ids); read++ {
			if !yield(durable.Waiting{Saga: ids[read-1]}, nil) {
				return
			}
		}
	}
	c := p.command().Command("ledger")
	_, err := p.findSaga(c, list, "ab")
	require.Equal(t, exitUsage, exitCode(err))
	require.ErrorContains(t, err, "2 sagas")
	found, err := p.findSaga(c, list, "AB02")
	require.NoError(t, err)
	assert.Equal(t, ids[1], found.Saga)
	found, err = p.findSaga(c, list, ids[0])
	require.NoError(t, err)
	assert.Equal(t, ids[0], found.Saga)
	assert.Equal(t, 1, read, "there is no other with this id")
	found, err = p.findSaga(c, list, "ef")
	require.NoError(t, err)
	assert.Nil(t, found)
}

// The history of a saga says what happened, also when it has ended, and nothing of what was said.
func TestLedgerShow(t *testing.T) {
	t.Parallel()
	h := newLedgerHome(t)
	id := h.waits()
	_, stderr, code := h.run("ledger", "undo", id)
	require.Zero(t, code, stderr)
	var kinds []any
	rows := h.rows("ledger", "show", id[:16])
	for i, row := range rows {
		assert.EqualValues(t, i+1, row["n"])
		assert.NotEmpty(t, row["at"])
		kinds = append(kinds, row["kind"])
	}
	assert.Equal(t, []any{"turn", "begun", "turn", "undo", "undoing", "end"}, kinds)
	table := h.ok("ledger", "show", id)
	assert.Equal(t, len(rows)+1, strings.Count(table, "\n"))
	assert.Contains(t, table, "hold-hotel, hold-flight")
	assert.Regexp(t, ` end +undone\n$`, table)
	assert.NotContains(t, table, "tunnel")
	_, stderr, code = h.run("ledger", "show", id, "--audience", "test")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "no saga "+id)
}

// A ledger is well whatever is in it, and whoever can read that.
func TestLedgerCheck(t *testing.T) {
	t.Parallel()
	h := newLedgerHome(t)
	out := h.ok("ledger", "check", "--keyset", "missing.json")
	assert.Regexp(t, `can be written +yes`, out)
	assert.Regexp(t, `its clock +.* from the one here\n`, out)
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
	for _, c := range []struct{ do, want string }{
		{"", "this role may not use those that there are"},
		{"GRANT ALL ON mcpsaga_ledger.records TO app", "this role may not use those that there are"},
		{"GRANT ALL ON mcpsaga_ledger.items TO app; ALTER ROLE app SET default_transaction_read_only = on", "the database can only be read"},
	} {
		db.Exec(c.do)
		_, stderr, code := h.run("ledger", "check", "--ledger", db.URL("app", "postgres"))
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, stderr, c.want)
	}
	time.AfterFunc(time.Second, func() { db.Exec("ALTER ROLE app RESET default_transaction_read_only") })
	address, _ := h.serve("--ledger", db.URL("app", "postgres")) // it waits, as while another database becomes the primary
	assert.Equal(t, "ready", readyStatus(t, address))
	h.ok("ledger", "check", "--ledger", db.URL("app", "postgres"))
}

// A server waits for a database that is away, and later goes on without it.
func TestServeWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	db := postgrestest.Run(t, "fsync=off")
	url := db.URL("postgres", "postgres")
	db.Crash()
	time.AfterFunc(time.Second, db.Up)
	h := newHome(t)
	address, _ := h.serve("--ledger", url)
	assert.Equal(t, "ready", readyStatus(t, address))
	assert.Equal(t, done, h.ok("call", "complex_tool", "--server", address, "--answers", h.file("a.json", bothAnswers)))

	db.Crash()
	require.Eventually(t, func() bool { return readyStatus(t, address) == "degraded" }, time.Minute, 100*time.Millisecond)
	db.Up()
	require.Eventually(t, func() bool { return readyStatus(t, address) == "ready" }, time.Minute, 100*time.Millisecond)
	_, stderr, code := h.run("serve", "--addr", "127.0.0.1:0", "--ledger", db.URL("postgres", "nosuch"))
	assert.Equal(t, exitFailed, code, "this does not mend itself")
	assert.Contains(t, stderr, "nosuch")
}
