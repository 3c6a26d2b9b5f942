package handshake

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/tally"
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
	// calls are the client's requests under way, by id.
	calls map[string]*sessionCall
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

// open makes the stream of a POST.
func (s *session) open(requests int, wrong [][]byte) *stream {
	s.mu.Lock()
	s.posts++
	st := &stream{name: "p" + strconv.FormatUint(s.posts, 10), session: s, due: requests + len(wrong), changed: make(chan struct{})}
	s.streams[st.name] = st
	s.mu.Unlock()
	for _, response := range wrong {
		st.add(eventResponse, response)
	}
	return st
}

// forget drops a stream that was read to its end in a way that cannot be resumed.
func (s *session) forget(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st.name)
	s.finished = slices.DeleteFunc(s.finished, func(f *stream) bool { return f == st })
}

// begin registers a request so that the client can cancel it, and holds the session, unless
// the request's id is in use or too much is under way.
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
	s.busy++
	s.idle.Stop()
	return c, nil
}

// fits reports whether the session may hold so many bytes more.
func (s *session) fits(size int) bool {
	size += s.held
	for _, st := range s.streams {
		if st != s.general && st.due > 0 {
			size += st.size
		}
	}
	return size <= s.most
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

func (w *way) Notify(method string, params json.RawMessage) {
	w.stream.add(eventNote, wire.AppendCall(nil, 0, method, params))
}

func (w *way) Call(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	answer := make(chan steps.Answer, 1)
	w.mu.Lock()
	if w.call.asking == 0 { // what the call was answered before is in use no longer
		w.held -= w.call.answers
		w.call.answers = 0
	}
	w.call.asking++
	w.asked++
	id := w.asked
	w.waiting[id] = &question{w.call, answer}
	w.mu.Unlock()
	number := w.stream.add(eventRequest, wire.AppendCall(nil, id, method, params))
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		// A client that reads on after a break must not ask its user what needs no answer any more.
		w.stream.drop(func(e streamEvent) bool { return e.number == number })
		w.call.asking--
		delete(w.waiting, id)
	}()
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		w.Notify(dialect.Cancellation(strconv.AppendUint(nil, id, 10), context.Cause(ctx)))
		return steps.Answer{}, context.Cause(ctx)
	}
}

func (w *way) Hangup(retry time.Duration) {
	if w.revision >= revision2025November { // others cannot resume
		w.stream.carriedBy(nil, retry)
	}
}

// KeepOpen implements [dialect.Way]: nothing of these revisions is without an end.
func (*way) KeepOpen() (<-chan struct{}, *wire.Error) { return nil, wire.NotFound() }

// sessionTable holds the sessions of the clients that speak HTTP.
type sessionTable struct {
	mu    sync.Mutex
	byID  map[string]*session
	owned map[string]map[*session]struct{} // the sessions of each owner that is known
	// running are the calls under way.
	running tally.Tally
}

// closeGrace is how long Close waits for calls to undo what they did.
const closeGrace = 5 * time.Second

// errFull: there are as many sessions as there may be.
var errFull = errors.New("there are too many sessions; try again later")

// generalStream is the name of the stream that belongs to no request.
const generalStream = "g"

// start begins a session for a client that has just been answered.
func (d *handshake) start(p *peer, x *dialect.Exchange) (*session, *wire.Error) {
	t := &d.sessions
	s := &session{
		peer: p, id: rand.Text(), principal: x.Principal, owner: x.Account(), idleSince: time.Now(),
		streams: make(map[string]*stream), calls: make(map[string]*sessionCall), waiting: make(map[uint64]*question),
		most: max(maxSessionBytes, 2*int(d.Limits.MaxBody)),
	}
	// The general stream never ends: one response is due and never comes.
	s.general = &stream{name: generalStream, session: s, due: 1, changed: make(chan struct{})}
	s.streams[generalStream] = s.general
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	switch {
	case d.Draining.Err() != nil:
		err = dialect.ErrStopping
	case s.owner != "" && len(t.owned[s.owner]) >= d.Limits.MaxSessionsPerPrincipal && !t.evict(s.owner),
		len(t.byID) >= d.Limits.MaxSessions:
		err = errFull
	}
	if err != nil {
		p.close(err)
		rerr := wire.Refuse(http.StatusServiceUnavailable, wire.CodeInternalError, err.Error())
		rerr.RetryAfter = time.Minute
		return nil, rerr
	}
	if t.byID == nil {
		t.byID, t.owned = make(map[string]*session), make(map[string]map[*session]struct{})
	}
	t.byID[s.id] = s
	if s.owner != "" {
		if t.owned[s.owner] == nil {
			t.owned[s.owner] = make(map[*session]struct{})
		}
		t.owned[s.owner][s] = struct{}{}
	}
	s.idle = time.AfterFunc(d.Limits.SessionIdle, func() { d.expire(s) })
	return s, nil
}

// evict ends the session of an owner that has been idle the longest: clients
// that come and go without a word must not lock their user out.
func (t *sessionTable) evict(owner string) bool {
	var oldest *session
	var since time.Time
	for s := range t.owned[owner] {
		s.mu.Lock()
		if s.busy == 0 && (oldest == nil || s.idleSince.Before(since)) {
			oldest, since = s, s.idleSince
		}
		s.mu.Unlock()
	}
	if oldest == nil {
		return false
	}
	t.remove(oldest, dialect.ErrSessionEnded)
	return true
}

// use returns the session with that id and keeps it from expiring until release;
// or nil if there is none.
func (t *sessionTable) use(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byID[id]
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy++
		s.idle.Stop()
	}
	return s
}

// release ends what use began, or with the id of a request what begin did.
func (d *handshake) release(s *session, id jsontext.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.calls[string(id)]; c != nil {
		s.held -= c.size + c.answers
		c.answers = 0
		delete(s.calls, string(id))
	}
	if s.busy--; s.busy == 0 && s.ctx.Err() == nil {
		s.idleSince = time.Now()
		s.idle.Reset(d.Limits.SessionIdle)
	}
}

func (d *handshake) expire(s *session) {
	t := &d.sessions
	t.mu.Lock()
	defer t.mu.Unlock()
	s.mu.Lock()
	busy := s.busy > 0
	s.mu.Unlock()
	if !busy { // it may have been used while its time ran out
		t.remove(s, dialect.ErrSessionEnded)
	}
}

// remove ends a session: its calls, its streams, its questions to the client. The table is
// locked.
func (t *sessionTable) remove(s *session, why error) {
	if t.byID[s.id] != s {
		return
	}
	delete(t.byID, s.id)
	if s.owner != "" {
		if delete(t.owned[s.owner], s); len(t.owned[s.owner]) == 0 {
			delete(t.owned, s.owner)
		}
	}
	s.idle.Stop()
	s.cancel(why)
	s.close(why)
}

// Drain implements [dialect.Sessions]: streams that belong to no request close.
func (d *handshake) Drain() {
	t := &d.sessions
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.byID {
		s.general.carriedBy(nil, 0)
	}
}

func (d *handshake) Close() {
	t := &d.sessions
	t.mu.Lock()
	for _, s := range t.byID {
		t.remove(s, dialect.ErrStopping)
	}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	_ = t.running.Wait(ctx)
}
