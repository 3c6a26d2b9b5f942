package server

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/inturn"
	"github.com/mcpsaga/mcpsaga/internal/linestream"
	"github.com/mcpsaga/mcpsaga/internal/tally"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
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

	// closeGrace is how long the end waits for what is undone, and for a client that does not read what is
	// said in the end.
	closeGrace = 5 * time.Second
)

// ServeStdio serves one client over a pair of streams, one JSON message per
// line (MCP, basic/transports/stdio), until in ends or ctx does, or out cannot be
// written to any more, which is the error that is returned. A line that is
// not a message is answered with an error and skipped. After the end of in,
// turns under way end, and requests are answered, before ServeStdio returns; none waits for
// an answer, an event or a time any more. After the end of ctx or
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
	closing, hangUp := context.WithCancelCause(context.Background())
	defer hangUp(nil)
	defer context.AfterFunc(s.host.Draining, func() { hangUp(context.Cause(s.host.Draining)) })()
	c := &lineConn{server: s, ctx: serving, slots: make(chan struct{}, maxInFlight), closing: closing, calls: make(map[*lineCall]struct{})}
	c.lines = linestream.Conn{
		In: bufio.NewReaderSize(in, 64<<10), Out: out, Limit: int(s.opts.MaxBody), Read: c.read,
		Ended: func(error) {
			if c.lines.Failed() != nil { // no client hears the answers
				cancel(dialect.ErrSessionEnded)
			}
		},
	}
	c.session = s.sessions.Connect(closing, c.notify)
	<-c.lines.Start(serving)
	hangUp(dialect.ErrSessionEnded)
	_ = c.due.Wait(serving)
	closed := c.due.Begin()
	go func() {
		defer closed()
		c.session.Close() // it waits for what it is just saying
	}()
	grace, end := context.WithTimeout(context.Background(), closeGrace)
	defer end()
	_ = c.due.Wait(grace) // what is known is written, unless it is not read
	settling, enough := context.WithTimeout(context.Background(), closeGrace)
	defer enough()
	s.keeper.settled(settling)
	return c.lines.Failed()
}

// lineConn is a connection with one message per line. One goroutine reads; each request
// is served by one of its own, which writes the response.
type lineConn struct {
	lines   linestream.Conn
	server  *Server
	ctx     context.Context
	session dialect.Connection

	// slots has an element for each request that is worked on.
	slots chan struct{}
	// closing is [dialect.Exchange].Closing of all messages.
	closing context.Context
	// due are the requests that are not answered yet.
	due tally.Tally

	// asked is how many requests of ours there were, which is the id of the last.
	asked atomic.Uint64

	mu    sync.Mutex // guards what follows
	calls map[*lineCall]struct{}
	// placed are those of calls that are not kept open, and held their bytes.
	placed, held int
}

