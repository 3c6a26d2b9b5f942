package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// process is a real process: the test binary in another role.
type process struct {
	name, role string
	args       []string
	log        string // file of its standard error

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
	url  string
}

func newProcess(t *testing.T, dir, name, role string, args ...string) *process {
	t.Helper()
	p := &process{name: name, role: role, args: args, log: filepath.Join(dir, name+".log")}
	t.Cleanup(p.kill)
	return p
}

// start starts the process. A part of the example is listening when it returns.
func (p *process) start() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(program, p.args...)
	cmd.Env = append(os.Environ(), childEnv+"="+p.role)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	said := bufio.NewReader(io.TeeReader(stderr, log))
	var found []string
	for p.role != "client" && found == nil && err == nil {
		var line string
		line, err = said.ReadString('\n')
		found = listening.FindStringSubmatch(line)
	}
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, said)
		_ = cmd.Wait()
		_ = log.Close()
		close(done)
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.done = cmd, done
	if found != nil {
		p.url = found[1]
	}
	return err
}

// listening finds where a part listens in what it says.
var listening = regexp.MustCompile(`serving"? url=(\S+)`)

// kill is kill -9. The process is gone when it returns.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	p.cmd, p.url = nil, ""
}

// address is where the process listens, or nowhere if it is dead.
func (p *process) address() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.url
}

// restart starts the process unless it lives.
func (p *process) restart(t *testing.T) {
	t.Helper()
	if p.address() == "" {
		require.NoError(t, p.start(), p.name)
	}
}
