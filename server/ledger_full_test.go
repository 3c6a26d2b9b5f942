package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// fullStore is a store that can be read, and written unless it is full; it counts what it is to write.
type fullStore struct {
	ledger.Store
	full    atomic.Bool
	noItems atomic.Bool // it takes records without items only
	writes  atomic.Int32
}

// errFull is what SQLite says: what it has not written altogether may be found after a crash.
var errFull = fmt.Errorf("the disk is full: %w", ledger.ErrUnknown)

func (s *fullStore) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	s.writes.Add(1)
	if s.full.Load() || s.noItems.Load() && len(items) > 0 {
		return errFull
	}
	return s.Store.Swap(ctx, r, items...)
}

// A ledger that can be read and not written is of no use, and /readyz says so, until it can be written
// again. Whoever asks has it written at most once in ten seconds while all is well.
func TestReadyTellsOfAFullLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logBuffer)
		store := &fullStore{Store: ledger.NewMemory(ledger.MemoryOptions{})}
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
		assert.LessOrEqual(t, store.writes.Load(), int32(2*6+2), "in a minute, whoever asks")

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

		// No task begins without items.
		store.full.Store(false)
		time.Sleep(time.Second)
		asks(http.StatusOK)
		store.noItems.Store(true)
		time.Sleep(10 * time.Second)
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
