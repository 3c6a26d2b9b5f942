// Package linestream has JSON-RPC connections with one message per line, as MCP has them on standard
// input and output: see [Conn].
package linestream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"sync"
	"sync/atomic"
)

// Conn is a connection that has messages handled, and finds the call that a response is for. Fill in
// the fields and call Start before anything else; do not copy it.
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

	ended context.Context
	end   context.CancelFunc

	writing sync.Mutex
	failed  atomic.Pointer[error] // asked for while a write hangs

	mu    sync.Mutex
	calls map[uint64]chan json.RawMessage // which get the responses, by the ids of their requests
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
	c.ended, c.end = context.WithCancel(ctx)
	c.calls = make(map[uint64]chan json.RawMessage)
	go func() {
		defer c.end()
		c.Ended(c.read())
	}()
	return c.ended.Done()
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
	if c.ended.Err() != nil {
		return nil, io.ErrClosedPipe
	}
	answer := make(chan json.RawMessage, 1)
	c.mu.Lock()
	c.calls[id] = answer
	c.mu.Unlock()
	return func() (json.RawMessage, error) {
		select {
		case response := <-answer:
			return response, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ended.Done():
		}
		select {
		case response := <-answer: // it was the last
			return response, nil
		default:
			return nil, io.ErrClosedPipe
		}
	}, c.Write(request)
}

// Forget frees what is kept of a call.
func (c *Conn) Forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
}

// read has messages handled, and returns why there are no more.
func (c *Conn) read() error {
	for skipping := false; ; {
		var line []byte
		err := bufio.ErrBufferFull
		for err == bufio.ErrBufferFull && len(line) <= c.Limit {
			var part []byte
			if part, err = c.In.ReadSlice('\n'); !skipping {
				line = append(line, part...)
			}
		}
		skipping = err == bufio.ErrBufferFull // the rest of a line that is too long
		switch {
		case len(line) > c.Limit:
			line = nil
		case err != nil && (err != io.EOF || len(line) == 0):
			return err
		case len(bytes.TrimSpace(line)) == 0:
			continue
		}
		if c.ended.Err() != nil {
			return io.ErrClosedPipe
		}
		messages, err := c.Read(line)
		for _, m := range messages {
			if err == nil && !c.answers(m) {
				err = m.Handle()
			}
		}
		if err != nil {
			return err
		}
	}
}

// answers reports whether a call has waited for the message, which it gets.
func (c *Conn) answers(m Message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := c.calls[m.Answers]
	if answer == nil {
		return false
	}
	delete(c.calls, m.Answers)
	answer <- m.Text
	return true
}
