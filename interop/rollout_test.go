package interop

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/porttest"
)

// rollout is a deployment of three replicas behind nginx that is updated while clients use it.
type rollout struct {
	*cluster
	books, ledger string
	revision      int
}

func newRollout(t *testing.T, ledger string) *rollout {
	t.Helper()
	first := newProcess(t)
	r := &rollout{cluster: &cluster{t: t}, books: t.TempDir(), ledger: ledger, revision: 1}
	for range 3 {
		p := &process{t: t, addr: porttest.Reserve(t), root: first.root, keys: first.keys}
		p.args = r.args(p)
		require.NoError(t, p.start())
		t.Cleanup(p.kill)
		r.all = append(r.all, p)
	}
	return r
}

// args is how a replica is started, of the revision that is current.
func (r *rollout) args(p *process) []string {
	self, err := os.Executable()
	require.NoError(r.t, err)
	name := r.ledger
	if filepath.IsAbs(name) {
		name = "sqlite:" + name
	}
	return []string{
		self, rolloutChild, "serve", "--keyset", p.keys, "--audience", "rollout", "--ledger", name,
		"--revision", fmt.Sprint(r.revision), "--books", r.books,
	}
}

// update replaces one replica after the other.
func (r *rollout) update() {
	for _, p := range r.all {
		p.args = r.args(p)
		require.NoError(r.t, p.rollOver())
		time.Sleep(300 * time.Millisecond)
	}
}

// rotate has a new key seal, as the guide says: each stage begins when all replicas are ready with the one before.
func (r *rollout) rotate() {
	keys := func(args ...string) {
		self, err := os.Executable()
		require.NoError(r.t, err)
		out, err := exec.Command(self, append([]string{rolloutChild, "keys"}, args...)...).CombinedOutput()
		require.NoError(r.t, err, "%s", out)
	}
	file := r.all[0].keys
	keys("add", "--keyset", file)
	loaded, err := codec.LoadKeyset(file)
	require.NoError(r.t, err)
	fresh := fmt.Sprintf("%08x", loaded.Keys()[1].ID)
	r.untilReady(func(k readyKey) bool { return k.ID == fresh })
	keys("promote", "--keyset", file, fresh)
	r.untilReady(func(k readyKey) bool { return k.ID == fresh && k.Primary })
}

type readyKey struct {
	ID      string `json:"id"`
	Primary bool   `json:"primary"`
}

// untilReady waits until each replica has such a key.
func (r *rollout) untilReady(has func(readyKey) bool) {
	for _, p := range r.all {
		require.Eventually(r.t, func() bool {
			resp, err := http.Get("http://" + p.addr + "/readyz")
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			var ready struct{ Keys []readyKey }
			if json.NewDecoder(resp.Body).Decode(&ready) != nil {
				return false
			}
			for _, k := range ready.Keys {
				if has(k) {
					return true
				}
			}
			return false
		}, 30*time.Second, 50*time.Millisecond)
	}
}

// schemaSteps change the tables as a later program would whose tables this one can use.
var schemaSteps = map[string]func(t *testing.T, ledger string){
	"PostgreSQL": func(t *testing.T, ledger string) {
		db, err := sql.Open("pgx", ledger)
		require.NoError(t, err)
		defer db.Close()
		_, err = db.Exec(`ALTER TABLE mcpsaga_ledger.records ADD COLUMN later text; UPDATE mcpsaga_ledger.version SET version = version + 1`)
		require.NoError(t, err)
	},
	"SQLite": func(t *testing.T, ledger string) {
		db, err := sql.Open("sqlite", ledger+"?_pragma=busy_timeout(30000)")
		require.NoError(t, err)
		defer db.Close()
		_, err = db.Exec(`ALTER TABLE records ADD COLUMN later TEXT; PRAGMA user_version = 2001`)
		require.NoError(t, err)
	},
}

