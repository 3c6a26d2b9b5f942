package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

// child is one run of a server process.
type child struct {
	cmd    *exec.Cmd
	stream *lines
	conn   *jsonrpc2.Conn
	lastID atomic.Uint64
	grace  time.Duration

	// greeting is held while the process is greeted.
	greeting chan struct{}
	greeted  bool

	// done is closed when the process has ended; exit then says how.
	done chan struct{}
	exit error
}

func startChild(s *Stdio) (*child, error) {
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Dir, cmd.Env = s.Dir, s.Env
	cmd.Stderr = os.Stderr
	if s.Stderr != nil {
		cmd.Stderr = s.Stderr
	}
	c := &child{cmd: cmd, grace: cmp.Or(s.Grace, defaultGrace), done: make(chan struct{}), greeting: make(chan struct{}, 1)}
	// Grandchildren may hold the pipes open after the process has gone.
	cmd.WaitDelay = c.grace
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.stream = newLines(stdout, stdin, cmp.Or(s.MaxLine, defaultMaxResponse))
	c.conn = jsonrpc2.NewConn(context.Background(), c.stream, jsonrpc2.HandlerWithError(serve),
		jsonrpc2.SetLogger(log.New(io.Discard, "", 0)), jsonrpc2.OnRecv(c.received))
	go c.reap()
	return c, nil
}

// serve answers the server's own requests. The dialects spoken here have none but
// ping; notifications (progress, logs) are of no interest.
func serve(_ context.Context, _ *jsonrpc2.Conn, request *jsonrpc2.Request) (any, error) {
	if request.Notif || request.Method == "ping" {
		return struct{}{}, nil
	}
	return nil, &jsonrpc2.Error{Code: jsonrpc2.CodeMethodNotFound, Message: "this client answers no requests"}
}

// received sees every message before its receiver does. A response to nothing
// means that somebody waits in vain, so it ends the connection.
func (c *child) received(request *jsonrpc2.Request, response *jsonrpc2.Response) {
	if response != nil && request == nil {
		c.stream.fail(malformed("the server answered request %s, which was not asked", response.ID))
		c.close()
	}
}

// close asks the process to end; reap sees to it that it does.
func (c *child) close() { _ = c.conn.Close() }

// gone reports whether the connection has ended.
func (c *child) gone() bool {
	select {
	case <-c.conn.DisconnectNotify():
		return true
	default:
		return false
	}
}

// reap waits for the end of the connection and then of the process: the closed
// input is the request to finish, a signal the reminder.
func (c *child) reap() {
	<-c.conn.DisconnectNotify()
	terminate := time.AfterFunc(c.grace, func() { _ = c.cmd.Process.Signal(syscall.SIGTERM) })
	kill := time.AfterFunc(2*c.grace, func() { _ = c.cmd.Process.Kill() })
	c.exit = c.cmd.Wait()
	terminate.Stop()
	kill.Stop()
	close(c.done)
}

// greet goes through MCP's handshake (2025-11-25, basic/lifecycle), once.
func (c *child) greet(ctx context.Context) error {
	select {
	case c.greeting <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.greeting }()
	if c.greeted {
		return nil
	}
	_, err := c.call(ctx, "initialize", initializeParams(Options{}))
	var refused *Error
	if errors.As(err, &refused) {
		c.greeted = true // it does without; the request itself will show
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.conn.Notify(ctx, "notifications/initialized", struct{}{}); err != nil {
		return c.lost(err)
	}
	c.greeted = true
	return nil
}

func (c *child) call(ctx context.Context, method string, params any) (json.RawMessage, error) {
	id := jsonrpc2.ID{Num: c.lastID.Add(1)}
	// A process that does not read would block the write for ever.
	unblock := context.AfterFunc(ctx, func() { _ = c.stream.Close() })
	waiter, err := c.conn.DispatchCall(ctx, method, params, jsonrpc2.PickID(id))
	written := unblock()
	if err == nil {
		var result json.RawMessage
		if err = waiter.Wait(ctx, &result); err == nil {
			return result, nil
		}
	}
	if ctx.Err() != nil {
		if written {
			c.cancel(id)
		}
		return nil, ctx.Err()
	}
	var refused *jsonrpc2.Error
	if errors.As(err, &refused) {
		return nil, fromLibrary(refused)
	}
	return nil, c.lost(err)
}

// cancel tells the process that nobody waits for the request any more.
func (c *child) cancel(id jsonrpc2.ID) {
	unblock := time.AfterFunc(c.grace, func() { _ = c.stream.Close() })
	defer unblock.Stop()
	_ = c.conn.Notify(context.Background(), "notifications/cancelled", map[string]any{"requestId": id.Num})
}

// lost says why a request on this connection got no answer.
func (c *child) lost(err error) error {
	c.close() // after a failed write the connection is in an unknown state
	var wrong *ProtocolError
	if errors.As(c.stream.failure(), &wrong) {
		return wrong
	}
	final := false
	select {
	case <-c.done:
		var exit *exec.ExitError
		if errors.As(c.exit, &exit) {
			final = exit.ExitCode() == notFound || exit.ExitCode() == notExecutable
		}
		if c.exit != nil {
			err = fmt.Errorf("the server process ended: %w", c.exit)
		} else {
			err = errors.New("the server process ended")
		}
	case <-time.After(c.grace):
	}
	return &TransportError{Sent: true, Err: err, final: final}
}

// What shells exit with if there is no such command: starting it again is in vain.
const (
	notExecutable = 126
	notFound      = 127
)

func fromLibrary(e *jsonrpc2.Error) *Error {
	own := &Error{Code: e.Code, Message: e.Message}
	if e.Data != nil {
		own.Data = *e.Data
	}
	return own
}
