package program

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An undo is not called one if something stays.
func TestLedgerUndoSaysWhatStays(t *testing.T) {
	t.Parallel()
	h := newLedgerHome(t)
	mailed := h.waitsIn("trip_mail")
	_, stderr, code := h.run("ledger", "undo", mailed)
	assert.Equal(t, exitFailed, code, stderr)
	assert.Contains(t, stderr, "what has no Undo stays: mail\nUndone: hold-hotel\n")
	assert.NotContains(t, stderr, "it is undone")
	assert.Regexp(t, `(?m) not undone +mail +it has no Undo$`, h.ok("ledger", "show", mailed))

	// Another operator closes it while this one waits for a server.
	closed := h.waits()
	h.stop()
	type ran struct {
		stderr string
		code   int
	}
	undo := make(chan ran)
	go func() {
		_, stderr, code := h.run("ledger", "undo", closed)
		undo <- ran{stderr, code}
	}()
	require.Eventually(t, func() bool {
		stdout, _, _ := h.run("ledger", "show", closed)
		return strings.Contains(stdout, " undo ")
	}, 30*time.Second, 50*time.Millisecond)
	_, stderr, code = h.run("ledger", "close", "--yes", closed)
	require.Zero(t, code, stderr)
	assert.Contains(t, stderr, "what it did stays: hold-hotel, hold-flight\n")
	got := <-undo
	assert.Equal(t, exitFailed, got.code, got.stderr)
	assert.Contains(t, got.stderr, "an operator has closed it, and what it did stays: hold-hotel, hold-flight\n")
	assert.NotContains(t, got.stderr, "it is undone")
}

// The client that answers a saga that was closed is not asked to begin again.
func TestLedgerCloseIsReadByClients(t *testing.T) {
	t.Parallel()
	h := newLedgerHome(t)
	to, right := h.file("to.json", `{"where":{"to":"Oslo"}}`), h.file("right.json", `{"sure":{"sure":true}}`)
	for _, protocol := range []string{"saga", "2026-07-28"} {
		_, stderr, code := h.run("call", "trip", "--server", h.url, "--protocol", protocol, "--answers", to, "--save", "saved.json")
		require.Equal(t, exitNeedsAnswer, code, stderr)
		for id := range h.ids() {
			h.ok("ledger", "close", "--yes", id)
		}
		stdout, stderr, code := h.run("call", "--resume", "saved.json", "--answers", right)
		assert.Equal(t, exitFailed, code, protocol)
		assert.Contains(t, stdout+stderr, "The operator of the server has ended the saga. What it did stays.", protocol)
	}
}