// TestTenRollingUpdates replaces all replicas ten times while clients of three kinds make calls that ask: twice by ones
// with a new revision of the tools, once after the keys were rotated, once after a later program has changed the tables
// of the ledger. No call fails, and none does anything twice or takes it back.
func TestTenRollingUpdates(t *testing.T) {
	t.Parallel()
	for kind, ledger := range ledgers {
		if !nightly && kind == "SQLite" {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			needProgram(t, "nginx")
			r := newRollout(t, ledger(t))
			f := r.behind("nginx", t, nil)
			updates := 3
			if nightly {
				updates = 10
			}
			load := r.load(t, f.url())
			time.Sleep(time.Second)
			for n := range updates {
				switch at := n * 10 / updates; {
				case at < 3: // 0, and 3 of three
				case r.revision < 2, at >= 6 && r.revision < 3:
					r.revision++
				}
				if n == updates/2 {
					r.rotate()
				}
				if n == updates-1 {
					schemaSteps[kind](t, r.ledger)
				}
				r.update()
			}
			calls := load()
			require.Equal(t, 3, r.revision)
			r.requireBooks(calls)
		})
	}
}

// load has clients make calls until the function that it returns is called, which says how many were made by which
// revision.
func (r *rollout) load(t *testing.T, url string) (end func() map[string]int) {
	var done atomic.Bool
	var all sync.WaitGroup
	var mu sync.Mutex
	made := map[string]int{}
	for name, make := range map[string]func(*testing.T, string) caller{
		"saga": sagaCaller("saga"), "2026-07-28": sagaCaller("2026-07-28"), "task": taskCaller, "2025-11-25": sessionCaller,
	} {
		for range 3 {
			all.Go(func() {
				call := make(t, url)
				for !done.Load() {
					text, err := call(t.Context())
					if !assert.NoError(t, err, name) {
						return
					}
					mu.Lock()
					made[text]++
					made[name]++
					mu.Unlock()
				}
			})
		}
	}
	return func() map[string]int { done.Store(true); all.Wait(); return made }
}

// caller makes a call, and returns the text of its result.
type caller func(context.Context) (string, error)

// hesitation is how long users think.
const hesitation = 150 * time.Millisecond

func agrees(context.Context, *client.Request) (*client.ElicitResult, error) {
	time.Sleep(hesitation)
	return client.Accept(sureForm{OK: true}), nil
}

func sagaCaller(protocol string) func(*testing.T, string) caller {
	return func(t *testing.T, url string) caller {
		return called(t, url, client.Options{Protocol: protocol}, "order")
	}
}

func taskCaller(t *testing.T, url string) caller {
	return called(t, url, client.Options{Protocol: "2026-07-28"}, "order_task")
}

func called(t *testing.T, url string, o client.Options, tool string) caller {
	c := client.New(&client.HTTP{URL: url}, o)
	t.Cleanup(func() { _ = c.Close() })
	return func(ctx context.Context) (string, error) {
		result, err := c.Call(ctx, tool, none{}, client.Handlers{Elicit: agrees})
		if err != nil {
			return "", err
		}
		return result.Content.Text(), nil
	}
}

// sessionCaller is the Go SDK in a session of MCP 2025-11-25.
func sessionCaller(t *testing.T, url string) caller {
	c := mcp.NewClient(&mcp.Implementation{Name: "interop", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			time.Sleep(hesitation)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"ok": true}}, nil
		},
	})
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return func(ctx context.Context) (string, error) {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "order", Arguments: map[string]any{}})
		if err != nil {
			return "", err
		}
		return result.Content[0].(*mcp.TextContent).Text, nil
	}
}

// requireBooks: each call has booked and paid once, and nothing was undone.
func (r *rollout) requireBooks(calls map[string]int) {
	total, mails := 0, 0
	for n := range 3 {
		by := calls[fmt.Sprintf("ordered by revision %d", n+1)]
		require.Positive(r.t, by, "calls that revision %d has ended: %v", n+1, calls)
		if total += by; n > 0 {
			mails += by
		}
	}
	kinds := map[string]int{}
	ids := map[string]map[string]bool{"book": {}, "pay": {}, "mail": {}}
	entries, err := os.ReadDir(r.books)
	require.NoError(r.t, err)
	for _, e := range entries {
		kind, _, _ := strings.Cut(e.Name(), "-")
		kinds[kind]++
		id, err := os.ReadFile(filepath.Join(r.books, e.Name()))
		require.NoError(r.t, err)
		if of := ids[kind]; of != nil {
			require.False(r.t, of[string(id)], "%s twice for saga %s", kind, id)
			of[string(id)] = true
		}
	}
	assert.Equal(r.t, map[string]int{"book": total, "pay": total, "mail": mails}, kinds)
	r.t.Logf("%v", calls)
}
