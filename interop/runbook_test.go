package interop

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fleet is a deployment as its operator sees it: servers, and the commands of their program. Each entry of the runbook in
// docs/operate.md is played on one.
type fleet struct {
	t          *testing.T
	dir, books string
	env        []string
	servers    []*served
}

// newFleet makes a keyset and chooses a ledger, and starts nothing.
func newFleet(t *testing.T, ledger string) *fleet {
	t.Helper()
	dir := t.TempDir()
	s := &fleet{t: t, dir: dir, books: filepath.Join(dir, "books")}
	require.NoError(t, os.Mkdir(s.books, 0o700))
	if filepath.IsAbs(ledger) {
		ledger = "sqlite:" + ledger
	}
	s.env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir+"/config", "XDG_STATE_HOME="+dir+"/state",
		"RUNBOOK_KEYSET="+dir+"/keys.json", "RUNBOOK_AUDIENCE=prod", "RUNBOOK_BOOKS="+s.books, "RUNBOOK_LEDGER="+ledger, "RUNBOOK_RETRY_FOR=1s", "ACCESSIBLE=1")
	s.ok("keys", "new")
	return s
}

func (s *fleet) command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(s.t, err)
	cmd := exec.Command(self, append([]string{runbookChild}, args...)...)
	cmd.Env, cmd.Dir = s.env, s.dir
	return cmd
}

// run runs a command of the program, and returns all it says and its exit code.
func (s *fleet) run(args ...string) (said string, code int) {
	s.t.Helper()
	var exit *exec.ExitError
	out, err := s.command(args...).CombinedOutput()
	if err != nil {
		require.ErrorAs(s.t, err, &exit)
		code = exit.ExitCode()
	}
	return string(out), code
}

func (s *fleet) ok(args ...string) string {
	s.t.Helper()
	said, code := s.run(args...)
	require.Zero(s.t, code, "%v: %s", args, said)
	return said
}

// served is a server, or a worker, whose log is in a file.
type served struct {
	t        *testing.T
	log, url string
	metrics  string
	cmd      *exec.Cmd
	ended    chan struct{}
}

// serve starts a server.
func (s *fleet) serve(flags ...string) *served {
	s.t.Helper()
	return s.start(append([]string{"serve", "--addr", "127.0.0.1:0"}, flags...)...)
}

// start starts a server or a worker, and waits until it works.
func (s *fleet) start(args ...string) *served {
	s.t.Helper()
	log, err := os.CreateTemp(s.dir, "log")
	require.NoError(s.t, err)
	defer log.Close()
	p := &served{t: s.t, log: log.Name(), cmd: s.command(append(args, "--metrics", "127.0.0.1:0")...), ended: make(chan struct{})}
	p.cmd.Stderr = log
	require.NoError(s.t, p.cmd.Start())
	go func() { defer close(p.ended); _ = p.cmd.Wait() }()
	s.t.Cleanup(func() {
		p.kill()
		if s.t.Failed() {
			said := p.said()
			s.t.Log(said[max(0, len(said)-4000):])
		}
	})
	works := regexp.MustCompile(`msg=(?:serving url=(\S+)|working)`)
	p.eventually(func() bool {
		found := works.FindStringSubmatch(p.said())
		if found != nil {
			p.url = found[1]
		}
		return found != nil
	}, "it does not start")
	if found := regexp.MustCompile(`msg="serving metrics" address=(\S+)`).FindStringSubmatch(p.said()); found != nil {
		p.metrics = found[1]
	}
	s.servers = append(s.servers, p)
	return p
}

func (p *served) eventually(is func() bool, what string) {
	p.t.Helper()
	require.Eventually(p.t, is, 40*time.Second, 20*time.Millisecond, "%s", what)
}

func (p *served) said() string {
	text, err := os.ReadFile(p.log)
	require.NoError(p.t, err)
	return string(text)
}

func (p *served) says(what string) {
	p.t.Helper()
	p.eventually(func() bool { return regexp.MustCompile(what).MatchString(p.said()) }, "the log does not say "+what)
}

func (p *served) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func (p *served) get(path string) string {
	p.t.Helper()
	resp, err := http.Get(strings.TrimSuffix(p.url, "/mcp") + path)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return string(body)
}

// call begins a call that asks, and returns how the command calls it.
func (s *fleet) call(at *served, tool string) string {
	s.t.Helper()
	said, code := s.run("call", tool, "--server", at.url)
	require.Equal(s.t, needsAnswer, code, said)
	name := regexp.MustCompile(`--resume (\S+)`).FindStringSubmatch(said)
	require.NotNil(s.t, name, said)
	return name[1]
}

// needsAnswer is the exit code of a call that asks.
const needsAnswer = 5

// answer answers a call at a server.
func (s *fleet) answer(at *served, name string) (said string, code int) {
	s.t.Helper()
	return s.run("call", "--resume", name, "--server", at.url, "--answers", s.file("yes.json", `{"sure":{"ok":true}}`))
}

// done fails unless a call has ended well.
func (s *fleet) done(said string, code int) {
	s.t.Helper()
	require.Zero(s.t, code, said)
	require.Contains(s.t, said, "ordered")
}

// saved returns what puts a saved call back as it is, for a client that repeats itself.
func (s *fleet) saved(name string) (putBack func()) {
	s.t.Helper()
	path := filepath.Join(s.dir, "state", "saga", "calls", name+".json")
	raw, err := os.ReadFile(path)
	require.NoError(s.t, err)
	return func() { require.NoError(s.t, os.WriteFile(path, raw, 0o600)) }
}

// detached begins a task, and returns how the command calls it when it asks.
func (s *fleet) detached(at *served, tool string) string {
	s.t.Helper()
	said := strings.Fields(s.ok("call", tool, "--detach", "--server", at.url))
	name := said[len(said)-1]
	at.eventually(func() bool {
		return regexp.MustCompile(name + `.*(asks:|working: The parcel)`).MatchString(s.ok("tasks"))
	}, "the task does not ask")
	return name
}

func count(kinds []string, kind string) (n int) {
	for _, k := range kinds {
		if k == kind {
			n++
		}
	}
	return n
}

func (s *fleet) file(name, text string) string {
	path := filepath.Join(s.dir, name)
	require.NoError(s.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// ofKey is the key behind what kept has kept.
var ofKey = regexp.MustCompile(`-[\w-]{43}$`)

// kinds are what effects have kept, sorted.
func (s *fleet) kinds() (list []string) {
	entries, err := os.ReadDir(s.books)
	require.NoError(s.t, err)
	for _, e := range entries {
		list = append(list, ofKey.ReplaceAllString(e.Name(), ""))
	}
	slices.Sort(list)
	return list
}

// waiting are the sagas that the ledger lists, with other flags.
func (s *fleet) waiting(flags ...string) (list []struct {
	Saga, Tool, State string
	Effects           []string
	Attempts          int
	LastError         string
}) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal([]byte(s.ok(append([]string{"ledger", "--output", "json"}, flags...)...)), &list))
	return list
}
