package interop

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestConformanceOfReplicas runs the official suite for sessions against three replicas: any
// of them gets any request. SAGA_NIGHTLY=1 does so with each ledger.
func TestConformanceOfReplicas(t *testing.T) {
	onlyIfWanted(t, "runs the official suite")
	node := needNode(t)
	onClusters(t, func(t *testing.T, c *cluster, f *front) {
		for _, r := range revisions {
			if r.revision == "2025-11-25" {
				r.run(t, node, f.url())
			}
		}
		f.requireUsed(t, c)
	}, behindNginx)
}

// requireUsed: every replica had something to do.
func (f *front) requireUsed(t *testing.T, c *cluster) {
	t.Helper()
	used := map[string]int{}
	for _, e := range f.entries("") {
		used[e.replica]++
	}
	delete(used, "")
	require.Len(t, used, len(c.all), "%v", used)
}

// TestReplicasWithoutLedger: what asks says what is missing. The answer that does not reach the
// replica that waits is refused, and so is who wants the rest of another replica's stream.
// TestSessionsRoundRobin has what asks nothing.
func TestReplicasWithoutLedger(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nginx", "haproxy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needProgram(t, name)
			c := newCluster(t, noLedger)
			f := c.behind(name, t, nil)
			t.Run("an answer", func(t *testing.T) { asksWithoutLedger(t, f) })
			t.Run("a stream of another replica", func(t *testing.T) { resumesWithoutLedger(t, f) })
		})
	}
}

func asksWithoutLedger(t *testing.T, f *front) {
	f.forget()
	session := dial(t, t.Context(), target{URL: f.url()}, func() {})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "test_elicitation", Arguments: map[string]any{"message": "?"}})
		ended <- err
	}()
	status := 0
	require.Eventually(t, func() bool {
		for _, e := range f.entries("") {
			if strings.HasPrefix(e.what, answerTo) {
				status = e.status
			}
		}
		return status != 0
	}, time.Minute, 5*time.Millisecond)
	require.Equal(t, http.StatusBadRequest, status)
	require.Empty(t, ended, "the call waits")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, session.Close())
}

func resumesWithoutLedger(t *testing.T, f *front) {
	f.forget()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looked := make(chan struct{}) // the user answers then
	session := dial(t, ctx, target{URL: f.url()}, func() { <-looked })
	defer session.Close()
	defer close(looked)
	go func() {
		_, _ = session.CallTool(ctx, &mcp.CallToolParams{Name: "test_elicitation", Arguments: map[string]any{"message": "?"}})
	}()
	var mark string
	require.Eventually(t, func() bool {
		for _, e := range f.entries("") {
			for _, h := range e.heard {
				if e.calls && strings.HasPrefix(h, "id ") {
					mark = strings.TrimPrefix(h, "id ")
				}
			}
		}
		return mark != ""
	}, time.Minute, 5*time.Millisecond)
	// The client's general stream takes its turn too: not between those that follow.
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(f.entries(""), func(e exchange) bool { return e.method == http.MethodGet && e.status != 0 })
	}, time.Minute, 5*time.Millisecond)
	refused := 0
	for range 3 {
		status, text := f.get(t, f.sessions()[0], mark)
		if status != http.StatusOK {
			refused++
			assert.Equal(t, http.StatusBadRequest, status)
			assert.Contains(t, text, "Last-Event-ID")
		}
	}
	assert.Equal(t, 2, refused)
}

// get asks for a stream, and returns what it is told if there is none.
func (f *front) get(t *testing.T, session, mark string) (status int, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url(), nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	req.Header.Set("Last-Event-ID", mark)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return resp.StatusCode, ""
	}
	said := make([]byte, 1000)
	n, _ := resp.Body.Read(said)
	return resp.StatusCode, string(said[:n])
}
