package main

import (
	"database/sql"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/trip/service"
	"github.com/mcpsaga/mcpsaga/server"
)

var serviceNames = []string{"hotel", "flight", "payment"}

// world is the whole example as four processes, with a proxy before each.
type world struct {
	dir     string
	parts   map[string]*process
	proxies map[string]*proxy
	dbs     map[string]*sql.DB // of the services, to look into

	// last is when a request last passed, in Unix nanoseconds.
	last atomic.Int64
	mu   sync.Mutex
	// watch decides at every point; nil lets everything pass.
	watch func(point, *http.Request, []byte) fate
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), parts: map[string]*process{}, proxies: map[string]*proxy{}, dbs: map[string]*sql.DB{}}
	add := func(name string, args ...string) {
		p := newProcess(t, w.dir, name, "part", args...)
		p.restart(t)
		w.parts[name], w.proxies[name] = p, newProxy(t, p, w.at)
	}
	args := append(slices.Clip(served), "--keyset", newKeyset(t, w.dir))
	for _, name := range serviceNames {
		file := filepath.Join(w.dir, name+".db")
		add(name, "service", "--db", file, name)
		db, err := sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(10000)")
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		w.dbs[name] = db
		args = append(args, "--"+name, w.proxies[name].URL)
	}
	add("server", args...)
	return w
}

// served begins the command line of a server.
var served = []string{"serve", "--addr", "127.0.0.1:0"}

func newKeyset(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "keyset.json")
	_, err := codec.CreateKeysetFile(path)
	require.NoError(t, err)
	return path
}

// endpoint is where the client finds the server.
func (w *world) endpoint() string { return w.proxies["server"].URL + server.Endpoint }

func (w *world) at(p point, r *http.Request, body []byte) fate {
	w.last.Store(time.Now().UnixNano())
	w.mu.Lock()
	watch := w.watch
	w.mu.Unlock()
	if watch == nil {
		return goOn
	}
	return watch(p, r, body)
}

func (w *world) setWatch(f func(point, *http.Request, []byte) fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watch = f
}

// deed is a hold as its service's database has it, and what happened to it.
type deed struct {
	service.Hold
	placed, confirmed int
}

// deeds reads the holds for a city from a service's database.
func (w *world) deeds(t *testing.T, name, city string) []deed {
	t.Helper()
	rows, err := w.dbs[name].Query(`
		SELECT key, reference, state, kept,
			(SELECT count(*) FROM log WHERE log.key = holds.key AND event = 'placed'),
			(SELECT count(*) FROM log WHERE log.key = holds.key AND event = 'confirmed')
		FROM holds WHERE item LIKE '%' || ? || '%'`, city)
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	var list []deed
	for rows.Next() {
		var d deed
		require.NoError(t, rows.Scan(&d.Key, &d.Reference, &d.State, &d.Kept, &d.placed, &d.confirmed))
		list = append(list, d)
	}
	require.NoError(t, rows.Err())
	return list
}

// calm waits until no request has passed for a while.
func (w *world) calm() {
	for time.Since(time.Unix(0, w.last.Load())) < calmFor {
		time.Sleep(calmFor / 4)
	}
}

// logs shows what the processes have said.
func (w *world) logs(t *testing.T) {
	for name, p := range w.parts {
		if said, err := os.ReadFile(p.log); err == nil && len(said) > 0 {
			t.Logf("%s says:\n%s", name, said[max(0, len(said)-4000):])
		}
	}
}
