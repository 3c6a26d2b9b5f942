package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// lineStream is a jsonrpc2.ObjectStream with one message per line. It does what
// the library does not: a line that is no message is answered and skipped, ids
// of every allowed form come back unchanged, parameters keep their bytes, a
// line has a limit, a request can be cancelled, and the end of the input waits
// for the answers still due.
//
// It gives the library a number in place of each request's id and keeps the
// rest aside; the handler takes it from there with the number.
type lineStream struct {
	ctx   context.Context
	in    *bufio.Reader
	limit int
	slots chan struct{}
	conn  *stdioConn

	// batch is the batch being read, and queue what is left of it.
	batch *lineBatch
	queue []jsontext.Value

	// working counts the requests whose response is not known yet.
	working atomic.Int64

	// failed is what made writing fail. It can be asked for while a write hangs. gone
	// is called then: nobody hears the answers, so nothing more is read.
	failed atomic.Pointer[error]
	gone   func()

	mu    sync.Mutex // guards what follows and serialises writing
	out   io.Writer
	last  uint64
	calls map[uint64]*stdioCall
	held  int       // bytes of calls
	idle  sync.Cond // signalled when calls becomes empty
}

// stdioCall is a request under way.
type stdioCall struct {
	wire.Message
	number uint64
	era    era
	ctx    context.Context
	cancel context.CancelFunc
	// silent: the client cancelled the request and expects no answer.
	silent bool
	// batch is what the request came in, or nil.
	batch *lineBatch

	// For the handshake's dialect: the client as the request found it, and the
	// response if it is known already.
	peer  *peer
	ready []byte
}

func newLineStream(ctx context.Context, in io.Reader, out io.Writer, limit int) *lineStream {
	s := &lineStream{
		ctx: ctx, in: bufio.NewReaderSize(in, 64<<10), limit: limit, out: out,
		slots: make(chan struct{}, maxInFlight), calls: make(map[uint64]*stdioCall),
	}
	s.idle.L = &s.mu
	return s
}

