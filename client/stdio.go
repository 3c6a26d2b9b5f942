package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/linestream"
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
	// asks the process to terminate, and then again before it kills it. It is also
	// how long the process may leave a request half read whose context has ended.
	// 0 means 3 seconds.
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

// drop ends the process; the next request starts another.
func (s *Stdio) drop() {
	s.mu.Lock()
	running := s.child
	s.child = nil
	s.mu.Unlock()
	if running != nil {
		_ = running.Close()
	}
}

// Open takes over the process that runs, which must have answered all it was asked, or starts one.
// It returns what the process reads and writes, for programs that speak with it by themselves.
// Close of what is returned ends it.
func (s *Stdio) Open() (io.ReadWriteCloser, error) {
	running, err := s.running(true)
	if err != nil {
		return nil, err
	}
	from, to := io.Pipe()
	running.raw = from
	running.diverted.Store(to)
	context.AfterFunc(running.ctx, func() { _ = to.CloseWithError(io.EOF) }) // frees both ends
	return running, nil
}

func (s *Stdio) exchange(ctx context.Context, r *request) (json.RawMessage, error) {
	running, err := s.running(false)
	if err == nil && s.Initialize && r.header == nil {
		err = running.greet(ctx)
	}
	if err != nil {
		return nil, err
	}
	return running.call(ctx, r)
}

// running returns the process, starting one if there is none. If it is taken over nothing else comes to it.
func (s *Stdio) running(takeOver bool) (running *child, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, &TransportError{Err: errClosed, final: true}
	}
	if running = s.child; running == nil || running.ctx.Err() != nil {
		if running, err = launch(s); err != nil {
			missing := errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
			return nil, &TransportError{Err: err, final: missing}
		}
	}
	if s.child = running; takeOver {
		s.child = nil
	}
	return running, nil
}

// child is one run of a server process, and the connection to it.
type child struct {
	cmd    *exec.Cmd
	lines  linestream.Conn
	out    io.WriteCloser
	grace  time.Duration
	lastID atomic.Uint64
	turn   chan struct{} // held by what writes a request, or a cancellation

	mu      sync.Mutex
	hearing map[uint64]func(method string, params json.RawMessage) // what gets notifications, by the ids of its requests

	greeting chan struct{} // held by what greets
	greeted  bool

	ctx  context.Context // ends when the connection does; its cause says why
	end  context.CancelCauseFunc
	done chan struct{} // closed when the process has ended
	exit error         // how it has ended

	// diverted, if not nil, gets the lines that the process writes, and raw reads them. owed is how many of its
	// requests have no answer, behind how many lines came while a write hangs.
	diverted     atomic.Pointer[io.PipeWriter]
	raw          io.Reader
	writing      atomic.Bool
	owed, behind atomic.Int64
}