// read returns what is in a line: a message, or a batch if the client may send any.
func (c *lineConn) read(line []byte) (arrived []linestream.Message, err error) {
	messages, b := make([]dialect.Batched, 1), (*lineBatch)(nil)
	switch one := &messages[0]; {
	case line == nil:
		one.Error = wire.NewError(wire.CodeInvalidRequest, "the message is too large")
	case jsontext.Value(line).Kind() == '[' && c.session.Batches():
		batch, rerr := c.server.parseBatch(line)
		if one.Error = rerr; rerr == nil {
			messages, b = batch, &lineBatch{due: len(batch)}
		}
	default:
		one.Message, one.Error = wire.Parse(line)
	}
	for i := range messages {
		m, rerr := &messages[i].Message, messages[i].Error
		said := linestream.Message{Text: json.RawMessage(m.Reply), Handle: func() error { c.handle(m, rerr, b); return nil }}
		if m.Reply != nil && rerr == nil {
			c.reply(b, nil)
			said.Answers, _ = strconv.ParseUint(string(m.ID), 10, 64) // 0 if it is none of ours
		}
		arrived = append(arrived, said)
	}
	return arrived, nil
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
		if c.server.match(m, nil) == dialect.Dialect(c.server.sessions) {
			c.session.Arrive(m)
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
	ctx, cancel := context.WithCancelCause(c.ctx)
	x := &lineCall{conn: c, batch: b, cancel: cancel, due: c.due.Begin()}
	x.Exchange = dialect.Exchange{Message: m, Way: x, Closing: c.closing, Dialect: c.server.match(m, nil)}
	var serve dialect.Handler
	switch x.Dialect {
	case c.server.sessions:
		serve = c.session.Arrive(m)
	case nil:
		serve = func(context.Context, *dialect.Exchange) (json.RawMessage, *wire.Error) { return nil, notServed() }
	default:
		c.session.Join(&x.Exchange)
	}
	c.mu.Lock()
	c.calls[x] = struct{}{}
	c.placed++
	c.held += m.Size
	c.mu.Unlock()
	go func() {
		result, rerr := c.server.host.Dispatch(ctx, &x.Exchange, serve)
		x.finish(wire.AppendResponse(nil, m.ID, result, rerr))
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
	c.session.Join(x)
	rerr := c.server.host.GuestCancelled(ctx, x)
	if m.Reply != nil {
		_, rerr = c.server.host.GuestAnswered(ctx, x)
	}
	if rerr != nil {
		c.server.log.InfoContext(ctx, "answer or cancellation refused", "reason", rerr)
	}
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

// parseBatch parses the messages of a batch, all of which must be of the dialect with sessions.
func (s *Server) parseBatch(raw []byte) ([]dialect.Batched, *wire.Error) {
	list, rerr := wire.SplitBatch(raw)
	if rerr != nil {
		return nil, rerr
	}
	batch := make([]dialect.Batched, len(list))
	for i, raw := range list {
		b := &batch[i]
		b.Message, b.Error = wire.Parse(raw)
		if b.Error == nil && (s.match(&b.Message, nil) != dialect.Dialect(s.sessions) || !s.sessions.Batchable(&b.Message)) {
			b.Error = wire.NewError(wire.CodeInvalidRequest, "this cannot be part of a batch")
		}
	}
	return batch, nil
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

// lineCall is a request under way on a lineConn, and the way back to its client.
type lineCall struct {
	dialect.Exchange
	conn   *lineConn
	cancel context.CancelCauseFunc
	batch  *lineBatch // what the request came in, or nil
	// due ends what the connection counts. kept: the request is kept open.
	due  func()
	kept bool

	// silent: the client has cancelled the request and expects no answer. resting is how much of it
	// waits for the client, or for a task.
	silent  atomic.Bool
	resting atomic.Int32
}

func (x *lineCall) finish(response []byte) {
	c := x.conn
	x.cancel(nil)
	if x.silent.Load() {
		response = nil
	}
	c.reply(x.batch, response)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, x)
	if !x.kept {
		x.leavePlace()
	}
	x.due()
}

// leavePlace frees the request's place for others. The connection is locked.
func (x *lineCall) leavePlace() {
	x.conn.placed--
	x.conn.held -= x.Message.Size
	<-x.conn.slots
}

func (x *lineCall) Notify(method string, params json.RawMessage) {
	if !x.silent.Load() {
		x.conn.notify(method, params)
	}
}

func (x *lineCall) Call(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	c := x.conn
	id := c.asked.Add(1)
	defer x.Rest()()
	why := func() error { return cmp.Or(context.Cause(ctx), context.Cause(c.ctx), dialect.ErrSessionEnded) }
	wait, err := c.lines.Call(ctx, id, wire.AppendCall(nil, id, method, params))
	inturn.Take(ctx)
	if err != nil {
		return steps.Answer{}, why()
	}
	response, err := wait()
	if err != nil {
		c.lines.Forget(id)
		err = why()
		// Not Notify: the client hears of it even if it has cancelled the call.
		c.notify(dialect.Cancellation(strconv.AppendUint(nil, id, 10), err))
		return steps.Answer{}, err
	}
	_, answer := dialect.ReadAnswer(jsontext.Value(response))
	return answer, nil
}

// Rest implements [dialect.Rester]: while it waits, the request leaves its place to another.
func (x *lineCall) Rest() (back func()) {
	slots := x.conn.slots
	if x.resting.Add(1) == 1 {
		<-slots
	}
	return func() {
		if x.resting.Add(-1) == 0 {
			slots <- struct{}{}
		}
	}
}

// Post implements [dialect.Poster].
func (x *lineCall) Post(id uint64, method string, params json.RawMessage) bool {
	return x.conn.lines.Write(wire.AppendCall(nil, id, method, params)) == nil
}

// Leave implements [dialect.Leaver].
func (x *lineCall) Leave() {
	x.silent.Store(true)
	x.cancel(dialect.ErrLeft)
}

// Hangup implements [dialect.Way]: the connection is the session.
func (*lineCall) Hangup(time.Duration) {}

// KeepOpen implements [dialect.Way]: a request that never ends must not take the place
// of one that does, and the end of the connection does not wait for its answer.
func (x *lineCall) KeepOpen() *wire.Error {
	c := x.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.calls {
		if other.kept && !other.silent.Load() && bytes.Equal(other.Message.ID, x.Message.ID) {
			return wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, "a request with this id is still open")
		}
	}
	x.kept = true
	x.leavePlace()
	return nil
}
