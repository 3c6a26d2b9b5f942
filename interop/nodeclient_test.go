package interop

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// nodeScripts are the scripts beside the packages, each one process for all tests: to
// start one takes longer than most of what it is asked to do.
var nodeScripts = map[string]*nodeScript{"v1.mjs": {}, "v1.mjs " + olderSDK: {}, "v2.mjs": {}, "tasks.mjs": {}, "v1tasks.mjs": {}}

// olderSDK is an argument of v1.mjs: the package of a version of 2025, which speaks 2025-06-18.
const olderSDK = "older-sdk"

type nodeScript struct {
	mu      sync.Mutex
	cmd     *exec.Cmd // nil before it is needed
	stdin   io.WriteCloser
	stderr  bytes.Buffer
	waiting map[int]chan []outcome
	started int
	ended   chan struct{}
}

// nodeClient makes calls with one of the scripts.
func nodeClient(script string, mode any) func(*testing.T, target, []call) []outcome {
	return func(t *testing.T, at target, calls []call) []outcome {
		answered, ended := nodeScripts[script].send(t, script, map[string]any{"server": at, "mode": mode, "calls": calls})
		select {
		case outcomes := <-answered:
			return outcomes
		case <-ended:
			t.Fatalf("%s has ended: %s", script, &nodeScripts[script].stderr)
		case <-time.After(2 * time.Minute):
			t.Fatalf("%s does not answer", script)
		}
		return nil
	}
}

// send has the process play a script, and starts it first if it is not there.
func (n *nodeScript) send(t *testing.T, script string, spec map[string]any) (answered chan []outcome, ended chan struct{}) {
	t.Helper()
	node := needNode(t)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		name, arguments, _ := strings.Cut(script, " ")
		cmd := node.command(name, strings.Fields(arguments)...)
		cmd.Stderr = &n.stderr
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		n.cmd, n.stdin, n.waiting, n.ended = cmd, stdin, map[int]chan []outcome{}, make(chan struct{})
		go n.read(json.NewDecoder(stdout))
	}
	n.started++
	answered = make(chan []outcome, 1)
	n.waiting[n.started] = answered
	spec["id"] = n.started
	require.NoError(t, json.NewEncoder(n.stdin).Encode(spec))
	return answered, n.ended
}

// read hands out what the process prints, until it ends.
func (n *nodeScript) read(from *json.Decoder) {
	defer close(n.ended)
	defer func() { _ = n.cmd.Wait() }()
	for {
		var said struct {
			ID       int       `json:"id"`
			Outcomes []outcome `json:"outcomes"`
		}
		if from.Decode(&said) != nil {
			return
		}
		n.mu.Lock()
		answered := n.waiting[said.ID]
		delete(n.waiting, said.ID)
		n.mu.Unlock()
		if answered != nil {
			answered <- said.Outcomes
		}
	}
}

// stop ends the process, and waits for it.
func (n *nodeScript) stop() {
	n.mu.Lock()
	cmd := n.cmd
	n.mu.Unlock()
	if cmd != nil {
		_ = n.stdin.Close()
		_ = cmd.Process.Kill()
		<-n.ended
	}
}
