// Package linestream has JSON-RPC connections with one message per line, as MCP has them on standard
// input and output: see [Conn].
package linestream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/sourcegraph/jsonrpc2"
)

// Conn is a connection of package jsonrpc2, which has messages handled, finds the call that a response
// is for, and closes. Fill in the fields and call Start before anything else; do not copy it.
//
// Of a message, the library sees only what it needs for that: what it decodes, it writes anew. So
// messages are checked before, and written as they are. TestWhatTheLibraryChanges has the details.
type Conn struct {
	// In is read, and Out written to. They stay open.
	In  *bufio.Reader
	Out io.Writer
	// Limit is how many bytes a line may have, with its end.
	Limit int
	// Read returns the messages in a line, which is not blank, and is theirs. Only the last line may
	// lack its end. A line beyond the limit comes as nil. An error ends the connection.
	Read func(line []byte) ([]Message, error)
	// Ended is called with why no more is read, before calls fail, or why nothing can be written.
	Ended func(error)

	rpc *jsonrpc2.Conn
	// What follows belongs to the goroutine that reads.
	arrived  []Message // and not handled
	now      Message   // the one that is handled
	wrong    error     // why no more is handled
	skipping bool      // the rest of a line that is too long

	writing sync.Mutex
	failed  atomic.Pointer[error] // asked for while a write hangs

	forgetting sync.Mutex // guards forgotten
	forgotten  []Message
}

// Message is a message that was read.
type Message struct {
	// Answers is the id of the call that a response is for; 0 is none. The call returns Text.
	Answers uint64
	Text    json.RawMessage
	// Handle handles what no call has waited for, before the next message. An error ends the connection.
	Handle func() error
}

// Start begins to read. The connection ends with In or ctx. Then ended is closed, and nothing more is
// handled; Write still writes.
func (c *Conn) Start(ctx context.Context) (ended <-chan struct{}) {
	s := (*stream)(c)
	jsonrpc2.NewConn(ctx, s, s, jsonrpc2.OnRecv(s.arrive), jsonrpc2.SetLogger(log.New(io.Discard, "", 0)),
		func(rpc *jsonrpc2.Conn) { c.rpc = rpc }) // before anything is read
	return c.rpc.DisconnectNotify()
}

// Fail has all writes fail from now on.
func (c *Conn) Fail(err error) {
	if c.failed.CompareAndSwap(nil, &err) {
		c.Ended(err)
	}
}

// Failed returns what Fail was called with first, or the error of the first write that failed.
func (c *Conn) Failed() error {
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Write writes a message and the end of its line.
func (c *Conn) Write(message []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.Failed() == nil {
		if _, err := c.Out.Write(append(message, '\n')); err != nil {
			c.Fail(err)
		}
	}
	return c.Failed()
}

// Call writes a request with that id, which is not 0. wait fails when ctx or the connection has ended;
// the response is then ignored, until Forget.
func (c *Conn) Call(ctx context.Context, id uint64, request []byte) (wait func() (json.RawMessage, error), err error) {
	call, err := c.rpc.DispatchCall(ctx, "", nil, jsonrpc2.PickID(jsonrpc2.ID{Num: id}))
	if err == nil {
		err = c.Write(request)
	}
	return func() (response json.RawMessage, err error) {
		err = call.Wait(ctx, &response)
		return response, err
	}, err
}

// Forget frees what the library keeps of a call, with the next line, by giving it a response.
func (c *Conn) Forget(id uint64) {
	c.forgetting.Lock()
	defer c.forgetting.Unlock()
	c.forgotten = append(c.forgotten, Message{Answers: id, Handle: func() error { return nil }})
}

// stream is a Conn as the library sees it.
type stream Conn

// ReadObject implements [jsonrpc2.ObjectStream].
func (c *stream) ReadObject(v any) error {
	for c.now = (Message{}); len(c.arrived) == 0 && c.wrong == nil; {
		c.wrong = c.readLine()
	}
	if c.wrong != nil {
		c.Ended(c.wrong)
		return c.wrong
	}
	c.now, c.arrived = c.arrived[0], c.arrived[1:]
	if c.now.Answers == 0 {
		return json.Unmarshal([]byte(`{"method":""}`), v)
	}
	return json.Unmarshal(append(strconv.AppendUint([]byte(`{"result":0,"id":`), c.now.Answers, 10), '}'), v)
}

// readLine has what is in the next line arrive.
func (c *stream) readLine() error {
	var line []byte
	err := bufio.ErrBufferFull
	for err == bufio.ErrBufferFull && len(line) <= c.Limit {
		var part []byte
		if part, err = c.In.ReadSlice('\n'); !c.skipping {
			line = append(line, part...)
		}
	}
	c.skipping = err == bufio.ErrBufferFull
	switch {
	case len(line) > c.Limit:
		line = nil
	case err != nil && (err != io.EOF || len(line) == 0):
		return err
	case len(bytes.TrimSpace(line)) == 0:
		return nil
	}
	select {
	case <-c.rpc.DisconnectNotify():
		return jsonrpc2.ErrClosed
	default:
	}
	messages, err := c.Read(line)
	c.forgetting.Lock()
	defer c.forgetting.Unlock()
	c.arrived, c.forgotten = append(c.forgotten, messages...), nil
	return err
}

// arrive puts a response itself in the place of what the library has seen of it.
func (c *stream) arrive(call *jsonrpc2.Request, response *jsonrpc2.Response) {
	if text := c.now.Text; response != nil && call != nil {
		response.Result = &text
	} else if response != nil {
		c.wrong = c.now.Handle()
	}
}

// Handle implements [jsonrpc2.Handler].
func (c *stream) Handle(context.Context, *jsonrpc2.Conn, *jsonrpc2.Request) { c.wrong = c.now.Handle() }

// WriteObject implements [jsonrpc2.ObjectStream]. What there is to write are requests, which Call writes.
func (c *stream) WriteObject(any) error { return nil }

// Close implements [jsonrpc2.ObjectStream].
func (c *stream) Close() error { return nil }
