package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/porttest"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
)

// How much the tests of replicas do: little, unless they are told.
var (
	replicaKills    = flag.Int("replicas.kills", 4, "how many replicas are killed under a call; 17 is all of them")
	replicaRestarts = flag.Int("replicas.restarts", 2, "how often each replica is restarted under load")
	replicaCalls    = flag.Int("replicas.calls", 200, "how many calls of one session are under way at once")
)

// ledgers are what replicas can share.
var ledgers = map[string]func(t *testing.T) string{
	"SQLite": func(t *testing.T) string { return filepath.Join(t.TempDir(), "ledger.db") },
	"PostgreSQL": func(t *testing.T) string {
		s := postgrestest.Shared(t)
		name := fmt.Sprintf("replicas%d", databases.Add(1))
		s.Exec("CREATE DATABASE " + name)
		return s.URL("postgres", name)
	},
}

var databases atomic.Int32

type exchangeKey struct{}

func withExchange(ctx context.Context, e *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, e)
}

// cluster is three servers that share keys and a ledger.
type cluster struct {
	t    *testing.T
	all  []*process
	late sync.WaitGroup // restarts under way
}

// newCluster starts three servers on a ledger.
func newCluster(t *testing.T, ledger string) *cluster {
	t.Helper()
	first := newProcess(t, "--ledger", ledger)
	makeRepository(t, first.root)
	c := &cluster{t: t}
	for range 3 {
		p := &process{t: t, addr: porttest.Reserve(t), root: first.root, keys: first.keys, args: first.args}
		require.NoError(t, p.start())
		t.Cleanup(p.kill)
		c.all = append(c.all, p)
	}
	t.Cleanup(c.late.Wait) // before they are killed
	return c
}

// balancers put a cluster behind a load balancer that has any replica take any request.
var balancers = map[string]struct {
	file, after, header string
}{
	"nginx":   {"nginx-any.conf", "proxy_buffering off;", "add_header " + replicaHeader + " $upstream_addr always;"},
	"haproxy": {"haproxy-any.cfg", "balance roundrobin\n", "http-response set-header " + replicaHeader + " %s"},
	"caddy":   {"Caddyfile-any", "lb_policy round_robin", "header_down " + replicaHeader + " {http.reverse_proxy.upstream.hostport}"},
}

// anyHost is the name under which Caddy is called here: its port is in it.
const anyHost = "http://127.0.0.1"

// behind starts a load balancer and a front before it. change may alter its configuration.
func (c *cluster) behind(balancer string, t *testing.T, change func(string) string) *front {
	t.Helper()
	program := needProgram(t, balancer)
	b, p := balancers[balancer], proxies[balancer]
	p.file = b.file
	if balancer == "caddy" {
		p.prepare = func(config, addr, _ string) string {
			_, port, _ := net.SplitHostPort(addr)
			return "{\n\tadmin off\n\tauto_https off\n}\n" + strings.Replace(config, anyHost+" {", anyHost+":"+port+" {\n\tbind 127.0.0.1", 1)
		}
	}
	var addresses []string
	for _, one := range c.all {
		addresses = append(addresses, one.addr)
	}
	at := p.startBefore(t, program, addresses, func(config string) string {
		require.Contains(t, config, b.after)
		config = strings.Replace(config, b.after, b.after+"\n"+b.header+"\n", 1)
		config = strings.Replace(config, publicHost+" {", anyHost+" {", 1)
		if change != nil {
			config = change(config)
		}
		return config
	})
	c.takesPart(t, at)
	return newFront(t, at)
}

// takesPart waits until a load balancer has had an answer of each replica: it may have asked how they
// are while they had not begun to listen, or the machine much else to do.
func (c *cluster) takesPart(t *testing.T, balancer string) {
	t.Helper()
	missing := map[*process]bool{}
	for _, p := range c.all {
		missing[p] = true
	}
	require.Eventually(t, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+balancer+"/mcp", nil) // which says that a session is missing
		if err != nil {
			return false
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		tried := strings.Split(resp.Header.Get(replicaHeader), ", ")
		if p, err := c.named(tried[len(tried)-1]); err == nil && resp.StatusCode < 500 {
			delete(missing, p)
		}
		return len(missing) == 0
	}, time.Minute, 10*time.Millisecond, "replicas that the load balancer does not use")
}

// named is the replica that a load balancer means.
func (c *cluster) named(name string) (*process, error) {
	for i, p := range c.all {
		if name == p.addr || name == []string{"one", "two", "three"}[i] {
			return p, nil
		}
	}
	return nil, fmt.Errorf("there is no replica %q", name)
}

// away is how long a replica that was killed is not there.
const away = 300 * time.Millisecond

// kill kills a replica. It comes back by itself after a while.
func (c *cluster) kill(name string) error {
	p, err := c.named(name)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.restarts++
	p.kill()
	c.late.Go(func() {
		defer p.mu.Unlock()
		time.Sleep(away)
		if err := p.start(); err != nil {
			c.t.Error(err)
		}
	})
	return nil
}

// kills is how often replicas were killed.
func (c *cluster) kills() (n int) {
	c.late.Wait()
	for _, p := range c.all {
		n += p.restarts
	}
	return n
}

// rollOver tells a replica to stop, waits until it has, and starts another one in its place.
func (p *process) rollOver() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-time.After(40 * time.Second):
		err = errors.New("it does not stop")
		_ = p.cmd.Process.Kill()
		<-ended
	}
	said := p.log.String()
	if wrong := regexp.MustCompile(`(?m)^.*level=ERROR.*$`).FindString(said); wrong != "" {
		err = errors.Join(err, errors.New(wrong))
	}
	return errors.Join(err, p.start())
}
