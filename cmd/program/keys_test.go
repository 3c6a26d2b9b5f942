package program

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// keyIDs returns the ids in a listing, in order.
func keyIDs(listing string) []string {
	return regexp.MustCompile(`(?m)^[0-9a-f]{8}\b`).FindAllString(listing, -1)
}

func TestFirstStartsAgreeOnOneKeyset(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	var wait sync.WaitGroup
	said := make([]string, 4)
	for i := range said {
		wait.Go(func() {
			cmd := h.command("stdio") // ends at once: its input is empty
			text, err := cmd.CombinedOutput()
			assert.NoError(t, err)
			said[i] = string(text)
		})
	}
	wait.Wait()
	path := filepath.Join(h.dir, "config", "saga", "keyset.json")
	assert.Equal(t, 1, strings.Count(strings.Join(said, ""), "created a keyset for you at "+path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestKeysLifecycle(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.env = append(h.env, "SAGA_KEYSET=k.json")
	_, stderr, code := h.run("serve")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "saga keys new --keyset k.json")

	old := keyIDs(h.ok("keys", "new"))[0]
	_, stderr, code = h.run("keys", "new")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "exists")

	address, server := h.serve()
	_, _, code = h.run("call", "complex_tool", "--server", address, "--save", "early.json")
	require.Equal(t, exitNeedsAnswer, code)

	ids := keyIDs(h.ok("keys", "add"))
	require.Len(t, ids, 2)
	fresh := ids[1]
	require.NoError(t, server.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return len(readyKeys(t, address)) == 2 }, time.Minute, 20*time.Millisecond)
	listing := h.ok("keys", "promote", strings.ToUpper(fresh))
	assert.Regexp(t, fresh+`.*seals and opens`, listing)
	require.NoError(t, server.Process.Signal(syscall.SIGHUP))

	// A call that began with the old key goes on.
	assert.Equal(t, done, h.ok("call", "--resume", "early.json", "--answers", h.file("a.json", bothAnswers)))

	_, stderr, code = h.run("keys", "destroy", old, "--yes")
	assert.Equal(t, exitFailed, code, "not before it is disabled")
	assert.NotEmpty(t, stderr)
	assert.Regexp(t, old+`.*nothing`, h.ok("keys", "disable", old))
	assert.Regexp(t, old+`.*opens`, h.ok("keys", "enable", old))
	h.ok("keys", "disable", old)
	_, stderr, code = h.run("keys", "destroy", old)
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, "--yes")
	assert.Equal(t, []string{fresh}, keyIDs(h.ok("keys", "destroy", old, "--yes")))
	assert.Equal(t, []string{fresh}, keyIDs(h.ok("keys", "list")))
	_, _, code = h.run("keys", "promote", "00000000")
	assert.Equal(t, exitUsage, code)
}

func readyKeys(t *testing.T, address string) []any {
	t.Helper()
	response, err := http.Get(strings.TrimSuffix(address, "/mcp") + "/readyz")
	require.NoError(t, err)
	defer response.Body.Close()
	var ready struct{ Keys []any }
	require.NoError(t, json.NewDecoder(response.Body).Decode(&ready))
	return ready.Keys
}

func TestTokenExplain(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	address, _ := h.serve("--keyset", "k.json", "--audience", "prod")
	_, _, code := h.run("call", "complex_tool", "--server", address, "--save", "saved.json")
	require.Equal(t, exitNeedsAnswer, code)
	data, err := os.ReadFile(filepath.Join(h.dir, "saved.json"))
	require.NoError(t, err)
	var saved struct{ Position struct{ Token string } }
	require.NoError(t, json.Unmarshal(data, &saved))
	token := saved.Position.Token

	out := h.ok("token", "explain", token, "--keyset", "k.json", "--audience", "prod")
	assert.Contains(t, out, `"tool": "complex_tool"`)
	assert.Contains(t, out, `"turn": 1`)
	assert.Contains(t, out, `"asked": [
    {
      "id": "step-elicitation-A"
    }
  ]`)
	for _, c := range out {
		assert.False(t, c < ' ' && c != '\n', "%q shows raw bytes", out)
	}
	assert.Contains(t, out, "the primary")

	out, stderr, code := h.run("token", "explain", token, "--keyset", "k.json", "--audience", "test")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "authentication")
	assert.NotContains(t, out, "complex_tool")

	h.ok("keys", "new", "--keyset", "other.json")
	out, stderr, code = h.run("token", "explain", token, "--keyset", "other.json", "--audience", "prod")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "unknown_key")
	assert.Contains(t, out, "not in the keyset")

	out, stderr, code = h.run("token", "explain", "1nonsense!", "--keyset", "k.json")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "malformed")
	assert.Contains(t, stderr, "all of it was copied")
	assert.NotContains(t, out, "key", "none was read")
}

// Of a state that is kept in a ledger a token holds a reference.
func TestExplainTokenThatRefersToALedger(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	keys, err := codec.LoadKeyset(filepath.Join(h.dir, "k.json"))
	require.NoError(t, err)
	store, err := sqlite.Open(t.Context(), filepath.Join(h.dir, "l.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	type order struct {
		Office string `json:"office"`
	}
	type meal struct {
		Dish string `json:"dish"`
	}
	ask := &steps.Form[meal]{ID: "meal", Message: "What?"}
	s, err := server.New(server.Options{Keys: keys, Audience: "prod", Ledger: store, Tools: []saga.Definition{saga.Flow[order, string]{
		Info: saga.Info{Name: "lunch", ShortTokens: true, Asks: []steps.Question{ask}},
		Run: func(r *saga.Run, in order) (string, error) {
			_, err := saga.Ask(r, ask)
			return in.Office, err
		},
	}}})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	_, _, code := h.run("call", "lunch", "office=Berlin", "--server", web.URL+server.Endpoint, "--save", "saved.json")
	require.Equal(t, exitNeedsAnswer, code)

	out := h.ok("token", "explain", "saved.json", "--keyset", "k.json", "--audience", "prod")
	assert.Contains(t, out, `"tool": "lunch"`)
	assert.Contains(t, out, `"state": "kept in the server's ledger"`)
	assert.NotContains(t, out, "Berlin")
}

// A state is shown so that it can be read, as far as it can.
func TestExplainShowsStates(t *testing.T) {
	for state, want := range map[string]any{
		`{"a":{"b":null}}`: map[string]any{"a": map[string]any{"b": nil}},
		"name: tea":        "name: tea",
		"\x07\xff\x81":     "B/+B",
		"":                 nil,
	} {
		data, err := json.Marshal(explanation{State: readable([]byte(state))})
		require.NoError(t, err)
		var shown map[string]any
		require.NoError(t, json.Unmarshal(data, &shown))
		assert.Equal(t, want, shown["state"])
	}
}
