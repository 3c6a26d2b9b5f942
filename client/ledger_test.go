package client_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// losing delivers the first call and loses what is said to it.
type losing struct{ lost atomic.Bool }

// RoundTrip implements http.RoundTripper.
func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && strings.Contains(string(body), "tools/callSaga") && l.lost.CompareAndSwap(false, true) {
		_, _ = io.Copy(io.Discard, response.Body)
		return nil, errors.Join(errors.New("connection reset"), response.Body.Close())
	}
	return response, err
}

// A first turn that acts, and whose response is lost, is taken once by a server with a
// ledger. By one without it is not repeated.
func TestLostFirstCallOfRealServers(t *testing.T) {
	for name, store := range map[string]ledger.Store{"with a ledger": ledger.NewMemory(ledger.MemoryOptions{}), "without": nil} {
		t.Run(name, func(t *testing.T) {
			var paid atomic.Int32
			pay := &saga.Effect[string, string]{
				Name: "pay",
				Do: func(context.Context, saga.Key, string) (string, error) {
					paid.Add(1)
					return "paid", nil
				},
				Undo: func(context.Context, saga.Performed[string, string]) error { return nil },
			}
			tool := saga.Flow[struct{}, string]{
				Info: saga.Info{Name: "pay", Effects: []saga.Declared{pay}},
				Run:  func(r *saga.Run, _ struct{}) (string, error) { return saga.Do(r, pay, "rent") },
			}
			keys, err := codec.NewKeyset()
			require.NoError(t, err)
			s, err := server.New(server.Options{Tools: []saga.Definition{tool}, Keys: keys, Ledger: store, Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			t.Cleanup(s.Close)
			web := httptest.NewServer(s.Handler())
			t.Cleanup(web.Close)
			c := client.New(&client.HTTP{URL: web.URL + server.Endpoint, RoundTripper: new(losing)}, client.Options{RetryPause: time.Millisecond})
			t.Cleanup(func() { _ = c.Close() })
			got, err := c.Call(t.Context(), "pay", nil, client.Handlers{})
			if store == nil {
				require.ErrorAs(t, err, new(*client.TransportError))
			} else {
				require.NoError(t, err)
				assert.Equal(t, "paid", got.Content.Text())
			}
			assert.EqualValues(t, 1, paid.Load())
		})
	}
}
