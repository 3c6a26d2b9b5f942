package interop

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// seatTool asks for a row, holds a seat in it, and asks whether it is to be taken.
func seatTool() saga.Definition {
	type row struct {
		Row string `json:"row"`
	}
	type sure struct {
		Sure bool `json:"sure"`
	}
	askRow := &steps.Form[row]{ID: "row", Message: "Which row?"}
	askSure := &steps.Form[sure]{ID: "sure", Message: "Sure?"}
	hold := &saga.Effect[string, string]{
		Name: "hold",
		Do:   func(_ context.Context, _ saga.Key, row string) (string, error) { return "seat in " + row, nil },
		Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
	}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "seat", Asks: []steps.Question{askRow, askSure}, Effects: []saga.Declared{hold}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			where, err := saga.Ask(r, askRow)
			if err != nil {
				return "", err
			}
			got, err := saga.Do(r, hold, where.Row)
			if err != nil {
				return "", err
			}
			if form, err := saga.Ask(r, askSure); err != nil || !form.Sure {
				return "", err
			}
			return got, nil
		},
	}
}

// A PostgreSQL that crashes while answers come in, and is back after two seconds, costs no answer,
// neither in sessions nor in turns.
func TestPostgresIsAwayForTwoSeconds(t *testing.T) {
	t.Parallel()
	db := postgrestest.Run(t, "fsync=off")
	store, err := postgres.Open(t.Context(), db.URL("postgres", "postgres"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{Tools: []saga.Definition{seatTool()}, Keys: keys, Ledger: store, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	const each = 12
	var asked, all sync.WaitGroup
	down := make(chan struct{})
	asked.Add(2 * each)
	for i := range each {
		spread := time.Duration(i) * 150 * time.Millisecond
		for _, protocol := range []string{"2025-11-25", "2026-07-28"} {
			all.Go(func() {
				c := client.New(&client.HTTP{URL: web.URL + server.Endpoint}, client.Options{Protocol: protocol, Sessions: legacy.Open})
				defer c.Close()
				result, err := c.Call(t.Context(), "seat", nil, client.Handlers{
					Elicit: func(_ context.Context, r *client.Request) (*client.ElicitResult, error) {
						if r.Message == "Which row?" {
							return client.Accept(map[string]string{"row": "7"}), nil
						}
						asked.Done()
						<-down
						time.Sleep(spread)
						return client.Accept(map[string]bool{"sure": true}), nil
					},
				})
				if assert.NoError(t, err, protocol) {
					assert.Equal(t, "seat in 7", result.Content.Text(), protocol)
				}
			})
		}
	}
	asked.Wait()
	close(down)
	db.Crash()
	time.Sleep(2 * time.Second)
	db.Up()
	all.Wait()
}

// A role that may not write all that sagas and tasks need is found out, and is well again when it may.
func TestReadyTellsOfARoleThatMayOnlyRead(t *testing.T) {
	t.Parallel()
	db := postgrestest.Run(t, "fsync=off")
	first, err := postgres.Open(t.Context(), db.URL("postgres", "postgres"))
	require.NoError(t, err)
	require.NoError(t, first.Close())
	const all = "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mcpsaga_ledger"
	db.Exec("CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA mcpsaga_ledger TO app; GRANT " + all + " TO app")
	store, err := postgres.Open(t.Context(), db.URL("app", "postgres"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{Tools: []saga.Definition{seatTool()}, Keys: keys, Ledger: store, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	becomes := func(want int) {
		t.Helper()
		require.Eventually(t, func() bool {
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/readyz?ledger=required", nil))
			return w.Code == want
		}, time.Minute, 100*time.Millisecond)
	}
	becomes(200)
	db.Exec("REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mcpsaga_ledger FROM app")
	becomes(503)
	db.Exec("GRANT " + all + " TO app")
	becomes(200)
	db.Exec("REVOKE ALL ON mcpsaga_ledger.items FROM app")
	becomes(503)
}
