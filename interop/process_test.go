package interop

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

var binaryDir string

// binary is examples/everything, built once for all tests that need it.
var binary = sync.OnceValues(func() (file string, err error) {
	if binaryDir, err = os.MkdirTemp("", "interop"); err != nil {
		return "", err
	}
	file = filepath.Join(binaryDir, "everything")
	args := []string{"build", "-o", file}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "../examples/everything")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return file, fmt.Errorf("%w: %s", err, out)
	}
	return file, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if binaryDir != "" {
		os.RemoveAll(binaryDir)
	}
	os.Exit(status)
}

// process is a server of its own. Each has its own address, keys and directory
// of repositories.
type process struct {
	t    *testing.T
	addr string
	args []string
	root string

	cmd *exec.Cmd
	log *bytes.Buffer
	// restarts counts, one at a time, how often the process was replaced.
	mu       sync.Mutex
	restarts int
}

// newProcess prepares a server without starting it.
func newProcess(t *testing.T) *process {
	t.Helper()
	file, err := binary()
	require.NoError(t, err)
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys.json")
	_, err = codec.CreateKeysetFile(keys)
	require.NoError(t, err)
	return &process{t: t, root: dir, args: []string{file, "--keys", keys, "--root", dir}}
}

// startHTTP starts a server that listens on an address of its own.
func startHTTP(t *testing.T) *process {
	t.Helper()
	p := newProcess(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.addr = l.Addr().String()
	require.NoError(t, l.Close())
	require.NoError(t, p.start())
	t.Cleanup(p.kill)
	return p
}

func (p *process) url() string { return "http://" + p.addr + "/mcp" }

// stdio is the command of the same server on standard input and output.
func (p *process) stdio() []string { return append(p.args[:len(p.args):len(p.args)], "--stdio") }

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
	if s := p.log.String(); strings.Contains(s, "DATA RACE") || strings.Contains(s, "level=ERROR") {
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
