package server_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A ledger that can be read and not written is of no use, and /readyz says so, until it can be written
// again. Whoever asks has it written at most once in ten seconds while all is well.
func TestReadyTellsOfAFullLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logBuffer)
		store := newTroubled(ledger.NewMemory(ledger.MemoryOptions{}))
		checks := 0
		store.on = func(c storetest.Call) {
			if c.Method == "Check" {
				checks++
			}
		}
		s, err := server.New(server.Options{Keys: newKeys(t), Ledger: store, Logger: slog.New(slog.NewTextHandler(log, nil)), Now: time.Now, Tools: []saga.Definition{new(seats).tool()}})
		require.NoError(t, err)
		defer s.Close()
		h := s.Handler()
		asks := func(want int) {
			t.Helper()
			status, _ := ready(t, h, "evil.example", "?ledger=required")
			assert.Equal(t, want, status)
		}
		for range 60 {
			for range 20 {
				asks(http.StatusOK)
			}
			time.Sleep(time.Second)
		}
		assert.LessOrEqual(t, checks, 6+1, "in a minute, whoever asks")

		store.full.Store(true)
		time.Sleep(10 * time.Second)
		for range 60 {
			asks(http.StatusServiceUnavailable)
			time.Sleep(time.Second)
		}
		assert.Contains(t, log.take(), "nothing can be written: the disk is full")
		_, body := ready(t, h, "localhost", "")
		assert.Contains(t, body, `{"status":"degraded"`)
		assert.Contains(t, body, "ledgerDownSince")

		store.full.Store(false)
		time.Sleep(time.Second)
		asks(http.StatusOK)

		// What a request cannot write is known at once.
		r := &rig{t: t, srv: s}
		r.url, r.http = "http://localhost", &http.Client{Transport: handlerTransport{h}}
		_, body = inSaga(r, "", nil)
		token := tokenOf(t, body)
		asks(http.StatusOK)
		store.full.Store(true)
		status, _ := inSaga(r, token, rowSeven)
		assert.Equal(t, http.StatusServiceUnavailable, status)
		asks(http.StatusServiceUnavailable)
	})
}

// handlerTransport has a handler answer what is sent.
type handlerTransport struct{ h http.Handler }

func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	t.h.ServeHTTP(w, r)
	return w.Result(), nil
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
	r := newRig(t, server.Options{Ledger: store})
	h := r.srv.Handler()
	becomes := func(want int) {
		t.Helper()
		require.Eventually(t, func() bool {
			status, _ := ready(t, h, "localhost", "?ledger=required")
			return status == want
		}, time.Minute, 100*time.Millisecond)
	}
	becomes(http.StatusOK)
	db.Exec("REVOKE INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mcpsaga_ledger FROM app")
	becomes(http.StatusServiceUnavailable)
	db.Exec("GRANT " + all + " TO app")
	becomes(http.StatusOK)
	db.Exec("REVOKE ALL ON mcpsaga_ledger.items FROM app")
	becomes(http.StatusServiceUnavailable)
}
