package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/server"
)

// replicas is how many servers share a ledger.
const replicas = 3

// cluster is the example with three servers that share a ledger, with a proxy before each
// server, and one between each server and each service. What is killed is soon started again.
type cluster struct {
	world
	t       *testing.T
	keyset  string
	ledger  string // as --ledger has it
	servers [replicas]*process
	front   [replicas]*proxy
	behind  [replicas]map[string]*proxy

	ending  atomic.Bool
	outage  atomic.Bool // nothing is started again
	revival sync.WaitGroup

	striking sync.Mutex           // held while something is killed
	database *postgrestest.Server // nil: the ledger is a file
	up       bool                 // the database
	kills    map[string]int       // by what was killed

	together *meeting // of the trips that are struck at the same time; nil: each for itself

	instead func(i int, p point) fate // of pass; nil: pass

	finding sync.Mutex
	trips   map[string]*trip // by city, and by the key of a hold
	// arrived counts the requests that came to the services, by their methods, and slow is
	// how long the hotel takes to answer.
	arrived map[string]int
	slow    time.Duration
}

// ledgers are the kinds of ledger that servers can share.
var ledgers = []string{"sqlite", "postgres"}

func newCluster(t *testing.T, kind string, ttl time.Duration, more ...string) *cluster {
	t.Helper()
	dir := t.TempDir()
	c := &cluster{
		world: world{dir: dir, parts: map[string]*process{}, dbs: map[string]*sql.DB{}},
		t:     t, keyset: newKeyset(t, dir), ledger: "sqlite:" + filepath.Join(dir, "ledger.db"),
		kills: map[string]int{}, trips: map[string]*trip{}, arrived: map[string]int{},
	}
	if kind == "postgres" {
		c.database, c.up = postgrestest.Run(t, "fsync=off"), true // the machine goes on, and writes what it was given
		c.ledger = c.database.URL("postgres", "postgres")
	}
	for _, name := range serviceNames {
		file := filepath.Join(dir, name+".db")
		c.parts[name] = newProcess(t, dir, name, "part", "service", "--db", file, name)
		c.parts[name].restart(t)
		db, err := sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(10000)")
		require.NoError(t, err)
		t.Cleanup(func() { _ = db.Close() })
		c.dbs[name] = db
	}
	for i := range replicas {
		at := func(p point, r *http.Request, body []byte) fate { return c.pass(i, p, r, body) }
		args := append(slices.Clip(served), "--keyset", c.keyset, "--ledger", c.ledger, "--token-ttl", ttl.String())
		c.behind[i] = map[string]*proxy{}
		for _, name := range serviceNames {
			c.behind[i][name] = newProxy(t, c.parts[name], at)
			args = append(args, "--"+name, c.behind[i][name].URL)
		}
		args = append(args, more...)
		name := fmt.Sprint("server", i)
		c.servers[i] = newProcess(t, dir, name, "part", args...)
		c.parts[name] = c.servers[i]
		c.servers[i].restart(t)
		c.front[i] = newProxy(t, c.servers[i], at)
	}
	t.Cleanup(func() {
		c.ending.Store(true)
		c.revival.Wait()
	})
	return c
}

// endpoint is where a client finds one of the servers; the proxy learns whose trip it is.
func (c *cluster) endpoint(i int, city string) string {
	return c.front[i%replicas].URL + server.Endpoint + "?trip=" + city
}

var cityPattern = regexp.MustCompile(`City\d+X`)

// pass is called for every request from or to the server i, before and after.
func (c *cluster) pass(i int, p point, r *http.Request, body []byte) fate {
	if p.moment == before && p.to != c.servers[i].name {
		c.arrives(p)
	}
	if c.instead != nil {
		return c.instead(i, p)
	}
	tr := c.tripOf(r, body)
	if tr == nil {
		return goOn
	}
	if p.to == c.servers[i].name {
		if p.to = "server"; bytes.Contains(body, []byte(`"decision"`)) {
			p.what += " decided"
		}
	}
	if !tr.passes(p) {
		return goOn
	}
	if c.together != nil {
		c.together.attend()
	}
	struck := c.strike(tr.victim, i)
	if !struck {
		return goOn
	}
	if p.to != "server" && p.moment == before && tr.index%4 == 0 {
		// What was under way is not lost, and arrives when its sender is dead.
		to := c.behind[i][p.to]
		c.revival.Go(func() {
			time.Sleep(rand.N(3 * time.Second))
			if response, err := to.forward(r.WithContext(context.Background()), body); err == nil {
				_ = response.Body.Close()
			}
		})
	}
	return drop
}

