package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

func TestEventsAreSent(t *testing.T) {
	t.Parallel()
	paid := &steps.Event[struct {
		Amount int `json:"amount"`
	}]{ID: "paid", Message: "Waiting for the payment.", Within: time.Hour}
	handles := make(chan string, 2)
	pay := &saga.Effect[string, string]{Name: "pay", Do: func(_ context.Context, _ saga.Key, handle string) (string, error) {
		handles <- handle
		return "", nil
	}}
	tool := saga.Flow[struct{}, string]{
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
	}
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
		{[]string{at, "{}", "--reject", "x"}, exitUsage, "not both"},
		{[]string{at, `{"amount":"much"}`}, exitFailed, "(422)"}, {[]string{web.URL + "/events/x"}, exitFailed, "(404)"}, {[]string{web.URL + "/x"}, exitFailed, "404"},
		{[]string{at, `{"amount":3}`}, 0, "delivered"}, {[]string{at, `{"amount":3}`}, 0, "delivered"}, {[]string{at, `{"amount":4}`}, exitFailed, "(409)"},
		{[]string{begin(), "--reject", "no funds"}, 0, "delivered"},
	} {
		stdout, stderr, code := h.run(append([]string{"events", "send"}, try.args...)...)
		assert.Equal(t, try.code, code, try.args)
		assert.Contains(t, stdout+stderr, try.says)
	}
}
