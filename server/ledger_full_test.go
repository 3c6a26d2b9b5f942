package server_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/ledger"
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
		store.before(func(c storetest.Call) {
			if c.Method == "Check" {
				checks++
			}
		})
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

// Without room for what lets other replicas continue a call, or read a task's result, the replica that began it does.
func TestCallsGoOnWithoutRoomForTheirNumbers(t *testing.T) {
	r := newRig(t, server.Options{Keys: newKeys(t), Ledger: inMemory(t), Tools: legacyDefinitions(), LedgerLimit: 3})
	c := r.connect("2025-11-25", everything)
	for i := range 6 {
		s := c.stream(methodCall(i+1, "tools/call", fmt.Sprintf(`{"name":"ask","arguments":{"what":"form"},"_meta":{"io.github.mcpsaga/idempotencyKey":"kkkkkkkkkkkkkkkk%d"}}`, i)))
		c.reply(s.wait("elicitation/create").ID, named("Jo"))
		assert.Contains(t, s.wait("").data, `"result"`)
	}
}

// What one kind of record takes of the limit is left to the others.
func TestKindsAreLimitedApart(t *testing.T) {
	tools := legacyDefinitions(new(seats).tool())
	r := newRig(t, server.Options{Keys: newKeys(t), Ledger: inMemory(t), Tools: tools, LedgerLimit: 1})
	sagas := func() (status int) {
		_, body := inSaga(r, "", nil)
		status, _ = inSaga(r, tokenOf(t, body), rowSeven)
		return status
	}
	sets := func() (answer string) {
		return r.connect("2025-11-25", everything).ask(methodCall(1, "logging/setLevel", `{"level":"error"}`))
	}
	assert.Equal(t, http.StatusOK, sagas())
	assert.Equal(t, http.StatusTooManyRequests, sagas())
	assert.Contains(t, sets(), `"result":{}`)
	assert.Contains(t, sets(), "too many sessions of yours are remembered")
	s := r.connect("2025-11-25", everything).stream(toolCall(1, "ask", `{"what":"form"}`))
	s.wait("elicitation/create")
}
