package legacy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// asked is a request of this package on a connection of the SDK.
type asked struct {
	id     string
	answer chan *jsonrpc.Response
	// resumable: the SDK comes back for the rest of the stream that it is answered on.
	resumable bool
}

type askedKey struct{}

// ask sends a request that the SDK does not know. Of its errors, s.failed makes the client's.
func (s *session) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.lastID++ // the SDK has numbers
	a := &asked{id: fmt.Sprint("saga-", s.lastID), answer: make(chan *jsonrpc.Response, 1)}
	s.asked[a.id] = a
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.asked, a.id)
		s.mu.Unlock()
	}()
	// Whatever ends the wait ends the stream.
	ctx, stop := context.WithCancel(context.WithValue(ctx, askedKey{}, a))
	defer stop()
	id, err := jsonrpc.MakeID(a.id)
	if err == nil {
		err = s.conn.Write(ctx, &jsonrpc.Request{ID: id, Method: method, Params: raw})
	}
	if err != nil {
		return nil, err
	}
	select {
	case r := <-a.answer:
		return r.Result, r.Error
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.over:
		return nil, mcp.ErrConnectionClosed
	}
}

// give passes a response on, if it is one to the request.
func (a *asked) give(m jsonrpc.Message) bool {
	r, is := m.(*jsonrpc.Response)
	if !is || r.ID.Raw() != a.id {
		return false
	}
	select {
	case a.answer <- r:
	default: // it was answered before
	}
	return true
}

// shared is a transport whose connection the session uses beside the SDK. The connections of HTTP
// cannot be wrapped, as the SDK finds methods of its own in them; see [overheard].
type shared struct {
	mcp.Transport
	s *session
}

func (t shared) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err == nil && t.s.process != nil {
		c = sharedLines{c, t.s}
	}
	t.s.conn = c
	return c, err
}

type sharedLines struct {
	mcp.Connection
	s *session
}

func (c sharedLines) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, is := m.(*jsonrpc.Response); err == nil && is {
		c.s.mu.Lock()
		id, _ := r.ID.Raw().(string)
		a := c.s.asked[id]
		c.s.mu.Unlock()
		if a != nil {
			a.give(r) // the SDK passes over what it has not asked
		}
	}
	return m, err
}

// overheard is the body of a response that the SDK reads, and in which the answer to a request is
// looked for that the SDK passes over.
type overheard struct {
	io.ReadCloser
	a      *asked
	events bool
	// read is what has not been looked at; up to seen there is no end of a line in it. event is
	// the data of the event that has begun.
	read, event []byte
	seen        int
}

// Read implements [io.Reader].
func (o *overheard) Read(p []byte) (int, error) {
	n, err := o.ReadCloser.Read(p)
	o.read = append(o.read, p[:n]...)
	for o.events {
		i := bytes.IndexByte(o.read[o.seen:], '\n')
		if i < 0 {
			o.seen = len(o.read)
			break
		}
		o.line(bytes.TrimRight(o.read[:o.seen+i], "\r"))
		o.read, o.seen = o.read[o.seen+i+1:], 0
	}
	if err != nil {
		if !o.events {
			o.event, o.read = o.read, nil
		}
		o.line(nil)
		o.end()
	}
	return n, err
}

// line takes a line of a stream of events; an empty one ends an event.
func (o *overheard) line(line []byte) {
	switch name, value, _ := bytes.Cut(line, []byte(":")); {
	case len(line) == 0:
		if m, err := jsonrpc.DecodeMessage(o.event); err == nil {
			o.a.give(m)
		}
		o.event = nil
	case string(name) == "id":
		o.a.resumable = true
	case string(name) == "data":
		o.event = append(append(o.event, value...), '\n')
	}
}

// Close implements [io.Closer].
func (o *overheard) Close() error {
	o.end()
	return o.ReadCloser.Close()
}

// end has the request fail that gets no answer any more.
func (o *overheard) end() {
	if id, err := jsonrpc.MakeID(o.a.id); err == nil && !o.a.resumable {
		o.a.give(&jsonrpc.Response{ID: id, Error: io.ErrUnexpectedEOF})
	}
}
