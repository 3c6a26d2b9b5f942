package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"sync"
	"time"
)

// defaultGrace is how long [Stdio] waits for a process to end by itself.
const defaultGrace = 3 * time.Second

// errClosed is in the error of a request on a closed transport.
var errClosed = errors.New("the client was closed")

// Stdio runs a server as a child process and talks to it over its standard input
// and output, one message per line. Fill in the fields before the first use and
// do not copy it afterwards.
//
// The process is started with the first request, and again when it has ended:
// since the server keeps nothing between turns, calls under way continue.
type Stdio struct {
	Command string    // looked up in PATH
	Args    []string  // its arguments
	Dir     string    // its working directory; empty means this process's
	Env     []string  // its environment; nil means this process's
	Stderr  io.Writer // gets its standard error; nil means this process's
	MaxLine int       // limits the length of one message in bytes; 0 means 8 MiB
	// Grace is how long Close waits after closing the process's input before it
	// asks the process to terminate, and then again before it kills it. 0 means
	// 3 seconds.
	Grace time.Duration
	// Initialize has every process greeted with initialize before its first request.
	// This module's server does not need it; servers on other SDKs answer nothing
	// without.
	Initialize bool

	mu     sync.Mutex
	child  *child
	closed bool
}

// Close ends the process and waits for it.
func (s *Stdio) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.drop()
	return nil
}

// take returns the process that runs, if there is one; the next request starts another.
func (s *Stdio) take() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := s.child
	s.child = nil
	return running
}

// drop ends the process.
func (s *Stdio) drop() {
	if running := s.take(); running != nil {
		_ = running.Close()
	}
}

// Open takes over the process that runs, which must have answered all it was asked, or starts one.
// It returns what the process reads and writes, for programs that speak with it by themselves.
// Close of what is returned ends it.
func (s *Stdio) Open() (io.ReadWriteCloser, error) {
	running, err := s.running()
	if err != nil {
		return nil, err
	}
	s.take()
	running.divert()
	return running, nil
}

func (s *Stdio) exchange(ctx context.Context, r *request) (json.RawMessage, error) {
	running, err := s.running()
	if err == nil && s.Initialize && r.header == nil {
		err = running.greet(ctx)
	}
	if err != nil {
		return nil, err
	}
	return running.call(ctx, r)
}

// running returns the process, starting one if there is none.
func (s *Stdio) running() (*child, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, &TransportError{Err: errClosed, final: true}
	}
	if s.child == nil || s.child.ctx.Err() != nil {
		started, err := launch(s)
		if err != nil {
			missing := errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
			return nil, &TransportError{Err: err, final: missing}
		}
		s.child = started
	}
	return s.child, nil
}
