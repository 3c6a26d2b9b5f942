package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	defer func() { _ = log.Close() }()
	cmd := exec.Command(program, p.args...)
	cmd.Env = append(os.Environ(), childEnv+"="+p.role)
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var line string
	if p.role != "client" {
		line, err = bufio.NewReader(stdout).ReadString('\n')
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.done, p.url = cmd, done, strings.TrimSpace(line)
	return err
}

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
