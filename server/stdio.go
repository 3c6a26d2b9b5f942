package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/linestream"
	"github.com/mcpsaga/mcpsaga/internal/tally"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// Limits of one stdio connection.
const (
	// maxInFlight bounds the requests that are worked on; reading continues when one is
	// answered.
	maxInFlight = 64
	// maxOpen and maxOpenBytes bound those that are open: worked on, or waiting for the
	// client's answers.
	maxOpen      = 1024
	maxOpenBytes = 16 << 20

	// unreadAfter is how often it is looked whether anybody still reads the output: a
	// server that has nothing to write would not notice.
	unreadAfter = time.Second
	// closeGrace is how long the end waits for what is undone, and goodbyeTime for a
	// client that does not read what is said in the end.
	closeGrace  = 5 * time.Second
	goodbyeTime = time.Second
)

// ServeStdio serves one client over a pair of streams, one JSON message per
// line (MCP, basic/transports/stdio), until in ends or ctx does, or out cannot be
// written to any more, which is the error that is returned; on Unix also if there is
// nothing to write, and out is a pipe or socket that is not read. A line that is
// not a message is answered with an error and skipped. After the end of in,
// requests under way are answered before ServeStdio returns; after the end of ctx or
// of out it waits a few seconds for what they undo.
//
// A process that writes to a standard output that is no longer read is ended by
// the signal SIGPIPE, in the middle of what it undoes, unless its main function has
// called signal.Ignore(syscall.SIGPIPE).
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	s.keeper.begin()
	serving, cancel := context.WithCancelCause(durable.Patient(context.WithoutCancel(ctx)))
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(dialect.ErrStopping) })()
	c := &lineConn{
		server: s, ctx: serving, slots: make(chan struct{}, maxInFlight), closing: make(chan struct{}),
		connections: make(map[dialect.Dialect]dialect.Connection), calls: make(map[*lineCall]struct{}),
	}
	c.lines = linestream.Conn{
		In: bufio.NewReaderSize(in, 64<<10), Out: out, Limit: int(s.opts.MaxBody), Read: c.read,
		Ended: func(error) {
			if c.lines.Failed() != nil { // no client hears the answers
				cancel(dialect.ErrSessionEnded)
			}
		},
	}
	for _, d := range s.sessions {
		c.connections[d] = d.Connect(c.notify)
	}
	ended := c.lines.Start(serving)
	defer watchUnread(out, unreadAfter, c.lines.Fail)()
	<-ended
	_ = c.due.Wait(serving)
	c.close()
	s.keeper.settled(closeGrace)
	return c.lines.Failed()
}

// lineConn is a connection with one message per line. One goroutine reads; each request
// is served by one of its own, which writes the response.
type lineConn struct {
	lines  linestream.Conn
	server *Server
	ctx    context.Context
	// connections are what dialects remember of this one, those that do.
	connections map[dialect.Dialect]dialect.Connection

	// slots has an element for each request that is worked on.
	slots chan struct{}
	// closing is closed when what is kept open is to end.
	closing chan struct{}
	// due are the requests that are not answered yet, working those of them whose
	// response is not known yet, and open those that are kept open.
	due, working, open tally.Tally

	// asked is how many requests of ours there were, which is the id of the last.
	asked atomic.Uint64

	mu    sync.Mutex // guards what follows
	calls map[*lineCall]struct{}
	// placed are those of calls that are not kept open, and held their bytes.
	placed, held int
}

// read returns what is in a line: a message, or a batch if the client may send any.
func (c *lineConn) read(line []byte) ([]linestream.Message, error) {
	if line == nil {
		return c.arrived(nil, dialect.Batched{Error: wire.NewError(wire.CodeInvalidRequest, "the message is too large")}), nil
	}
	for _, sessions := range c.server.sessions {
		if jsontext.Value(line).Kind() == '[' && c.connections[sessions].Batches() {
			batch, rerr := c.server.parseBatch(sessions, line)
			if rerr != nil {
				return c.arrived(nil, dialect.Batched{Error: rerr}), nil
			}
			return c.arrived(&lineBatch{due: len(batch)}, batch...), nil
		}
	}
	m, rerr := wire.Parse(line)
	return c.arrived(nil, dialect.Batched{Message: m, Error: rerr}), nil
}

// arrived returns what the connection has to know of messages.
func (c *lineConn) arrived(b *lineBatch, messages ...dialect.Batched) (all []linestream.Message) {
	for _, one := range messages {
		m, rerr := &one.Message, one.Error
		arrived := linestream.Message{Text: json.RawMessage(m.Reply), Handle: func() error { c.handle(m, rerr, b); return nil }}
		if m.Reply != nil && rerr == nil {
			c.reply(b, nil)
			arrived.Answers, _ = strconv.ParseUint(string(m.ID), 10, 64) // 0 if it is none of ours
		}
		all = append(all, arrived)
	}
	return all
}

