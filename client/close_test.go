package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

// A client that is closed ends the calls that it has under way over HTTP, and makes no others.
func TestCloseEndsCallsOverHTTP(t *testing.T) {
	t.Parallel()
	came := make(chan struct{}, 9)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		came <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-time.After(30 * time.Second):
		}
	}))
	defer web.Close()
	c := client.New(&client.HTTP{URL: web.URL}, client.Options{Protocol: "saga"})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, "slow", nil, client.Handlers{})
		failed <- err
	}()
	<-came
	require.NoError(t, c.Close())
	err := <-failed
	require.ErrorContains(t, err, "the client was closed")
	require.ErrorAs(t, err, new(*client.TransportError))
	_, err = c.Call(ctx, "slow", nil, client.Handlers{})
	require.ErrorContains(t, err, "the client was closed")
	assert.Empty(t, came)
}
