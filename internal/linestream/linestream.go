// Package linestream has JSON-RPC connections with one message per line, as MCP has them on standard
// input and output: see [Conn].
package linestream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"strconv"
	"sync"

	"github.com/sourcegraph/jsonrpc2"
)

// Conn is a connection of package jsonrpc2, which has each message handled, finds the call that a
// response is for, and closes. Fill in the fields, call Start once, and do not copy it.
//
// The library is shown of a message only what it does that by. Decoding all of it, it would write
// parameters anew and refuse ids that MCP allows; so messages are checked before, and what is written
// is written as it is.
type Conn struct {
	// In is read and Out written. Both stay open.
	In  *bufio.Reader
	Out io.Writer
	// Limit is how long a line may be, in bytes, with its end.
	Limit int
	// Read returns the messages in a line that is not blank. Only the last line may lack its end.
	// The messages may keep the line. TooLong is called in place of Read for a line beyond the limit.
	// An error of either ends the connection.
	Read    func(line []byte) ([]Message, error)
	TooLong func() error
	// Ended, unless it is nil, is called with what ended the reading, before calls fail for it.
	Ended func(error)

	rpc *jsonrpc2.Conn
	// arrived are messages that were read and not handled, now is the one that is handled, and wrong
	// is why no more is read. The goroutine that reads has them.
	arrived []Message
	now     Message
	wrong   error

	writing sync.Mutex
	request []byte // the request that the library is about to write

	forgetting sync.Mutex // guards forgotten
	forgotten  []Message  // stand in for the responses to calls
}

// Message is a message that was read.
type Message struct {
	// Answers is the id of the call that it is the response to; 0 if it is none. Text is what the
	// call then returns.
	Answers uint64
	Text    json.RawMessage
	// Handle has the message handled, unless a call has waited for it. The next message is not
	// looked at before it returns. Its error ends the connection.
	Handle func() error
}

// Start begins to read. The connection ends with In or ctx.
func (c *Conn) Start(ctx context.Context) {
	jsonrpc2.NewConn(ctx, (*stream)(c), (*stream)(c), jsonrpc2.SetLogger(log.New(io.Discard, "", 0)),
		func(rpc *jsonrpc2.Conn) { c.rpc = rpc }, // before anything is read
		jsonrpc2.OnRecv((*stream)(c).arrive), jsonrpc2.OnSend((*stream)(c).depart))
}

// Done is closed when the connection has ended. What is due can still be written.
func (c *Conn) Done() <-chan struct{} { return c.rpc.DisconnectNotify() }

// Write writes a line, which comes without its end.
func (c *Conn) Write(line []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.Out.Write(append(line, '\n'))
	return err
}

// Call writes a request with that id, which is not 0. wait returns the response, or fails when ctx or
// the connection ends. Then a response may still come, which is handled only after Forget.
func (c *Conn) Call(ctx context.Context, id uint64, request []byte) (wait func() (json.RawMessage, error), err error) {
	called, err := c.rpc.DispatchCall(ctx, "", nil, jsonrpc2.PickID(jsonrpc2.ID{Num: id}), jsonrpc2.ExtraField("", request))
	return func() (response json.RawMessage, err error) {
		err = called.Wait(ctx, &response)
		return response, err
	}, err
}

// Forget frees what the library keeps of a call until there is a response: it is given one.
func (c *Conn) Forget(id uint64) {
	c.forgetting.Lock()
	defer c.forgetting.Unlock()
	c.forgotten = append(c.forgotten, Message{Answers: id, Handle: func() error { return nil }})
}

// stream is a Conn as package jsonrpc2 sees it.
type stream Conn

// ReadObject implements [jsonrpc2.ObjectStream].
func (c *stream) ReadObject(v any) error {
	c.now = Message{}
	for len(c.arrived) == 0 && c.wrong == nil {
		c.wrong = c.readLine()
	}
	if c.wrong != nil {
		if c.Ended != nil {
			c.Ended(c.wrong)
		}
		return c.wrong
	}
	c.now, c.arrived = c.arrived[0], c.arrived[1:]
	if c.now.Answers == 0 {
		return json.Unmarshal([]byte(`{"method":""}`), v)
	}
	return json.Unmarshal(append(strconv.AppendUint([]byte(`{"result":0,"id":`), c.now.Answers, 10), '}'), v)
}

// readLine has the messages of the next line arrive, if there are any.
func (c *stream) readLine() error {
	var line []byte
	err := bufio.ErrBufferFull
	for long := false; errors.Is(err, bufio.ErrBufferFull); {
		var part []byte
		if part, err = c.In.ReadSlice('\n'); long {
			continue
		}
		if line = append(line, part...); len(line) > c.Limit {
			if err := c.TooLong(); err != nil {
				return err
			}
			long, line = true, nil
		}
	}
	switch {
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

// arrive puts the message itself in the place of what the library was shown.
func (c *stream) arrive(call *jsonrpc2.Request, response *jsonrpc2.Response) {
	switch text := c.now.Text; {
	case response == nil: // Handle is called
	case call == nil:
		c.wrong = c.now.Handle()
	default:
		response.Result = &text
	}
}

// Handle implements [jsonrpc2.Handler].
func (c *stream) Handle(context.Context, *jsonrpc2.Conn, *jsonrpc2.Request) { c.wrong = c.now.Handle() }

func (c *stream) depart(request *jsonrpc2.Request, _ *jsonrpc2.Response) {
	c.request = request.ExtraFields[0].Value.([]byte)
	request.ExtraFields = nil // the library keeps it until it is answered
}

// WriteObject implements [jsonrpc2.ObjectStream].
func (c *stream) WriteObject(any) error {
	defer func() { c.request = nil }()
	return (*Conn)(c).Write(c.request)
}

// Close implements [jsonrpc2.ObjectStream].
func (c *stream) Close() error { return nil }
