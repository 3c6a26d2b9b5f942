package program

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A call whose undo has failed is kept until that has been done.
func TestUndoCanBeTriedAgain(t *testing.T) {
	t.Parallel()
	var stuck atomic.Bool
	room := &saga.Effect[string, bool]{
		Name: "room", Tries: 1,
		Do: func(context.Context, saga.Key, string) (bool, error) { return true, nil },
		Undo: func(context.Context, saga.Performed[string, bool]) error {
			if stuck.Load() {
				return errors.New("stuck")
			}
			return nil
		},
	}
	sure := &steps.Form[struct {
		Yes bool `json:"yes"`
	}]{ID: "sure", Message: "This one?"}
	tool := saga.Flow[struct {
		Ask bool `json:"ask,omitzero"`
	}, string]{Info: saga.Info{Name: "hold", Asks: []steps.Question{sure}, Effects: []saga.Declared{room}}}
	tool.Run = func(r *saga.Run, in struct {
		Ask bool `json:"ask,omitzero"`
	}) (string, error) {
		if _, err := saga.Do(r, room, "7"); err != nil || !in.Ask {
			return "", saga.Failf("none is free")
		}
		_, err := saga.Ask(r, sure)
		return "taken", err
	}
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{Tools: []saga.Definition{tool}, Keys: keys, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	url := web.URL + server.Endpoint

	for _, protocol := range []string{"saga", "2026-07-28", "2025-11-25"} {
		h := newHome(t)
		answers := h.file("a.json", `{"sure":"decline"}`)
		check := func(code, want int, stderr string) {
			t.Helper()
			assert.Equal(t, want, code, stderr)
			assert.Contains(t, stderr, "What was not undone can be tried again with:\n  saga cancel saved.json\n", protocol)
		}
		for _, again := range [][]string{{"cancel", "saved.json"}, {"call", "--resume", "saved.json"}} {
			stuck.Store(true)
			_, stderr, code := h.run("call", "hold", "--server", url, "--protocol", protocol, "--save", "saved.json")
			check(code, exitFailed, stderr)
			for _, fails := range [][]string{{"call", "--resume", "saved.json"}, {"cancel", "saved.json"}} {
				_, stderr, code = h.run(fails...)
				check(code, exitFailed, stderr)
			}
			stuck.Store(false)
			assert.Contains(t, h.ok(again...), "Undone: room.", protocol)
			assert.NoFileExists(t, filepath.Join(h.dir, "saved.json"))
		}
		if protocol == "2025-11-25" { // whose calls are not saved
			continue
		}
		stuck.Store(true)
		_, stderr, code := h.run("call", "hold", "--json", `{"ask":true}`, "--server", url, "--protocol", protocol, "--save", "saved.json")
		require.Equal(t, exitNeedsAnswer, code, stderr)
		_, stderr, code = h.run("call", "--resume", "saved.json", "--answers", answers)
		check(code, exitDeclined, stderr)
		stuck.Store(false)
		assert.Contains(t, h.ok("cancel", "saved.json"), "Undone: room.", protocol)
		if protocol != "saga" { // in which alone a call that waits can be cancelled
			continue
		}
		stuck.Store(true)
		_, _, code = h.run("call", "hold", "--json", `{"ask":true}`, "--server", url, "--save", "saved.json")
		require.Equal(t, exitNeedsAnswer, code)
		_, stderr, code = h.run("cancel", "saved.json")
		check(code, exitFailed, stderr)
		stuck.Store(false)
		assert.Contains(t, h.ok("cancel", "saved.json"), "Undone: room.")
		assert.NoFileExists(t, filepath.Join(h.dir, "saved.json"))
	}
}
