package ways

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/postgres"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Who can be killed. A process that is alone serves and works, as does a replica, beside which
// there is another one, and which does not come back.
const (
	serving = "server"
	working = "worker"
	alone   = "alone"
	replica = "replica"
	another = "another replica"
)

// roleEnv makes the test binary one of the processes of a test.
const roleEnv = "MCPSAGA_WAYS_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		if err := child(role, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Most of the time tests wait for leases of processes that are dead.
	if err := flag.Set("test.parallel", "40"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(postgrestest.Tests{M: m}.Run())
}

// tokenTTL is how long clients may take to answer.
const tokenTTL = 5 * time.Second

// stdio is the address of a server that is a child of its client's.
const stdio = "stdio"

// child is a process that serves, works, or does both.
func child(role, addr, keyset, file, service string) error {
	ctx := context.Background()
	keys, err := codec.LoadKeyset(keyset)
	if err != nil {
		return err
	}
	store, err := openLedger(ctx, file)
	for began := time.Now(); err != nil && time.Since(began) < patience/2; { // a database may have too much to do
		store, err = openLedger(ctx, file)
	}
	if err != nil {
		return err
	}
	o := server.Options{
		Tools: tools(api{service, role}), Keys: keys, Audience: "ways", Ledger: store, TokenTTL: tokenTTL,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	if role == serving {
		o.Workers = -1
	}
	if !longtests.Wanted() {
		o.Lease = 2 * time.Second // by day nobody waits for the usual one
	}
	if role == crowded {
		o.Authenticate = func(r *http.Request) (saga.Caller, error) {
			return saga.Caller{Issuer: "crowd", Subject: r.Header.Get("User")}, nil
		}
		o.Tools = append(o.Tools, sleeper())
		go reportUse()
	}
	s, err := server.New(o)
	if err != nil {
		return err
	}
	if role == working {
		fmt.Println("ready")
		return s.Work(ctx)
	}
	if addr == stdio {
		return s.ServeStdio(ctx, os.Stdin, os.Stdout)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return s.Serve(ctx, l)
}

func openLedger(ctx context.Context, name string) (ledger.Store, error) {
	if strings.HasPrefix(name, "postgres://") {
		return postgres.Open(ctx, name)
	}
	return sqlite.Open(ctx, name)
}

// process is a child.
type process struct {
	role string
	args []string
	log  string // file of its standard error
	cmd  *exec.Cmd
	// lines is the connection with it, if that is by its standard input and output.
	lines *lines
}

func (p *process) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.Command(os.Args[0], p.args...)
	p.cmd.Env = append(os.Environ(), roleEnv+"="+p.role)
	p.cmd.Stderr = log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var in io.WriteCloser
	if p.args[0] == stdio && p.role != working {
		if in, err = p.cmd.StdinPipe(); err != nil {
			return err
		}
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	if in != nil {
		p.lines = &lines{in, bufio.NewReader(out)}
		return nil
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		p.kill()
		return fmt.Errorf("the %s has not started: %w", p.role, err)
	}
	return nil
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// life is one call of the tool, taken to its end, in a world of its own.
type life struct {
	t       *testing.T
	way     way
	setting setting
	victim  string
	where   string // the moment at which the victim is killed; empty: never
	order   string
	urls    []string // of the servers; the first is the one that the client uses now
	dir     string
	service *service
	mu      sync.Mutex
	passed  []string // moments, each at its first time
	struck  bool
	parts   map[string]*process
	began   time.Time
	user    string // who calls, if the server asks

	overLines bool // the server is a child of the client's
}

// setting is where lives are taken to their ends.
type setting struct{ postgres, stdio bool }

func (s setting) String() string {
	store, over := "SQLite", "HTTP"
	if s.postgres {
		store = "PostgreSQL"
	}
	if s.stdio {
		over = "stdio"
	}
	return store + " over " + over
}

// databases counts those that were made.
var databases atomic.Int64

// ledger makes a ledger, and returns its name.
func (s setting) ledger(t *testing.T, dir string) string {
	if !s.postgres {
		return filepath.Join(dir, "ledger.db")
	}
	name, server := fmt.Sprint("life", databases.Add(1)), postgrestest.Shared(t)
	server.Exec("CREATE DATABASE " + name)
	t.Cleanup(func() { server.Exec("DROP DATABASE " + name + " WITH (FORCE)") }) // hundreds cost time
	return server.URL("postgres", name)
}

// hosts counts those that were used.
var hosts atomic.Int64

// address is one at which nobody listens. Where a host has more than one its own is for each, so
// that nobody gets the port while its server is dead.
func address(t *testing.T) string {
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		n := hosts.Add(1)
		host = fmt.Sprintf("127.%d.%d.%d", 1+n/62500%200, 1+n/250%250, 1+n%250)
	}
	listener, err := net.Listen("tcp", host+":0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

func (l *life) String() string {
	return fmt.Sprintf("%v, %s, %s killed %q", l.setting, l.way.name, l.victim, l.where)
}

func newLife(t *testing.T, w way, at setting, victim, where string) *life {
	l := &life{t: t, way: w, setting: at, victim: victim, where: where, order: "1", dir: t.TempDir(), parts: map[string]*process{}, began: time.Now(), overLines: at.stdio}
	l.service = newService(t, func(name, caller string) bool { return l.event(name) && caller == victim })
	keyset := filepath.Join(l.dir, "keys.json")
	_, err := codec.CreateKeysetFile(keyset)
	require.NoError(t, err)
	ledger := at.ledger(t, l.dir)
	t.Cleanup(func() {
		l.end()
		if t.Failed() {
			for role, p := range l.parts {
				said, _ := os.ReadFile(p.log)
				t.Logf("%s:\n%s", role, said[max(0, len(said)-4000):])
			}
		}
	})
	roles := []string{victim}
	switch victim {
	case serving, working:
		roles = []string{serving, working}
	case replica:
		roles = []string{replica, another}
	}
	for _, role := range roles {
		addr := stdio
		if !at.stdio {
			addr = address(t)
		}
		if role != working {
			l.urls = append(l.urls, "http://"+addr+server.Endpoint)
		}
		p := &process{role: role, args: []string{addr, keyset, ledger, l.service.URL}, log: filepath.Join(l.dir, role+".log")}
		l.parts[role] = p
		require.NoError(t, p.start())
	}
	return l
}

// end ends all processes.
func (l *life) end() {
	for _, p := range l.parts {
		p.kill()
	}
}

// child is the connection with the server that there is now.
func (l *life) child() *lines {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.parts {
		if p.lines != nil {
			return p.lines
		}
	}
	return nil
}

// event is a moment at which the victim may be killed; it reports whether it was, just now. Unless
// there is another one like it, it lives again when event returns. Moments that come again count
// once.
func (l *life) event(name string) (killed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.passed {
		if p == name {
			return false
		}
	}
	l.passed = append(l.passed, name)
	if name != l.where || l.struck {
		return false
	}
	l.struck = true
	p := l.parts[l.victim]
	p.kill()
	if l.victim == replica {
		return true
	}
	if err := p.start(); err != nil {
		l.t.Errorf("%v: %v", l, err)
	}
	return true
}
