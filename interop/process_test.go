package interop

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/buildtest"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
	"github.com/mcpsaga/mcpsaga/internal/porttest"
	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
)

// work is a directory for all tests of the package.
var work string

// buildSaga builds cmd/saga, once for all tests that need it.
var buildSaga = sync.OnceValue(func() error {
	flags := []string{"-ldflags=-s -w"}
	if raceEnabled {
		flags = append(flags, "-race")
	}
	return buildtest.Program(filepath.Join(work, "saga"), "../cmd/saga", flags...)
})

// raceLogs is the beginning of the names of the files to which the race detector
// writes in the processes that are started here and by clients.
const raceLogs = "race-report"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case tripChild:
			os.Exit(serveTrip(os.Args[2:]))
		case stayChild:
			if err := serveStay(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, "stay:", err)
				os.Exit(1)
			}
			os.Exit(0)
		case shopChild:
			if err := serveShop(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, "shop:", err)
				os.Exit(1)
			}
			os.Exit(0)
		case rolloutChild:
			os.Args = append(os.Args[:1:1], os.Args[2:]...)
			serveRollout()
		case runbookChild:
			os.Args = append(os.Args[:1:1], os.Args[2:]...)
			serveRunbook()
		case conformanceChild:
			if err := playScenario(os.Args[2]); err != nil {
				fmt.Fprintln(os.Stderr, "client:", err)
				os.Exit(1)
			}
			os.Exit(0)
		case everythingChild:
			if err := serveEverything(os.Args[2:], os.Stdin, os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, "everything:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	var err error
	if work, err = os.MkdirTemp("", "interop"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(work)
	// Without it each process sleeps for a second before it ends.
	os.Setenv("GORACE", "atexit_sleep_ms=0 log_path="+filepath.Join(work, raceLogs))
	// Most of the processes are gone before they have much to collect.
	if os.Getenv("GOGC") == "" {
		os.Setenv("GOGC", "400")
	}
	// Most tests wait most of the time: for the suite, leases, clients that give up. -parallel
	// changes it.
	together := "24"
	if longtests.Wanted() { // other people's programs do more than wait
		together = "8"
	}
	if err := flag.Set("test.parallel", together); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := postgrestest.Tests{M: m}.Run()
	for _, n := range nodeScripts {
		n.stop()
	}
	reports, _ := filepath.Glob(filepath.Join(work, raceLogs+"*"))
	for _, name := range reports {
		report, _ := os.ReadFile(name)
		fmt.Fprintf(os.Stderr, "a data race in a process under test:\n%s\n", report)
		status = 1
	}
	return status
}

// process is a server of its own. Each has its own address, keys and directory
// of repositories.
type process struct {
	t    *testing.T
	addr string
	args []string
	root string
	keys string

	cmd *exec.Cmd
	log *bytes.Buffer
	// restarts counts, one at a time, how often the process was replaced.
	mu       sync.Mutex
	restarts int
}

// newProcess prepares a server without starting it. More arguments may follow.
func newProcess(t *testing.T, more ...string) *process {
	t.Helper()
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys.json")
	_, err := codec.CreateKeysetFile(keys)
	require.NoError(t, err)
	program, err := os.Executable()
	require.NoError(t, err)
	return &process{t: t, root: dir, keys: keys, args: append([]string{program, everythingChild, "--keys", keys, "--root", dir}, more...)}
}

// startHTTP starts a server that listens on an address of its own.
func startHTTP(t *testing.T, more ...string) *process {
	t.Helper()
	p := newProcess(t, more...)
	p.addr = porttest.Reserve(t)
	require.NoError(t, p.start())
	t.Cleanup(p.kill)
	return p
}

func (p *process) url() string { return "http://" + p.addr + "/mcp" }

// stdio is the command of the same server on standard input and output.
func (p *process) stdio() target {
	return target{Command: p.args[0], Args: append(p.args[1:len(p.args):len(p.args)], "--stdio")}
}

// reference is the command of the reference server, with the same keys and
// repositories.
func (p *process) reference() target {
	p.t.Helper()
	require.NoError(p.t, buildSaga())
	return target{Command: filepath.Join(work, "saga"), Args: []string{"stdio", "--keyset", p.keys, "--repo", p.root}}
}

// start starts the process and waits until it has said where it listens.
func (p *process) start() error {
	p.cmd = exec.Command(p.args[0], append(p.args[1:], "--addr", p.addr)...)
	p.log = new(bytes.Buffer)
	p.cmd.Stderr = p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != p.url() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		return fmt.Errorf("the server said %q (%v): %s", line, err, p.log)
	}
	return nil
}

// kill ends the process without notice, as a crash would.
func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
	s := p.log.String()
	wrong := slices.ContainsFunc(strings.Split(s, "\n"), func(line string) bool {
		return strings.Contains(line, "level=ERROR") && !strings.Contains(line, "tool="+brokenJob.Name)
	})
	if wrong {
		p.t.Error(s)
	} else if p.t.Failed() {
		p.t.Log(s)
	}
}

// restart is what happens between two turns of a saga that does not notice.
func (p *process) restart() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restarts++
	p.kill()
	return p.start()
}
