package server

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/steps"
)

// session is what lasts between the HTTP requests of one client.
type session struct {
	*peer
	id        string
	principal Principal
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
	// calls are the client's requests under way, by id.
	calls map[string]context.CancelCauseFunc
	// waiting are our requests that the client has not answered, by id.
	waiting map[uint64]chan<- steps.Answer
	asked   uint64
}

// What a session keeps of streams that have ended, for clients that did not get
// to read them.
const (
	maxFinished      = 8
	maxFinishedBytes = 1 << 20
)

// open makes the stream of a POST.
func (s *session) open(requests []*message, batch *batched) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts++
	st := newStream("p"+strconv.FormatUint(s.posts, 10), len(requests))
	if batch != nil {
		st.due += len(batch.wrong)
		for _, response := range batch.wrong {
			st.respond(response)
		}
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

// begin registers a request so that the client can cancel it. It reports false if
// its id is in use, or too many are under way.
func (s *session) begin(id jsontext.Value, cancel context.CancelCauseFunc) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[string(id)] != nil || len(s.calls) >= maxInFlight {
		return false
	}
	s.calls[string(id)] = cancel
	return true
}

func (s *session) finish(id jsontext.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, string(id))
}

// cancelled ends the request that a notification names.
func (s *session) cancelled(params jsontext.Value) {
	var p struct {
		RequestID jsontext.Value `json:"requestId"`
	}
	if decodeParams(params, &p) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.calls[string(p.RequestID)]; cancel != nil {
		cancel(errCancelled)
	}
}

// await registers a request to the client and returns its id, unique in the
// session, and where the answer will come.
func (s *session) await() (uint64, <-chan steps.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	answer := make(chan steps.Answer, 1)
	s.waiting[s.asked] = answer
	return s.asked, answer
}

func (s *session) abandon(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, id)
}

// answered hands a response of the client to whoever waits for it. One that
// nobody waits for is late, and ignored.
func (s *session) answered(raw jsontext.Value) {
	id, answer := parseReply(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if waiting := s.waiting[id]; waiting != nil {
		delete(s.waiting, id)
		waiting <- answer
	}
}

// postExchange is the exchange of a request that was POSTed.
type postExchange struct {
	*session
	stream *stream
}

func (x *postExchange) notify(method string, params json.RawMessage) {
	x.stream.add(eventNote, appendNotification(nil, method, params))
}

func (x *postExchange) ask(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	id, answer := x.await()
	defer x.abandon(id)
	b := strconv.AppendUint([]byte(`{"jsonrpc":"2.0","id":`), id, 10)
	b = appendString(append(b, `,"method":`...), method)
	b = append(append(b, `,"params":`...), params...)
	number := x.stream.add(eventRequest, append(b, '}'))
	defer x.stream.withdraw(number)
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		x.notify("notifications/cancelled", cancelledParams(strconv.FormatUint(id, 10), context.Cause(ctx)))
		return steps.Answer{}, context.Cause(ctx)
	}
}

func (x *postExchange) disconnect(retry retryAfter) {
	if x.revision.polling() {
		x.stream.disconnect(retry)
	}
}

func cancelledParams(id string, why error) json.RawMessage {
	b := append([]byte(`{"requestId":`), id...)
	reason := why.Error()
	if errors.Is(why, context.Canceled) {
		reason = errCancelled.Error()
	}
	return append(appendString(append(b, `,"reason":`...), reason), '}')
}