// launch starts a process.
func launch(s *Stdio) (*child, error) {
	c := &child{
		grace: cmp.Or(s.Grace, defaultGrace), turn: make(chan struct{}, 1), greeting: make(chan struct{}, 1), done: make(chan struct{}),
		hearing: map[uint64]func(string, json.RawMessage){},
	}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.cmd = exec.CommandContext(c.ctx, s.Command, s.Args...)
	c.cmd.Dir, c.cmd.Env = s.Dir, s.Env
	c.cmd.Stderr = cmp.Or[io.Writer](s.Stderr, os.Stderr)
	// The end of its input asks the process to finish, then a signal. Then it is killed, with what grandchildren hold.
	c.cmd.Cancel = func() error {
		time.AfterFunc(c.grace, func() { _ = c.cmd.Process.Signal(syscall.SIGTERM) })
		return os.ErrProcessDone // Wait is to say how it ended
	}
	c.cmd.WaitDelay = 2 * c.grace
	out, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	in, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	c.out = out
	c.lines = linestream.Conn{In: bufio.NewReader(in), Out: out, Limit: cmp.Or(s.MaxLine, defaultMaxResponse), Read: c.read, Ended: c.close}
	c.lines.Start(c.ctx)
	go func() {
		<-c.ctx.Done()
		c.exit = c.cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

// close ends the connection, and so the process.
func (c *child) close(why error) {
	c.end(why)
	_ = c.out.Close()
}

// read returns the message in a line.
func (c *child) read(line []byte) ([]linestream.Message, error) {
	switch {
	case line == nil:
		return nil, tooMuch(c.lines.Limit, "bytes in a line")
	case !bytes.HasSuffix(line, []byte("\n")):
		return nil, io.EOF // it was cut off
	}
	if to := c.diverted.Load(); to != nil {
		if c.writing.Load() {
			c.behind.Add(1)
		}
		if max(c.owed.Add(count(line, true)), c.behind.Load()) > mostOwed {
			return nil, tooMuch(mostOwed, "messages while it waits for no answers")
		}
		_, err := to.Write(line)
		return nil, err
	}
	var wire wireMessage
	if err := json.Unmarshal(line, &wire); err != nil {
		return nil, &ProtocolError{Reason: fmt.Sprintf("the server wrote a line that is not a JSON-RPC message: %.80q", line), Err: err}
	}
	m := linestream.Message{Text: line, Handle: func() error { return c.handle(&wire) }}
	if wire.Method == "" {
		m.Answers, _ = strconv.ParseUint(string(wire.ID), 10, 64)
	}
	return []linestream.Message{m}, nil
}

// handle handles what is no answer. Of requests of the server's own there are none but ping here.
func (c *child) handle(m *wireMessage) error {
	switch {
	case m.Method == "":
		if id, err := strconv.ParseUint(string(m.ID), 10, 64); err == nil && id <= c.lastID.Load() {
			return nil // the call was given up
		}
		return malformed("the server answered request %.40s, which was not asked", m.ID) // then a call waits in vain
	case m.ID == nil:
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, notify := range c.hearing {
			notify(m.Method, m.Params)
		}
		return nil
	case m.Method == "ping":
		return c.write(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": struct{}{}})
	}
	refusal := &Error{Code: jsonrpc2.CodeMethodNotFound, Message: outOfPlace(m.Method)}
	return c.write(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": refusal})
}

func (c *child) write(message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return c.lines.Write(line)
}

// greet goes through MCP's handshake (2025-11-25, basic/lifecycle), once.
func (c *child) greet(ctx context.Context) error {
	select {
	case c.greeting <- struct{}{}:
		defer func() { <-c.greeting }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.greeted {
		return nil
	}
	_, err := c.call(ctx, &request{method: "initialize", params: map[string]any{
		// What a client cannot answer it says when it is asked.
		"protocolVersion": older[0], "capabilities": struct{}{}, "clientInfo": implementationOf(Options{}),
	}})
	switch {
	case errors.As(err, new(*Error)): // it does without; the request itself will show
	case err != nil:
		return err
	default:
		if err := c.write(message{JSONRPC: "2.0", Method: "notifications/initialized", Params: struct{}{}}); err != nil {
			return c.lost(err)
		}
	}
	c.greeted = true
	return nil
}

func (c *child) call(ctx context.Context, r *request) (json.RawMessage, error) {
	id := c.lastID.Add(1)
	line, err := json.Marshal(message{JSONRPC: "2.0", ID: id, Method: r.method, Params: r.params})
	if err != nil {
		return nil, c.lost(err)
	}
	if r.notify != nil {
		var p panicked
		within, stop := context.WithCancelCause(ctx)
		defer p.again()
		defer stop(nil)
		ctx = within
		c.hear(id, func(method string, params json.RawMessage) {
			var told sync.WaitGroup // a handler that ends its goroutine must not end the reading
			told.Go(func() { p.guard(func() { stop(errNoReturn) }, func() { r.notify(method, params) }) })
			told.Wait()
		})
		defer c.hear(id, nil)
	}
	var wait func() (json.RawMessage, error)
	err = c.inTurn(ctx, func() (err error) {
		wait, err = c.lines.Call(ctx, id, line)
		return err
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, c.lost(err)
	}
	response, err := wait()
	switch {
	case err == nil:
		return parseResponse(response, id)
	case ctx.Err() != nil:
		c.lines.Forget(id)
		// The process hears that the caller has given the request up.
		soon, cancel := context.WithTimeout(context.Background(), c.grace)
		defer cancel()
		_ = c.inTurn(soon, func() error {
			return c.write(message{JSONRPC: "2.0", Method: "notifications/cancelled", Params: map[string]any{"requestId": id}})
		})
		return nil, context.Cause(ctx)
	}
	return nil, c.lost(io.ErrUnexpectedEOF)
}

// inTurn has something written unless ctx ends before its turn comes. Others have requests under way, so a line that was
// begun is finished even if ctx ends meanwhile.
func (c *child) inTurn(ctx context.Context, write func() error) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	written := make(chan struct{})
	defer close(written)
	// A process that does not read would block it for ever.
	defer context.AfterFunc(ctx, func() {
		select {
		case <-written:
		case <-time.After(c.grace):
			c.close(nil)
		}
	})()
	return write()
}

// hear has notify get notifications while a request waits, or no more of them if it is nil.
func (c *child) hear(id uint64, notify func(string, json.RawMessage)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hearing[id] = notify; notify == nil {
		delete(c.hearing, id)
	}
}

// lost says why a request on this connection got no answer.
func (c *child) lost(err error) error {
	c.close(nil) // after a failed write the connection is in an unknown state
	if wrong, ok := errors.AsType[*ProtocolError](context.Cause(c.ctx)); ok {
		return wrong
	}
	final := false
	select {
	case <-c.done:
		err = errors.New("the server process ended")
		if c.exit != nil {
			err = fmt.Errorf("%w: %w", err, c.exit)
		}
		code := c.cmd.ProcessState.ExitCode()
		final = code == 126 || code == 127 // what shells say if there is no such command
	case <-time.After(c.grace):
	}
	return &TransportError{Sent: true, Err: err, final: final}
}

// Read reads what the process of [Stdio.Open] writes. If that ends by itself the error says how, here
// and in Write.
func (c *child) Read(p []byte) (int, error) {
	n, err := c.raw.Read(p)
	return n, c.ended(n, err)
}

// Write writes what it reads: a line.
func (c *child) Write(line []byte) (int, error) {
	c.writing.Store(true)
	n, err := c.out.Write(line)
	c.writing.Store(false)
	c.owed.Add(-count(line, false))
	c.behind.Store(0)
	return n, c.ended(n, err)
}

// mostOwed bounds the requests of a process before their answers, and lines while it reads none: all are kept.
const mostOwed = 1000

// count counts the requests in a line, or the responses. It may be a batch of MCP 2025-03-26.
func count(line []byte, requests bool) (n int64) {
	messages := slices.Values([][]byte{line})
	if bytes.HasPrefix(line, []byte("[")) {
		messages = jsonview.Elements(line)
	}
	for m := range messages {
		if jsonview.Get(m, "id") != nil && (jsonview.Get(m, "method") != nil) == requests {
			n++
		}
	}
	return n
}

func (c *child) ended(n int, err error) error {
	if n > 0 || err == nil || errors.Is(context.Cause(c.ctx), errClosed) {
		return err
	}
	return c.lost(err)
}

// Close ends it and waits for that.
func (c *child) Close() error {
	c.close(errClosed)
	<-c.done
	return nil
}