// ReadObject implements jsonrpc2.ObjectStream.
func (s *lineStream) ReadObject(v any) error {
	for {
		line, err := s.next()
		if errors.Is(err, errLongLine) {
			s.write(wire.AppendResponse(nil, nil, nil, wire.NewError(wire.CodeInvalidRequest, "the message is too large")))
			continue
		}
		if err != nil {
			s.conn.handshake.ended()
			s.drain()
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if s.batch == nil && wire.IsBatch(line) && s.conn.handshake.batches() {
			s.split(line)
			continue
		}
		m, fail := s.parse(line)
		switch {
		case fail != nil:
			s.reply(s.batch, wire.AppendResponse(nil, m.ID, nil, fail))
		case m.Reply != nil:
			// Ids of our own requests are the library's. One that it cannot read
			// is not an answer to any of them.
			s.reply(s.batch, nil)
			if json.Unmarshal(line, v) == nil {
				return nil
			}
		case m.Notification():
			s.reply(s.batch, nil)
			s.conn.notified(&m)
		default:
			number, err := s.begin(m)
			if errors.Is(err, errCrowded) {
				s.reply(s.batch, wire.AppendResponse(nil, m.ID, nil, wire.NewError(wire.CodeInvalidRequest, err.Error())))
				continue
			}
			if err != nil {
				return err
			}
			request := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"request"}`, number)
			return json.Unmarshal([]byte(request), v)
		}
	}
}

// next returns the next message: of the batch that is being read, or the next line.
func (s *lineStream) next() ([]byte, error) {
	if len(s.queue) == 0 {
		s.batch = nil
		return s.readLine()
	}
	message := s.queue[0]
	s.queue = s.queue[1:]
	return message, nil
}

// split begins to read a batch.
func (s *lineStream) split(line []byte) {
	list, fail := wire.SplitBatch(line)
	if fail != nil {
		s.write(wire.AppendResponse(nil, nil, nil, fail))
		return
	}
	s.batch, s.queue = &lineBatch{due: len(list)}, list
}

func (s *lineStream) parse(line []byte) (wire.Message, *wire.Error) {
	if s.batch != nil {
		return parseBatched(line)
	}
	return wire.Parse(line)
}

// reply writes the response to a message: with those to the rest of its batch, if
// it came in one. Nil is no response.
func (s *lineStream) reply(b *lineBatch, response []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b != nil {
		response = b.add(response)
	}
	if response != nil {
		s.writeLocked(response)
	}
}

var errLongLine = errors.New("the line is too long")

// readLine returns the next line. One that is too long is skipped to its end.
func (s *lineStream) readLine() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := s.in.ReadSlice('\n')
		if !long {
			line = append(line, part...)
			if long = len(line) > s.limit; long {
				line = nil
			}
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case long && err == nil:
			return nil, errLongLine
		case err == io.EOF && len(line) > 0:
			return line, nil // the last line may lack its end
		default:
			return line, err
		}
	}
}

// Limits of the requests that one stdio connection has open, worked on or waiting for
// the client's answers, and of their bytes.
const (
	maxOpen      = 1024
	maxOpenBytes = 16 << 20
)

var errCrowded = errors.New("too many requests are under way")

// begin registers a request, waiting while too many are worked on. Those that wait
// for the client do not count: its answers come on the lines that are not read
// meanwhile.
func (s *lineStream) begin(m wire.Message) (uint64, error) {
	s.mu.Lock()
	crowded := len(s.calls) >= maxOpen || len(s.calls) > 0 && s.held+m.Size > maxOpenBytes
	s.mu.Unlock()
	if crowded {
		return 0, errCrowded
	}
	select {
	case s.slots <- struct{}{}:
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
	call := &stdioCall{Message: m, batch: s.batch}
	call.ctx, call.cancel = context.WithCancel(s.ctx)
	s.conn.arrived(call)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working.Add(1)
	s.last++
	call.number = s.last
	s.calls[s.last] = call
	s.held += m.Size
	return s.last, nil
}

func (s *lineStream) take(number uint64) *stdioCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[number]
}

// notify writes a message that belongs to a request, unless the client has
// cancelled that.
func (s *lineStream) notify(c *stdioCall, message []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.silent {
		s.writeLocked(message)
	}
}

// finish writes a request's response and forgets the request.
func (s *lineStream) finish(c *stdioCall, response []byte) {
	c.cancel()
	s.working.Add(-1)
	s.mu.Lock()
	silent := c.silent
	s.mu.Unlock()
	if silent {
		response = nil
	}
	s.reply(c.batch, response)
	s.mu.Lock()
	delete(s.calls, c.number)
	s.held -= c.Size
	if len(s.calls) == 0 {
		s.idle.Broadcast()
	}
	s.mu.Unlock()
	<-s.slots
}

// cancelled ends the request that a notification names. One that is unknown or
// finished is ignored (MCP, basic/patterns/cancellation).
func (s *lineStream) cancelled(params []byte) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if wire.DecodeParams(params, &p) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if bytes.Equal(c.ID, p.RequestID) {
			c.silent = true
			c.cancel()
		}
	}
}

// drain waits until all requests are answered.
func (s *lineStream) drain() {
	stop := context.AfterFunc(s.ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.idle.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.calls) > 0 && s.ctx.Err() == nil {
		s.idle.Wait()
	}
}

// settle waits until no request is worked on any more, but not longer than limit. It
// does not wait for what is being written: perhaps nobody reads.
func (s *lineStream) settle(limit time.Duration) {
	for end := time.Now().Add(limit); s.working.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

func (s *lineStream) write(message []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeLocked(message)
}

func (s *lineStream) writeLocked(message []byte) {
	if s.failed.Load() != nil {
		return
	}
	if _, err := s.out.Write(append(message, '\n')); err != nil {
		s.unread(err)
	}
}

// unread ends the connection, as nobody can be written to any more.
func (s *lineStream) unread(err error) {
	if s.failed.CompareAndSwap(nil, &err) {
		s.gone()
	}
}

// err returns what made writing fail.
func (s *lineStream) err() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// WriteObject implements jsonrpc2.ObjectStream. Responses do not come this way.
func (s *lineStream) WriteObject(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	s.write(b)
	return s.err()
}

// Close implements jsonrpc2.ObjectStream. The streams belong to the caller.
func (s *lineStream) Close() error { return nil }
