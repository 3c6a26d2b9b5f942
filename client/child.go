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
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sourcegraph/jsonrpc2"

	"github.com/mcpsaga/mcpsaga/internal/linestream"
)

// child is one run of a server process, and the connection to it.
type child struct {
	cmd    *exec.Cmd
	lines  linestream.Conn
	out    io.WriteCloser
	grace  time.Duration
	lastID atomic.Uint64

	mu      sync.Mutex
	hearing map[uint64]chan<- *wireMessage // the calls that get notifications, by their ids

	greeting sync.Mutex
	greeted  bool

	ctx  context.Context // ends when the connection does; its cause says why
	end  context.CancelCauseFunc
	done chan struct{} // closed when the process has ended
	exit error         // how it has ended

	// diverted, if not nil, gets the lines that the process writes, and raw reads them.
	diverted atomic.Pointer[io.PipeWriter]
	raw      io.Reader
}

// maxNotes is how many notifications wait for a call that is slow to take them. More are dropped.
const maxNotes = 64

// launch starts a process.
func launch(s *Stdio) (*child, error) {
	c := &child{grace: cmp.Or(s.Grace, defaultGrace), done: make(chan struct{}), hearing: map[uint64]chan<- *wireMessage{}}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.cmd = exec.CommandContext(c.ctx, s.Command, s.Args...)
	c.cmd.Dir, c.cmd.Env = s.Dir, s.Env
	c.cmd.Stderr = cmp.Or[io.Writer](s.Stderr, os.Stderr)
	// The end of its input asks the process to finish, a signal reminds it. Then it is killed, and
	// what grandchildren hold open is closed.
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

// handle handles what is no answer to a request. Of requests of the server's own, the dialects
// spoken here have none but ping.
func (c *child) handle(m *wireMessage) error {
	switch {
	case m.Method == "": // then a call waits in vain
		return malformed("the server answered request %.40s, which was not asked", m.ID)
	case m.ID == nil:
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, notes := range c.hearing {
			select {
			case notes <- m:
			default:
			}
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
	c.greeting.Lock()
	defer c.greeting.Unlock()
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
	notes := make(chan *wireMessage, maxNotes)
	if r.notify != nil {
		c.hear(id, notes)
		defer c.hear(id, nil)
	}
	// A process that does not read would block the write for ever.
	unblock := context.AfterFunc(ctx, func() { c.close(nil) })
	wait, err := c.lines.Call(ctx, id, line)
	if !unblock() {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, c.lost(err)
	}
	var response json.RawMessage
	answered := make(chan struct{})
	go func() {
		response, err = wait()
		close(answered)
	}()
	for waiting := true; waiting || len(notes) > 0; {
		select {
		case n := <-notes:
			r.notify(n.Method, n.Params)
		case <-answered:
			waiting, answered = false, nil // what came before is still heard
		}
	}
	switch {
	case err == nil:
		return parseResponse(response, id)
	case ctx.Err() != nil:
		// The process hears that the caller has given the request up.
		defer time.AfterFunc(c.grace, func() { c.close(nil) }).Stop()
		_ = c.write(message{JSONRPC: "2.0", Method: "notifications/cancelled", Params: map[string]any{"requestId": id}})
		return nil, ctx.Err()
	}
	return nil, c.lost(io.ErrUnexpectedEOF)
}

// hear has a call get notifications, or no more of them if notes is nil.
func (c *child) hear(id uint64, notes chan<- *wireMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hearing[id] = notes; notes == nil {
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

// divert has Read get what the process writes from now on, and call no more.
func (c *child) divert() {
	from, to := io.Pipe()
	c.raw = from
	c.diverted.Store(to)
	context.AfterFunc(c.ctx, func() { _ = to.CloseWithError(io.EOF) }) // frees both ends
}

// Read reads what the process of [Stdio.Open] writes. If that ends by itself the error says how, here
// and in Write.
func (c *child) Read(p []byte) (int, error) {
	n, err := c.raw.Read(p)
	return n, c.ended(n, err)
}

// Write writes what it reads.
func (c *child) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	return n, c.ended(n, err)
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