// meeting is where requests wait for one another.
type meeting struct {
	mu      sync.Mutex
	missing int // who has not come yet
	over    chan struct{}
	end     func()
}

func newMeeting(n int) *meeting {
	m := &meeting{missing: n, over: make(chan struct{})}
	m.end = sync.OnceFunc(func() { close(m.over) })
	return m
}

// attend returns when all are there, or a second after the first came: some may never come.
func (m *meeting) attend() {
	late := time.AfterFunc(time.Second, m.end)
	defer late.Stop()
	m.mu.Lock()
	if m.missing--; m.missing <= 0 {
		m.end()
	}
	m.mu.Unlock()
	<-m.over
}

// arrives counts a request to a service.
func (c *cluster) arrives(p point) {
	c.finding.Lock()
	c.arrived[p.what]++
	slow := c.slow
	c.finding.Unlock()
	if p.to == "hotel" {
		time.Sleep(slow)
	}
}

// tripOf finds out whose request it is; nil is nobody's.
func (c *cluster) tripOf(r *http.Request, body []byte) *trip {
	c.finding.Lock()
	defer c.finding.Unlock()
	if city := r.URL.Query().Get("trip"); city != "" {
		return c.trips[city]
	}
	key := path.Base(r.URL.Path)
	if key == "confirm" {
		key = path.Base(path.Dir(r.URL.Path))
	}
	tr := c.trips[key]
	if tr == nil {
		if tr = c.trips[string(cityPattern.Find(body))]; tr != nil {
			c.trips[key] = tr
		}
	}
	return tr
}

func (c *cluster) add(tr *trip) {
	c.finding.Lock()
	defer c.finding.Unlock()
	c.trips[tr.script.City] = tr
}

// What is killed.
const (
	oneServer   = "server"
	allServers  = "all servers"
	theDatabase = "database"
	both        = "server and database"
	everybody   = "all servers and database"
)

// victims are what can be killed in a cluster.
func (c *cluster) victims() []string {
	if c.database == nil {
		return []string{oneServer, allServers}
	}
	return []string{oneServer, allServers, theDatabase, both, everybody}
}

// strike kills, and reports whether the server i is dead.
func (c *cluster) strike(victim string, i int) bool {
	c.striking.Lock()
	defer c.striking.Unlock()
	if c.ending.Load() {
		return false
	}
	if victim == theDatabase || victim == both || victim == everybody {
		c.crash()
	}
	for j, p := range c.servers {
		if victim == allServers || victim == everybody || j == i && victim != theDatabase {
			c.kill(p)
		}
	}
	return victim != theDatabase
}

// strikeNowAndThen kills something or other at any time, between all points, until ctx ends.
func (c *cluster) strikeNowAndThen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(4 * time.Second)):
			victims := c.victims()
			c.strike(victims[rand.N(len(victims))], rand.N(replicas))
		}
	}
}

// kill is kill -9, and starts the server again after a while.
func (c *cluster) kill(p *process) {
	if p.address() == "" {
		return // it was dead already
	}
	p.kill()
	c.kills["server"]++
	c.revival.Go(func() {
		c.rest(300 * time.Millisecond)
		for !c.ending.Load() {
			if err := p.start(); err == nil {
				return
			}
			p.kill()
			time.Sleep(100 * time.Millisecond) // it found no database
		}
	})
}

// crash is pg_ctl stop -m immediate, and starts the database again after a while.
func (c *cluster) crash() {
	if !c.up {
		return
	}
	c.database.Crash()
	c.kills["database"]++
	c.up = false
	c.revival.Go(func() {
		c.rest(500 * time.Millisecond)
		c.database.Up()
		c.striking.Lock()
		defer c.striking.Unlock()
		c.up = true
	})
}

// rest is how long what is dead stays dead: not for longer than most, unless there is an outage.
func (c *cluster) rest(most time.Duration) {
	time.Sleep(rand.N(most))
	for c.outage.Load() && !c.ending.Load() {
		time.Sleep(50 * time.Millisecond)
	}
}

// downFor kills all servers, and their database, and starts them later.
func (c *cluster) downFor(d time.Duration) {
	c.outage.Store(true)
	defer c.outage.Store(false)
	c.strike(everybody, 0)
	time.Sleep(d)
}

// logs shows what the servers have said last.
func (c *cluster) logs() {
	for i, p := range c.servers {
		said, err := os.ReadFile(p.log)
		if err == nil {
			c.t.Logf("server %d says:\n%s", i, said[max(0, len(said)-4000):])
		}
	}
}
