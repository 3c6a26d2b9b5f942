package program

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// holding is a server whose tool holds a room, slowly the first time, and then asks.
func holding(t *testing.T, store ledger.Store) (url string, acting, undone chan saga.Key) {
	t.Helper()
	acting, undone = make(chan saga.Key, 9), make(chan saga.Key, 9)
	tries := 0
	room := &saga.Effect[string, bool]{
		Name: "room",
		Do: func(ctx context.Context, k saga.Key, _ string) (bool, error) {
			acting <- k
			if tries++; tries == 1 {
				<-ctx.Done()
				return false, ctx.Err()
			}
			return true, nil
		},
		Undo: func(_ context.Context, p saga.Performed[string, bool]) error { undone <- p.Key; return nil },
	}
	sure := &steps.Form[struct {
		Yes bool `json:"yes"`
	}]{ID: "sure", Message: "This one?"}
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "hold", Asks: []steps.Question{sure}, Effects: []saga.Declared{room}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Do(r, room, "7"); err != nil {
				return "", err
			}
			_, err := saga.Ask(r, sure)
			return "taken", err
		},
	}
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{Tools: []saga.Definition{tool}, Keys: keys, Ledger: store, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	return web.URL + server.Endpoint, acting, undone
}

// A call that is stopped in its first turn is saved if the server knows its key again, and continues there.
func TestStoppedInTheFirstTurn(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"saga", "2026-07-28"} {
		for name, store := range map[string]ledger.Store{"a ledger": ledger.NewMemory(ledger.MemoryOptions{}), "no ledger": nil} {
			t.Run(protocol+", "+name, func(t *testing.T) {
				t.Parallel()
				h := newHome(t)
				url, acting, undone := holding(t, store)
				cmd := h.command("call", "hold", "--server", url, "--protocol", protocol, "--save", "saved.json")
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				require.NoError(t, cmd.Start())
				first := <-acting
				require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
				assert.Equal(t, exitInterrupted, exitOf(t, cmd.Wait()))
				assert.Contains(t, stderr.String(), "saga: stopped\n")
				if store == nil {
					assert.NoFileExists(t, filepath.Join(h.dir, "saved.json"))
					assert.Equal(t, first, <-undone)
					return
				}
				require.Contains(t, stderr.String(), "saga call --resume saved.json")
				_, text, code := h.run("cancel", "saved.json")
				assert.Equal(t, exitFailed, code)
				assert.Contains(t, text, "It cannot be cancelled before")
				assert.FileExists(t, filepath.Join(h.dir, "saved.json"))
				assert.Empty(t, acting, "to cancel performs nothing")

				_, text, code = h.run("call", "--resume", "saved.json", "--protocol", protocol)
				assert.Equal(t, exitNeedsAnswer, code, text)
				assert.Equal(t, first, <-acting)
				if protocol == "saga" {
					assert.Contains(t, h.ok("cancel", "saved.json"), "Undone: room.")
					assert.Equal(t, first, <-undone)
				} else {
					assert.Equal(t, "taken\n", h.ok("call", "--resume", "saved.json", "--answers", h.file("a.json", `{"sure":{"yes":true}}`)))
				}
				assert.NoFileExists(t, filepath.Join(h.dir, "saved.json"))
			})
		}
	}
}

// So is one whose server has not answered in time.
func TestLateInTheFirstTurn(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	url, _, _ := holding(t, ledger.NewMemory(ledger.MemoryOptions{}))
	_, stderr, code := h.run("call", "hold", "--server", url, "--timeout", "500ms")
	assert.Equal(t, exitServer, code)
	assert.Contains(t, stderr, "did not answer in time")
	assert.Contains(t, stderr, "saga call --resume ")
	assert.Contains(t, h.ok("calls"), "tool hold")
}