// handle handles a message, or says why it is none.
func (c *lineConn) handle(m *wire.Message, rerr *wire.Error, b *lineBatch) {
	switch {
	case rerr != nil:
		c.reply(b, wire.AppendResponse(nil, m.ID, nil, rerr))
	case m.Reply != nil: // no call waits for it
		c.tellGuest(m)
	case m.ID == nil:
		c.reply(b, nil)
		if id := dialect.Cancelled(m); id != nil {
			c.cancelled(id)
			c.tellGuest(m)
		}
		if known := c.connections[c.server.match(m, nil)]; known != nil {
			known.Arrive(m)
		}
	default:
		c.begin(m, b)
	}
}

// begin has a request served, waiting while too many are worked on. Those that wait
// for the client do not count: its answers come on the lines that are not read
// meanwhile.
func (c *lineConn) begin(m *wire.Message, b *lineBatch) {
	c.mu.Lock()
	crowded := c.placed >= maxOpen || c.placed > 0 && c.held+m.Size > maxOpenBytes
	c.mu.Unlock()
	if crowded {
		c.reply(b, wire.AppendResponse(nil, m.ID, nil, wire.NewError(wire.CodeInvalidRequest, "too many requests are under way")))
		return
	}
	select {
	case c.slots <- struct{}{}:
	case <-c.ctx.Done():
		return
	}
	d := c.server.match(m, nil)
	ctx, cancel := context.WithCancelCause(c.ctx)
	call := &lineCall{conn: c, batch: b, cancel: cancel, due: c.due.Begin(), working: c.working.Begin()}
	call.Exchange = dialect.Exchange{Message: m, Way: call, Dialect: d}
	var serve dialect.Handler
	if known := c.connections[d]; known != nil {
		serve = known.Arrive(m)
	} else if d == nil {
		serve = func(context.Context, *dialect.Exchange) (json.RawMessage, *wire.Error) { return nil, notServed() }
	} else {
		c.join(&call.Exchange)
	}
	c.mu.Lock()
	c.calls[call] = struct{}{}
	c.placed++
	c.held += m.Size
	c.mu.Unlock()
	go func() {
		result, rerr := c.server.host.Dispatch(ctx, &call.Exchange, serve)
		call.finish(wire.AppendResponse(nil, m.ID, result, rerr))
	}()
}

// cancelled ends the request with that id. One that is unknown or finished is ignored
// (MCP, basic/patterns/cancellation).
func (c *lineConn) cancelled(id []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for call := range c.calls {
		if bytes.Equal(call.Message.ID, id) {
			call.silent.Store(true) // so the id is free again
			call.cancel(dialect.ErrCancelled)
		}
	}
}

// guestTime bounds how long no line is read because of what a guest does with one. It is done
// with that when the next line is read, which may be about the same.
const guestTime = 5 * time.Second

// tellGuest tells the guest of an answer or a cancellation. What is none of its own is ignored.
func (c *lineConn) tellGuest(m *wire.Message) {
	ctx, cancel := context.WithTimeout(c.ctx, guestTime)
	defer cancel()
	x := &dialect.Exchange{Message: m}
	c.join(x)
	rerr := c.server.host.GuestCancelled(ctx, x)
	if m.Reply != nil {
		_, rerr = c.server.host.GuestAnswered(ctx, x)
	}
	if rerr != nil {
		c.server.log.InfoContext(ctx, "answer or cancellation refused", "reason", rerr)
	}
}

// join says who the client is to a dialect that does not know.
func (c *lineConn) join(x *dialect.Exchange) {
	for _, sessions := range c.server.sessions {
		c.connections[sessions].Join(x)
	}
}

// close ends what is open when the connection has ended.
func (c *lineConn) close() {
	close(c.closing)
	wait(&c.open, goodbyeTime)
	for _, known := range c.connections {
		known.Close()
	}
	wait(&c.working, closeGrace)
	wait(&c.due, goodbyeTime) // what is known is written, unless it is not read
}

func wait(t *tally.Tally, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = t.Wait(ctx)
}

// reply writes the response to a message: with those to the rest of its batch, if
// it came in one. Nil is no response.
func (c *lineConn) reply(b *lineBatch, response []byte) {
	if b != nil {
		response = b.add(response)
	}
	if response != nil {
		_ = c.lines.Write(response)
	}
}

func (c *lineConn) notify(method string, params json.RawMessage) {
	_ = c.lines.Write(wire.AppendCall(nil, 0, method, params))
}

// lineBatch collects the responses to a batch: they leave as one line.
type lineBatch struct {
	mu        sync.Mutex
	due       int
	responses [][]byte
}

// add takes the response to one of the batch's messages, nil if it has none, and
// returns the line to write, or nil if there is none yet.
func (b *lineBatch) add(response []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if response != nil {
		b.responses = append(b.responses, response)
	}
	if b.due--; b.due > 0 || b.responses == nil {
		return nil
	}
	return append(append([]byte("["), bytes.Join(b.responses, []byte(","))...), ']')
}
