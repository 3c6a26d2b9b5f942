package program

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/state"
)

// A saved call is one of its server: what environment and file say of servers is about other calls. Only the command line sends
// a call elsewhere.
func TestSavedCallsStayWithTheirServer(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(stranger.Close)
	h := newHome(t)
	address, _ := h.serve()
	self, err := os.Executable()
	require.NoError(t, err)
	answers := h.file("a.json", bothAnswers)
	for _, where := range [][]string{{"--server", address}, {"--stdio", quote(self) + " stdio --keyset k.json"}} {
		h := *h
		if where[0] == "--stdio" {
			h.ok("keys", "new", "--keyset", "k.json")
		}
		for _, name := range []string{"one.json", "two.json", "three.json"} {
			_, stderr, code := h.run(append([]string{"call", "complex_tool", "--save", name}, where...)...)
			require.Equal(t, exitNeedsAnswer, code, stderr)
		}
		plain := h.env
		for _, way := range []string{"environment", "file"} {
			if h.env = append(plain[:len(plain):len(plain)], "SAGA_SERVER="+stranger.URL, "SAGA_BEARER=secret"); way == "file" {
				h.env = append(plain[:len(plain):len(plain)], "SAGA_CONFIG="+h.file("saga.yaml", "server: "+stranger.URL))
			}
			if way == "file" {
				assert.Contains(t, h.ok("call", "--resume", "one.json", "--answers", answers), done)
			} else {
				h.ok("cancel", "two.json")
			}
		}
		assert.Zero(t, asked.Load())
		_, stderr, _ := h.run("call", "--resume", "three.json", "--server", stranger.URL, "--answers", answers)
		assert.NotZero(t, asked.Swap(0), stderr)
		require.NoError(t, os.Remove(h.dir+"/three.json"))
	}
}

// A token of the environment that is for the server there does not go to that of a saved call, which then is said.
func TestTokensOfOtherServersAreNotSent(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization") + r.Header.Get("X-Key"))
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(other.Close)
	h := newHome(t)
	address, _ := h.serve()
	for env, want := range map[string]string{
		"SAGA_SERVER=http://127.0.0.1:1":     "",
		"SAGA_SERVER=" + other.URL:           "Bearer secretown",
		"SAGA_SERVER=" + other.URL + "/mcp/": "Bearer secretown",
		"SAGA_SERVER=":                       "Bearer secretown",
	} {
		_, _, code := h.run("call", "complex_tool", "--server", address, "--save", "saved.json")
		require.Equal(t, exitNeedsAnswer, code)
		text, err := os.ReadFile(h.dir + "/saved.json")
		require.NoError(t, err)
		h.file("saved.json", strings.Replace(string(text), address, other.URL+"/mcp", 1))
		own := *h
		own.env = append(own.env[:len(own.env):len(own.env)], env, "SAGA_BEARER=secret", "SAGA_HEADER=X-Key: own")
		_, stderr, _ := own.run("cancel", "saved.json")
		assert.Equal(t, want, got.Load(), env)
		assert.Equal(t, want == "", strings.Contains(stderr, "are for http://127.0.0.1:1/mcp, and were not sent: give --bearer"), stderr)
		require.NoError(t, os.Remove(h.dir+"/saved.json"))
	}
}

// A saved call without a token is not explained by the lack of one.
func TestExplainingACallWithoutAToken(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.ok("keys", "new", "--keyset", "k.json")
	call := state.Call{URL: "http://127.0.0.1:1/mcp", Position: client.Position{Version: 1, Dialect: "mcp-2026-07-28", Tool: "x", Task: "t"}}
	require.NoError(t, call.Save(h.dir+"/saved.json"))
	_, stderr, code := h.run("token", "explain", "saved.json", "--keyset", "k.json")
	assert.Equal(t, exitFailed, code)
	assert.Contains(t, stderr, "the saved call saved.json has no token: the server holds it, as a task")
}
