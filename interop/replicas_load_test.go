package interop

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRollingRestart restarts one replica after the other, as deployments do, while clients
// make calls that ask. No call fails. SAGA_NIGHTLY=1 does so with each ledger.
func TestRollingRestart(t *testing.T) {
	onClusters(t, func(t *testing.T, c *cluster, f *front) {
		// Users who hesitate, so that most calls are under way while a replica stops.
		hesitates := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(200 * time.Millisecond) }))
		t.Cleanup(hesitates.Close)
		var done atomic.Bool
		var calls atomic.Int32
		var all sync.WaitGroup
		for _, client := range sessionClients() {
			for range 2 {
				all.Go(func() {
					for !done.Load() {
						p := longTalk()
						p.call.Again, p.call.Between, p.call.Timeout = true, hesitates.URL, 300_000
						o := client.play(t, target{URL: f.url()}, []call{p.call})[0]
						calls.Add(1)
						assert.Empty(t, o.Error, client.name)
						if !assert.Equal(t, p.text, o.text(), "%s was asked %q", client.name, o.Asked) {
							done.Store(true)
						}
					}
				})
			}
		}
		time.Sleep(time.Second)
		began := time.Now()
		for range *replicaRestarts {
			for _, p := range c.all {
				assert.NoError(t, p.rollOver())
				time.Sleep(500 * time.Millisecond)
			}
		}
		took := time.Since(began)
		done.Store(true)
		all.Wait()
		resumed := 0
		for _, e := range f.entries("") {
			if e.calls && e.mark != "" {
				resumed++
			}
		}
		assert.Positive(t, resumed, "no call noticed the restarts")
		t.Logf("%d calls during %d restarts in %v; %d streams were opened again", calls.Load(), *replicaRestarts*len(c.all), took.Round(time.Second/10), resumed)
	}, behindNginx)
}

// TestCrowdInOneSession has one session make many calls at once, each with a question of its
// own, spread over all replicas. Each call gets its own answer. SAGA_NIGHTLY=1 has the calls on
// each ledger.
func TestCrowdInOneSession(t *testing.T) {
	onClusters(t, func(t *testing.T, c *cluster, f *front) {
		t.Run("Go SDK", func(t *testing.T) {
			f.forget()
			crowd(t, f)
			f.requireAll(t, c)
		})
		for name, play := range map[string]func(*testing.T, target, []call) []outcome{
			"TypeScript SDK 1": nodeClient("v1.mjs", nil), "TypeScript SDK 2": nodeClient("v2.mjs", "legacy"),
		} {
			t.Run(name, func(t *testing.T) {
				f.forget()
				o := play(t, target{URL: f.url()}, []call{{Tool: "test_elicitation", Parallel: *replicaCalls}})[0]
				require.Empty(t, o.Error)
				require.Len(t, o.Result.Content, *replicaCalls)
				for i, one := range o.Result.Content {
					assert.Equal(t, fmt.Sprintf("User response: action=accept, content=Call %d <a@example.com>", i), one.Text)
				}
				f.requireAll(t, c)
			})
		}
	}, behindHAProxy)
}

// requireAll: all replicas had about as many calls.
func (f *front) requireAll(t *testing.T, c *cluster) {
	t.Helper()
	had := map[string]int{}
	for _, e := range f.entries("") {
		if strings.HasPrefix(e.what, "tools/call") {
			had[e.replica]++
		}
	}
	require.Len(t, had, len(c.all))
	for replica, n := range had {
		assert.Greater(t, n, *replicaCalls/len(c.all)/2, replica)
	}
}

// crowd makes the calls with the Go SDK.
func crowd(t *testing.T, f *front) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	asked, all := make(chan struct{}, *replicaCalls), make(chan struct{})
	client := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked <- struct{}{}
			select {
			case <-all:
			case <-ctx.Done():
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"username": r.Params.Message, "email": "a@example.com"}}, nil
		},
	})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: f.url()}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	require.NoError(t, err)
	go func() {
		defer close(all)
		for range *replicaCalls {
			select {
			case <-asked:
			case <-ctx.Done():
				return
			}
		}
	}()
	var calls sync.WaitGroup
	for i := range *replicaCalls {
		calls.Go(func() {
			r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "test_elicitation", Arguments: map[string]any{"message": fmt.Sprintf("Call %d", i)}})
			if !assert.NoError(t, err) || !assert.Len(t, r.Content, 1) {
				return
			}
			assert.Equal(t, &mcp.TextContent{Text: fmt.Sprintf("User response: action=accept, content=Call %d <a@example.com>", i)}, r.Content[0])
		})
	}
	calls.Wait()
	assert.NoError(t, session.Close())
}
