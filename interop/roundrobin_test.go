package interop

//lint:file-ignore SA1019 Levels of log messages are deprecated since 2026-07-28, and in use.

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/porttest"
)

// roundRobin are proxies whose configuration has any replica take any request.
var roundRobin = map[string]func(config string) string{
	"nginx": func(config string) string {
		return strings.Replace(config, "default one_replica;", "default any_replica;", 1)
	},
	"haproxy": func(config string) string {
		return regexp.MustCompile(`(?m)^\tstick.*\n`).ReplaceAllString(config, "")
	},
}

// startReplicas starts three servers with the same keys, without a ledger.
func startReplicas(t *testing.T) (all []*replica) {
	t.Helper()
	p := startHTTP(t, "--ledger", noLedger)
	all = append(all, behind(t, "http://"+p.addr))
	for range 2 {
		next := &process{t: t, addr: porttest.Reserve(t), root: p.root, keys: p.keys, args: p.args}
		require.NoError(t, next.start())
		t.Cleanup(next.kill)
		all = append(all, behind(t, "http://"+next.addr))
	}
	return all
}

// Without stickiness and without a ledger, clients of MCP 2025-11-25 meet another replica
// with each request, and are served: all but what asks.
func TestSessionsRoundRobin(t *testing.T) {
	t.Parallel()
	for name, change := range roundRobin {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := needProgram(t, name)
			replicas := startReplicas(t)
			addr := proxies[name].start(t, program, replicas, func(config string) string {
				changed := change(config)
				require.NotEqual(t, config, changed)
				return changed
			})
			at := target{URL: "http://" + addr + "/mcp"}
			used := func(t *testing.T) {
				t.Helper()
				for i, r := range replicas {
					assert.NotEmpty(t, r.take(), "replica %d was not used", i)
				}
			}
			t.Run("Go SDK", func(t *testing.T) { goOnAnyReplica(t, at); used(t) })
			for script, mode := range map[string]any{"v1.mjs": nil, "v2.mjs": "legacy"} {
				t.Run(script, func(t *testing.T) {
					var calls []call
					for range 6 {
						calls = append(calls, call{Tool: "test_simple_text"})
					}
					for _, o := range nodeClient(script, mode)(t, at, calls) {
						assert.Empty(t, o.Error)
						assert.Equal(t, "2025-11-25", o.Protocol)
						if assert.Len(t, o.Result.Content, 1) {
							assert.Equal(t, "This is a simple text response for testing.", o.Result.Content[0].Text)
						}
					}
					used(t)
				})
			}
			t.Run("many clients", func(t *testing.T) {
				var all sync.WaitGroup
				for range 12 {
					all.Go(func() { goOnAnyReplica(t, at) })
				}
				all.Wait()
				used(t)
			})
			t.Run("conformance", func(t *testing.T) {
				if name != "haproxy" && !nightly {
					t.Skip("the suite is run behind one of the proxies; behind all if SAGA_NIGHTLY is 1")
				}
				t.Parallel()
				conformsRoundRobin(t, at)
			})
			t.Run("a tool that asks", func(t *testing.T) { t.Parallel(); asksRoundRobin(t, at) })
		})
	}
}

// dial opens a session of MCP 2025-11-25.
func dial(t *testing.T, ctx context.Context, at target, asked func()) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked()
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"username": "ann", "email": "ann@example.com"}}, nil
		},
	})
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: at.URL}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	require.NoError(t, err)
	return session
}

func goOnAnyReplica(t *testing.T, at target) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := dial(t, ctx, at, func() {})
	for range 4 {
		assert.NoError(t, s.Ping(ctx, nil))
		tools, err := s.ListTools(ctx, nil)
		if assert.NoError(t, err) {
			assert.True(t, slices.ContainsFunc(tools.Tools, func(tool *mcp.Tool) bool { return tool.Name == "release_notes" }))
		}
		_, err = s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://static-text"})
		assert.NoError(t, err)
		_, err = s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "test_simple_prompt"})
		assert.NoError(t, err)
		r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "test_simple_text"})
		if assert.NoError(t, err) {
			assert.False(t, r.IsError)
		}
		assert.NoError(t, s.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "error"}))
		assert.NoError(t, s.Subscribe(ctx, &mcp.SubscribeParams{URI: "test://static-text"}))
	}
	assert.NoError(t, s.Close())
}

// asksRoundRobin calls a tool that asks: it works if the answer happens to reach the replica
// that waits for it. Otherwise the client's answer is refused, and says why: it is not lost
// without a word. The session goes on.
func asksRoundRobin(t *testing.T, at target) {
	var done, refused atomic.Int32
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			var asked atomic.Int32
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s := dial(t, t.Context(), at, func() {
				asked.Add(1)
				time.AfterFunc(5*time.Second, cancel) // an answer that is taken ends the call sooner
			})
			r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "test_elicitation", Arguments: map[string]any{"message": fmt.Sprint(i)}})
			switch {
			case err == nil:
				done.Add(1)
				assert.False(t, r.IsError)
			default:
				refused.Add(1)
				assert.ErrorIs(t, err, context.Canceled)
			}
			assert.EqualValues(t, 1, asked.Load())
			_, err = s.ListTools(t.Context(), nil)
			assert.NoError(t, err, "the session goes on")
			assert.NoError(t, s.Close())
		})
	}
	all.Wait()
	assert.Positive(t, refused.Load())
	t.Logf("%d calls that ask were done, %d not", done.Load(), refused.Load())
}

// asking are the scenarios of the suite in which the client must come back to the replica
// that it was served by: with an answer, or for the rest of a stream.
var asking = []string{"tools-call-sampling", "tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums", "server-sse-polling"}

// ending is the scenario in which a session is ended: without a ledger only the replica knows
// that the client has told.
const ending = "server-session-lifecycle"

// conformsRoundRobin runs the official suite, of which all passes that needs no memory: what
// does not ask, and does not end a session.
func conformsRoundRobin(t *testing.T, at target) {
	onlyIfWanted(t, "runs the official suite")
	node := needNode(t)
	dir := t.TempDir()
	out, _ := node.command(suite, "server", "--url", at.URL, "--requirements", "2025-11-25", "--timeout", "8000", "--output-dir", dir).CombinedOutput() // fails with what asks
	results := readResults(t, dir)
	assert.Len(t, results, 33, "the suite itself has changed")
	passed := 0
	for name, all := range results {
		if slices.Contains(asking, name) || name == ending {
			continue
		}
		passed++
		assert.NotEmpty(t, all, name)
		for _, c := range all {
			assert.NotContains(t, []string{"FAILURE", "WARNING"}, c.Status, "%s: %s: %s %s", name, c.ID, c.Description, c.ErrorMessage)
		}
	}
	t.Logf("%d scenarios passed, without the %d that ask and the one that ends a session", passed, len(asking))
	if t.Failed() {
		t.Logf("the suite's output:\n%s", out)
	}
}
