package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// sick is a store that is asked how it is, and counts how often.
type sick struct {
	*storetest.Intercept
	asked atomic.Int32
	down  atomic.Bool
	hangs atomic.Bool
}

var errNoDatabase = errors.New("dial tcp: no route to db.internal")

func newSick() *sick {
	s := new(sick)
	s.Intercept = &storetest.Intercept{Store: ledger.NewMemory(ledger.MemoryOptions{}), Around: func(ctx context.Context, c storetest.Call, next func() error) error {
		if c.Method != "Check" && c.ID != (store.ID{1}) {
			return next()
		}
		s.asked.Add(1)
		if s.hangs.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		if s.down.Load() {
			return errNoDatabase
		}
		return next()
	}}
	return s
}

// ready asks a server's /readyz under a name of the loopback interface, or any other.
func ready(t *testing.T, h http.Handler, host, query string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://"+host+"/readyz"+query, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// A server whose ledger does not answer says so and stays ready, but for who asks for one
// with a ledger. Strangers learn the status, and cannot keep the database busy.
func TestReadyTellsOfTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logBuffer)
		store := newSick()
		s, err := server.New(server.Options{Keys: newKeys(t), Ledger: store, Logger: slog.New(slog.NewTextHandler(log, nil)), Now: time.Now})
		require.NoError(t, err)
		defer s.Close()
		h := s.Handler()
		const here, elsewhere = "localhost", "evil.example"

		status, body := ready(t, h, here, "?ledger=required")
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, body, `{"status":"ready","keys":[`)
		assert.NotContains(t, body, "ledger")

		store.down.Store(true)
		time.Sleep(time.Second)
		since := time.Now().UTC().Format(time.RFC3339)
		asked := store.asked.Load() // by workers too
		for range 100 {
			status, body = ready(t, h, elsewhere, "")
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, `{"status":"degraded"}`, body)
		}
		assert.Equal(t, asked+1, store.asked.Load(), "once, for a hundred strangers")
		_, body = ready(t, h, here, "")
		assert.Contains(t, body, `"ledgerDownSince":"`+since+`"`)
		assert.NotContains(t, body, "db.internal", "that is for the log")
		status, body = ready(t, h, elsewhere, "?ledger=required")
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Equal(t, `{"status":"degraded"}`, body)
		status, _ = ready(t, h, elsewhere, "?ledger=whatever")
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, log.take(), "the ledger does not answer")

		time.Sleep(10 * time.Second)
		_, body = ready(t, h, here, "")
		assert.Contains(t, body, `"ledgerDownSince":"`+since+`"`, "since it was first noticed")
		assert.Empty(t, log.take(), "it is said once")

		store.down.Store(false)
		time.Sleep(time.Second)
		status, body = ready(t, h, here, "?ledger=required")
		assert.Equal(t, http.StatusOK, status)
		assert.Contains(t, body, `{"status":"ready"`)
		assert.Contains(t, log.take(), "the ledger answers again")

		// One that hangs is asked once as well, and not waited for without end.
		time.Sleep(time.Second)
		store.hangs.Store(true)
		before, begun := store.asked.Load(), time.Now()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				status, _ := ready(t, h, elsewhere, "?ledger=required")
				assert.Equal(t, http.StatusServiceUnavailable, status)
			})
		}
		all.Wait()
		assert.EqualValues(t, 1, store.asked.Load()-before)
		assert.Equal(t, 2*time.Second, time.Since(begun))
	})
}

// What a ledger adds to a server ends with it.
func TestWorkerEndsWithTheServer(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	o := server.Options{Keys: newKeys(t), Ledger: newSick(), Logger: slog.New(slog.DiscardHandler), Tools: []saga.Definition{new(seats).tool()}}
	s, err := server.New(o)
	require.NoError(t, err)
	s.Handler()
	s.Handler()
	s.Close()
	s.Close()

	unused, err := server.New(o)
	require.NoError(t, err)
	begun := time.Now()
	unused.Close()
	assert.Less(t, time.Since(begun), 2*time.Second, "there is nothing to wait for")
	unused.Handler() // does not begin it any more

	store := newSick()
	o.Ledger = store
	mounted, err := server.New(o)
	require.NoError(t, err)
	mounted.Handler() // in a server of somebody else's, who closes the store and no more
	require.NoError(t, store.Close())

	_, err = server.New(o)
	require.NoError(t, err, "who only looks whether a server can be made need not close it")
}
