package handshake

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// session is what lasts between the HTTP requests of one client.
type session struct {
	*peer
	id        string
	principal string
	owner     string // on whose account it is counted, or empty
	// ctx ends with the session.
	ctx    context.Context
	cancel context.CancelCauseFunc
	idle   *time.Timer

	mu sync.Mutex
	// busy counts the requests and calls under way; while there are any, the
	// session does not expire. idleSince is when the last one ended.
	busy      int
	idleSince time.Time
	// streams are those that can be read, by name; finished those of them that
	// have ended, the oldest first.
	streams  map[string]*stream
	finished []*stream
	// general carries what belongs to no request, on the client's GET.
	general *stream
	posts   uint64 // streams so far
	// calls are the client's requests under way, by id. sharing is how many there are.
	calls   map[string]*sessionCall
	sharing atomic.Int64
	// held are the bytes of calls and of the answers that they wait with for more;
	// most is how many bytes may be held, with what streams hold that have not ended.
	held, most int
	// waiting are our requests that the client has not answered, by id.
	waiting map[uint64]*question
	asked   uint64
}

// sessionCall is a request of the client's under way.
type sessionCall struct {
	cancel context.CancelCauseFunc
	size   int // of the request
	// asking counts its questions that wait for the client; answers are the bytes of
	// what the client has said to the others meanwhile.
	asking, answers int
}

// question is a request of the server's that waits for its answer.
type question struct {
	call   *sessionCall
	answer chan<- steps.Answer
}

// maxCalls bounds the requests of one session that are under way.
const maxCalls = 64

// maxSessionBytes bounds what one session holds: requests under way with their
// answers, and what their streams keep.
const maxSessionBytes = 4 << 20

var (
	errIDInUse   = errors.New("the id is in use")
	errManyCalls = errors.New("too many requests are under way: wait until some are answered")
	errHeld      = errors.New("too many bytes of requests and answers are under way: wait until some are answered")
)

// What a session keeps of streams that have ended, for clients that did not get
// to read them.
const (
	maxFinished      = 8
	maxFinishedBytes = 1 << 20
)

// open makes the stream of a POST.
func (s *session) open(requests int, wrong [][]byte) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts++
	st := newStream("p"+strconv.FormatUint(s.posts, 10), requests, &s.sharing)
	st.due += len(wrong)
	for _, response := range wrong {
		st.respond(response)
	}
	s.streams[st.name] = st
	return st
}

// respond adds a response to a stream. One that ends with it is kept for a while.
func (s *session) respond(st *stream, response []byte) {
	if st.respond(response) {
		s.keep(st)
	}
}

// find returns a stream that can still be read, or nil.
func (s *session) find(name string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streams[name]
}

// forget drops a stream that was read to its end in a way that cannot be resumed.
func (s *session) forget(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st.name)
	s.finished = slices.DeleteFunc(s.finished, func(f *stream) bool { return f == st })
}

// keep puts a stream that has ended among those, once, and drops the oldest of them
// if there are too many. The newest is always kept.
func (s *session) keep(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[st.name] == nil {
		return
	}
	s.finished = append(s.finished, st)
	size := 0
	for _, f := range s.finished {
		size += f.bytes()
	}
	for len(s.finished) > 1 && (len(s.finished) > maxFinished || size > maxFinishedBytes) {
		size -= s.finished[0].bytes()
		delete(s.streams, s.finished[0].name)
		s.finished = s.finished[1:]
	}
}

// begin registers a request so that the client can cancel it, unless its id is in
// use or too much is under way.
func (s *session) begin(m *wire.Message, cancel context.CancelCauseFunc) (*sessionCall, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.calls[string(m.ID)] != nil:
		return nil, errIDInUse
	case len(s.calls) >= maxCalls:
		return nil, errManyCalls
	case !s.fits(m.Size):
		return nil, errHeld
	}
	c := &sessionCall{cancel: cancel, size: m.Size}
	s.calls[string(m.ID)] = c
	s.held += c.size
	s.sharing.Store(int64(len(s.calls)))
	return c, nil
}

// fits reports whether the session may hold so many bytes more.
func (s *session) fits(size int) bool {
	size += s.held
	for _, st := range s.streams {
		if st != s.general && !slices.Contains(s.finished, st) {
			size += st.bytes()
		}
	}
	return size <= s.most
}

func (s *session) finish(id jsontext.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.calls[string(id)]; c != nil {
		s.held -= c.size + c.answers
		c.answers = 0
	}
	delete(s.calls, string(id))
	s.sharing.Store(int64(len(s.calls)))
}

// cancelled ends the request with that id.
func (s *session) cancelled(id jsontext.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.calls[string(id)]; c != nil {
		c.cancel(dialect.ErrCancelled)
	}
}

// await registers a request to the client and returns its id, unique in the
// session, and where the answer will come. What the call's questions before it were
// answered is in use no longer.
func (s *session) await(c *sessionCall) (uint64, <-chan steps.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.asking == 0 {
		s.held -= c.answers
		c.answers = 0
	}
	c.asking++
	s.asked++
	answer := make(chan steps.Answer, 1)
	s.waiting[s.asked] = &question{c, answer}
	return s.asked, answer
}

func (s *session) abandon(id uint64, c *sessionCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.asking--
	delete(s.waiting, id)
}

// answered hands a response of the client to whoever waits for it. One that
// nobody waits for is late, and ignored. One that there is no room for can be sent
// again.
func (s *session) answered(raw jsontext.Value) error {
	id, answer := dialect.ReadAnswer(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.waiting[id]
	if q == nil {
		return nil
	}
	if !s.fits(len(raw)) {
		return errHeld
	}
	q.call.answers += len(raw)
	s.held += len(raw)
	delete(s.waiting, id)
	q.answer <- answer
	return nil
}

// way is the way to the client of a request that was POSTed: the request's stream.
type way struct {
	*session
	stream *stream
	call   *sessionCall
}

// Notify implements [dialect.Way].
func (w *way) Notify(method string, params json.RawMessage) {
	w.stream.add(eventNote, wire.AppendNotification(nil, method, params))
}

// Call implements [dialect.Way].
func (w *way) Call(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	id, answer := w.await(w.call)
	defer w.abandon(id, w.call)
	number := w.stream.add(eventRequest, wire.AppendRequest(nil, id, method, params))
	defer w.stream.withdraw(number)
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		w.Notify(dialect.Cancellation(strconv.AppendUint(nil, id, 10), context.Cause(ctx)))
		return steps.Answer{}, context.Cause(ctx)
	}
}

// Hangup implements [dialect.Way].
func (w *way) Hangup(retry time.Duration) {
	if w.revision.polling() {
		w.stream.disconnect(retry)
	}
}
