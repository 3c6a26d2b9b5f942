package interop

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sessionClients are those that speak MCP 2025-11-25. All of them reconnect by themselves.
func sessionClients() []contender {
	return slices.DeleteFunc(contenders(), func(c contender) bool { return c.protocol != "2025-11-25" })
}

// olderClient speaks MCP 2025-06-18 and does not reconnect the stream of a call.
var olderClient = contender{"TypeScript SDK 1.20", "2025-06-18", false, nodeClient("v1.mjs "+olderSDK, nil)}

// nightly has everything tried with everything.
var nightly = os.Getenv("SAGA_NIGHTLY") == "1"

// Load balancers, each before one kind of ledger.
var (
	behindNginx   = [2]string{"PostgreSQL", "nginx"}
	behindHAProxy = [2]string{"SQLite", "haproxy"}
	behindCaddy   = [2]string{"PostgreSQL", "caddy"}
)

// onClusters runs a test with some load balancers before ledgers or, nightly, with all before each.
func onClusters(t *testing.T, test func(t *testing.T, c *cluster, f *front), some ...[2]string) {
	t.Parallel()
	for kind, ledger := range ledgers {
		for name := range balancers {
			if !nightly && !slices.Contains(some, [2]string{kind, name}) {
				continue
			}
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				needProgram(t, name)
				c := newCluster(t, ledger(t))
				test(t, c, c.behind(name, t, nil))
			})
		}
	}
}

// TestAnyReplica: clients of MCP 2025-11-25 are asked by tools, and every request of theirs
// goes to another replica than the one before.
func TestAnyReplica(t *testing.T) {
	onClusters(t, func(t *testing.T, c *cluster, f *front) {
		clients := append(sessionClients(), olderClient)
		if strings.HasSuffix(t.Name(), "caddy") && !nightly {
			clients = clients[:1] // to see that the configuration is right
		}
		for _, client := range clients {
			t.Run(client.name, func(t *testing.T) {
				f.forget()
				at := target{URL: f.url()}
				requireOutcomes(t, client, at, plays(), func(c *call) { c.Timeout = 60_000 })
				f.requireSpread(t, len(c.all))
			})
			t.Run(client.name+" gives up", func(t *testing.T) {
				f.forget()
				givesUp(t, client, f)
			})
		}
	}, behindNginx, behindHAProxy, behindCaddy)
}

// givesUp has a client cancel its call in the third round. The call has ended then, on all
// replicas: none takes an answer.
func givesUp(t *testing.T, client contender, f *front) {
	talk := longTalk().call
	talk.AbortIn, talk.Timeout = 3, 60_000
	o := client.play(t, target{URL: f.url()}, []call{talk})[0]
	assert.NotEmpty(t, o.Error)
	assert.Len(t, o.Asked, 3)
	session := f.sessions()[0]
	question := ""
	f.mu.Lock()
	for id, asked := range f.asks {
		if strings.HasPrefix(id, session) && strings.HasPrefix(asked, "Word 3 of 8") {
			question = strings.TrimPrefix(id, session+" ")
		}
	}
	f.mu.Unlock()
	require.NotEmpty(t, question)
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(f.entries(session), func(e exchange) bool {
			return e.what == "notifications/cancelled" && e.status == http.StatusAccepted
		})
	}, time.Minute, 5*time.Millisecond)
	for range 3 {
		status, text := f.send(t, session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"word":"late"}}}`, question))
		assert.Contains(t, []int{http.StatusBadRequest, http.StatusNotFound}, status, text)
	}
}

// send posts a message of a session.
func (f *front) send(t *testing.T, session, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url(), strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Session-Id", session)
	req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(said)
}

// killer kills the replica that carries the stream of a call, at moments of it.
type killer struct {
	*cluster
	*front
	mu      sync.Mutex
	moments []string // still to come
	killed  int
	failed  []error
}

// moments are those of a long talk: as soon as a question is at the client ("during"), and
// when its answer is accepted ("after").
func moments(n int) []string {
	all := []string{"during Word 1 of", "after Word 2 of", "during What do you make", "after Word 8 of"}
	if n <= len(all) {
		return all[:n]
	}
	all = nil
	for round := 1; round <= 8; round++ {
		all = append(all, fmt.Sprintf("during Word %d of", round), fmt.Sprintf("after Word %d of", round))
	}
	return append(all, "during What do you make")
}

// at kills if this is one of the moments, each at its first time.
func (k *killer) at(moment string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.moments, func(m string) bool { return strings.HasPrefix(moment, m) })
	if i < 0 {
		return
	}
	k.moments = slices.Delete(k.moments, i, i+1)
	replica, err := k.holder("")
	if err == nil {
		err = k.kill(replica)
	}
	switch {
	case err == nil:
		k.killed++
	case errors.Is(err, errOver) && strings.HasPrefix(moment, "after Word 8"): // it was fast
	default:
		k.failed = append(k.failed, fmt.Errorf("%s: %w", moment, err))
	}
}

// hasDone reports whether all its moments have come, and gone.
func (k *killer) hasDone() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.moments) == 0
}

// killing makes a killer; its URL is told of each question.
func killing(t *testing.T, c *cluster, f *front, n int) (k *killer, between string) {
	k = &killer{cluster: c, front: f, moments: moments(n)}
	f.accepted = func(_, question string) { k.at("after " + question) }
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		k.at("during " + string(question))
	}))
	t.Cleanup(s.Close)
	return k, s.URL
}

// TestReplicasDieUnderClients kills the replica that carries the stream of a call, while a question of
// every round is open, and between the rounds. Clients that reconnect notice nothing. Each client
// meets with one kind of ledger or, nightly, with all.
func TestReplicasDieUnderClients(t *testing.T) {
	onClusters(t, func(t *testing.T, c *cluster, f *front) {
		for nth, client := range sessionClients() {
			if !nightly && nth%2 == 0 != strings.Contains(t.Name(), "SQLite") {
				continue
			}
			t.Run(client.name, func(t *testing.T) {
				f.forget()
				k, between := killing(t, c, f, *replicaKills)
				before := c.kills()
				p := longTalk()
				p.call.Again, p.call.Between = true, between
				p.call.Timeout = 120_000
				if *replicaKills > 4 {
					p.call.Timeout = 300_000
				}
				o := client.play(t, target{URL: f.url()}, []call{p.call})[0]
				// The last answer may be accepted after the response has come.
				assert.Eventually(t, k.hasDone, time.Minute, 10*time.Millisecond)
				k.mu.Lock()
				defer k.mu.Unlock()
				assert.Empty(t, k.failed)
				assert.Empty(t, o.Error)
				assert.Equal(t, p.text, o.text())
				assert.Equal(t, k.killed, c.kills()-before)
				assert.GreaterOrEqual(t, k.killed, *replicaKills-1)
				if t.Failed() {
					t.Logf("asked: %q\n%s", o.Asked, f.wire(""))
				}
			})
		}
	}, behindNginx, behindHAProxy)
}
