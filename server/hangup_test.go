package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A client that hangs up while a room is held, and cancels, with its answers or without, does not pay: that was not
// begun, and could not be undone.
func TestWhoHangsUpAndCancelsDoesNotPay(t *testing.T) {
	for name, answers := range map[string]string{"with answers": sure, "without": ""} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var did []string
			note := func(what string) {
				mu.Lock()
				defer mu.Unlock()
				did = append(did, what)
			}
			ctx, hangUp := context.WithCancel(t.Context())
			ask := &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
			room := &saga.Effect[string, bool]{
				Name: "room",
				Do: func(turn context.Context, _ saga.Key, _ string) (bool, error) {
					note("room")
					hangUp()
					<-turn.Done()
					return false, turn.Err()
				},
				Undo: func(context.Context, saga.Performed[string, bool]) error { note("undo room"); return nil },
			}
			pay := &saga.Effect[string, bool]{
				Name: "pay", Irreversible: true,
				Do: func(context.Context, saga.Key, string) (bool, error) { note("pay"); return true, nil },
			}
			r := newRig(t, server.Options{Ledger: ledger.NewMemory(ledger.MemoryOptions{}), Tools: []saga.Definition{saga.Flow[struct{}, string]{
				Info: saga.Info{Name: "room", Asks: []steps.Question{ask}, Effects: []saga.Declared{room, pay}},
				Run: func(r *saga.Run, _ struct{}) (string, error) {
					if _, err := saga.Ask(r, ask); err != nil {
						return "", err
					}
					for _, e := range []*saga.Effect[string, bool]{room, pay} {
						if _, err := saga.Do(r, e, "7"); err != nil {
							return "", err
						}
					}
					return "yours", nil
				},
			}}})
			token := parse(t, r.post(callRoom)).Result.SagaToken
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/mcp", strings.NewReader(roomMessage("resumeSaga", token, sure)))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			resp, err := r.client().Do(req)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			require.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, []string{"room"}, undone(t, r.post(roomMessage("cancelSaga", token, answers))))
			mu.Lock()
			defer mu.Unlock()
			assert.Equal(t, []string{"room", "undo room"}, did)
		})
	}
}
