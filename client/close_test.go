package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
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
		_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection is not noticed
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

// Nor does a call go on that sleeps, or whose handler works, for as long as that takes.
func TestCloseEndsCallsThatWait(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]reply{
		"sleeps": result(fmt.Sprintf(aPause, "3600000")), "is asked": result(suspended("v", stepOf("elicitation", "s", emptyForm))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := playAtOnce(t, reply)
				c := client.New(&client.HTTP{URL: s.URL, RoundTripper: s.through}, client.Options{Protocol: "saga"})
				failed := make(chan error, 1)
				go func() {
					_, err := c.Call(t.Context(), "tool", nil, client.Handlers{Elicit: func(ctx context.Context, _ *client.Request) (*client.ElicitResult, error) {
						<-ctx.Done()
						return nil, context.Cause(ctx)
					}})
					failed <- err
				}()
				synctest.Wait()
				began := time.Now()
				require.NoError(t, c.Close())
				err := <-failed
				require.ErrorContains(t, err, "the client was closed")
				require.ErrorAs(t, err, new(*client.InterruptedError), "it can be resumed by another client")
				assert.Zero(t, time.Since(began))
			})
		})
	}
}
