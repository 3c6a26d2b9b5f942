package program

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// till is a tool that waits for a payment, and the handles by which that is delivered.
func till() (tool saga.Flow[struct{}, string], handles chan string) {
	paid := &steps.Event[struct {
		Amount int `json:"amount"`
	}]{ID: "paid", Message: "Waiting for the payment.", Within: time.Hour}
	handles = make(chan string, 2)
	pay := &saga.Effect[string, string]{Name: "pay", Do: func(_ context.Context, _ saga.Key, handle string) (string, error) {
		handles <- handle
		return "", nil
	}}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "buy", Asks: []steps.Question{paid}, Effects: []saga.Declared{pay}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			handle, err := saga.Handle(r, paid)
			if err != nil {
				return "", err
			}
			if _, err = saga.Do(r, pay, handle); err != nil {
				return "", err
			}
			_, err = saga.Ask(r, paid)
			return "paid", err
		},
	}, handles
}

func TestEventsAreSent(t *testing.T) {
	t.Parallel()
	tool, handles := till()
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	s, err := server.New(server.Options{Keys: keys, Ledger: ledger.NewMemory(ledger.MemoryOptions{}), Tools: []saga.Definition{tool}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	mux := http.NewServeMux()
	mux.Handle("/events/", http.StripPrefix("/events/", s.EventHandler()))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	h := newHome(t)
	begin := func() string {
		_, err := s.Handle(t.Context(), &server.Request{Method: "tools/callSaga", Params: []byte(`{"name":"buy"}`)})
		require.NoError(t, err)
		return web.URL + "/events/" + <-handles
	}
	at := begin()
	for _, try := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitUsage, "takes the address"}, {[]string{"events"}, exitUsage, "no http or https URL"}, {[]string{at, "{"}, exitUsage, "no JSON"},
		{[]string{at, "{}", "--reject", "x"}, exitUsage, "not both"}, {[]string{at, "", "--reject", "x"}, exitUsage, "not both"},
		{[]string{at, "-"}, exitUsage, "the value is empty: leave it out to send an empty object"}, {[]string{at, ""}, exitUsage, "the value is empty"},
		{[]string{at, `{"amount":"much"}`}, exitFailed, "(422)"}, {[]string{web.URL + "/events/x"}, exitFailed, "(404)"}, {[]string{web.URL + "/x"}, exitFailed, "404"},
		{[]string{at, `{"amount":3}`}, 0, "delivered"}, {[]string{at, `{"amount":3}`}, 0, "delivered"}, {[]string{at, `{"amount":4}`}, exitFailed, "(409)"},
		{[]string{begin(), "--reject", "no funds"}, 0, "delivered"},
	} {
		stdout, stderr, code := h.run(append([]string{"events", "send"}, try.args...)...)
		assert.Equal(t, try.code, code, try.args)
		assert.Contains(t, stdout+stderr, try.says)
	}
}

// An operator who cannot reach a server delivers by its ledger: a server that waits takes that up.
func TestEventsAreSentByTheLedger(t *testing.T) {
	t.Parallel()
	tool, handles := till()
	h := newHome(t)
	h.env = append(h.env, "SAGA_KEYSET=k.json", "SAGA_AUDIENCE=prod", "SAGA_LEDGER=sqlite:l.db")
	h.ok("keys", "new")
	keys, err := codec.LoadKeyset(filepath.Join(h.dir, "k.json"))
	require.NoError(t, err)
	store, err := sqlite.Open(t.Context(), filepath.Join(h.dir, "l.db"))
	require.NoError(t, err)
	s, err := server.New(server.Options{Keys: keys, Audience: "prod", Ledger: store, Tools: []saga.Definition{tool}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close(); assert.NoError(t, store.Close()) })
	type ended struct {
		says string
		err  error
	}
	begin := func() (handle string, end chan ended) {
		end = make(chan ended, 1)
		go func() {
			r, err := s.Handle(t.Context(), &server.Request{Method: "tools/callSaga", Params: []byte(`{"name":"buy"}`)})
			var got struct{ SagaToken string }
			for err == nil && json.Unmarshal(r, &got) == nil && got.SagaToken != "" {
				params := []byte(`{"sagaToken":"` + got.SagaToken + `","completedSteps":[]}`)
				got.SagaToken = ""
				r, err = s.Handle(t.Context(), &server.Request{Method: "tools/resumeSaga", Params: params})
			}
			end <- ended{string(r), err}
		}()
		return <-handles, end
	}
	for _, try := range []struct {
		flags, args []string
		end         string
	}{
		{nil, []string{`{"amount":3}`}, `"paid"`}, {[]string{"--reject", "no funds"}, nil, "was declined"}, {nil, []string{`{"amount":"much"}`}, `"isError":true`},
	} {
		handle, end := begin()
		assert.Equal(t, "delivered\n", h.ok(slices.Concat([]string{"events", "send"}, try.flags, []string{"--", handle}, try.args)...))
		got := <-end
		assert.NoError(t, got.err)
		assert.Contains(t, got.says, try.end)
		if try.end == `"paid"` {
			h.ok("events", "send", "--", handle, `{"amount":3}`)
			_, stderr, code := h.run("events", "send", "--", handle, `{"amount":4}`)
			assert.Equal(t, exitFailed, code)
			assert.Contains(t, stderr, "another value was delivered before")
		}
	}
	forged := strings.Repeat("A", 32)
	for _, args := range [][]string{{forged, "{}"}, {forged, "{}", "--audience", "other"}} {
		_, stderr, code := h.run(append([]string{"events", "send"}, args...)...)
		assert.Equal(t, exitFailed, code)
		assert.Contains(t, stderr, "no such event")
	}
	_, stderr, code := h.run("events", "send", "-"+forged)
	assert.Equal(t, exitUsage, code)
	assert.Contains(t, stderr, "if that is a handle, write -- before it")
	_, stderr, code = h.run("events", "send", forged, "{}", "--ledger", "off")
	assert.Equal(t, exitUsage, code, stderr)
}
