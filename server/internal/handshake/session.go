package handshake

import (
	"bytes"
	"container/list"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/internal/inturn"
	"github.com/mcpsaga/mcpsaga/internal/sessionid"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A session's id is a token: what the handshake agreed on, sealed with the server's keys. So any replica that has the keys serves
// any request, and an idle session takes no memory. Of what a client declares it has a few bits, however much that is.

// agreed is what a session's id says.
type agreed struct {
	name string    // the id as clients send it
	id   tokens.ID // its random part
	sessionid.Terms
	principal [sha256.Size]byte
	expires   time.Time
}

// maxID is the longest id that is looked at. Those made are about half as long.
const maxID = 512

// newID returns the id of a new session of a principal.
func (d *handshake) newID(p *peer, principal string) (string, error) {
	now := d.Turns.Now()
	whose := sha256.Sum256([]byte(principal))
	claims := tokens.Claims{IssuedAt: now, ExpiresAt: now.Add(d.Limits.SessionTTL), Request: whose[:]}
	rand.Read(claims.ID[:]) // never fails (crypto/rand)
	return d.Turns.Codec.Seal(tokens.Binding{Purpose: sessionid.Purpose}, now, &tokens.Contents{Claims: claims, State: p.Terms.Bytes()})
}

// readID opens a session's id. late reports that its time is over. If that has not begun, there is a, and an error.
func (d *handshake) readID(ctx context.Context, name string, log *slog.Logger) (a *agreed, late bool, rerr *wire.Error) {
	if len(name) > maxID {
		return nil, false, goneSession()
	}
	now := d.Turns.Now()
	x, untimely, err := d.Turns.Codec.OpenAnyTime(tokens.Binding{Purpose: sessionid.Purpose}, now, name)
	if err != nil {
		log.InfoContext(ctx, "request refused", "reason", "the session id is not valid here", "error", err)
		return nil, false, goneSession()
	}
	terms, known := sessionid.Parse(x.State)
	if !known || len(x.Claims.Request) != sha256.Size {
		log.InfoContext(ctx, "request refused", "reason", "the session id is of a newer program")
		return nil, false, goneSession()
	}
	a = &agreed{
		name: name, id: x.Claims.ID, Terms: terms,
		principal: [sha256.Size]byte(x.Claims.Request), expires: x.Claims.ExpiresAt.Add(d.Turns.Codec.Options().Skew),
	}
	if untimely != nil && untimely.Reason == tokens.ReasonNotYetValid {
		return a, false, wire.TryAgain("this server's clock is behind the session: send the same request again")
	}
	return a, untimely != nil, nil
}

// of reports whether the session is a principal's.
func (a *agreed) of(principal string) bool {
	whose := sha256.Sum256([]byte(principal))
	return subtle.ConstantTimeCompare(whose[:], a.principal[:]) == 1
}

// session is what names the session to others than the client.
func (a *agreed) session() string { return string(a.id[:]) }

// session is what is in memory of a session (see [sessionTable]), and what a request of it is served with.
type session struct {
	*peer
	agreed *agreed
	owner  string // on whose account it is counted, or empty
	// stem makes the names of its streams different from those of other replicas.
	stem string
	// ctx ends with the session, or with what is in memory of it.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// idle takes it out of memory; nil if it is not there. resting is its place among those not in use, under the table's mutex.
	idle    *time.Timer
	resting *list.Element
	// look ends its streams if its time is over, or it was ended elsewhere. Each stream calls it now and then.
	look func(context.Context)

	mu sync.Mutex
	// busy counts the requests and calls under way, which keep the session in memory.
	busy int
	// changed: the client has set something, or listens to what belongs to no request.
	changed bool
	// streams are those that can be read, by name; finished those of them that have ended, the oldest first.
	streams  map[string]*stream
	finished []*stream
	// general carries what belongs to no request, the client's GET; sent counts its events.
	general *carrier
	sent    uint64
	posts   uint64 // streams so far
	// record is what the ledger was seen to have of the session; nil if it did not say, or there is none.
	record *document
	// calls are the client's requests under way.
	calls map[*sessionCall]struct{}
	// held are the bytes of calls and of answers that they hold; most is how many there may be, with those of open streams.
	held, most int
	// waiting are our requests that the client has not answered, by id.
	waiting map[uint64]*question
}

// newSession returns a session of which nothing is remembered, unless enter puts it into the table.
func newSession(a *agreed) *session {
	s := &session{agreed: a}
	s.peer = &peer{session: s, revision: revision.Revision(a.Revision), Terms: a.Terms}
	s.level.Set(a.Level)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// sessionCall is a request of the client's under way.
type sessionCall struct {
	message *wire.Message
	came    time.Time
	cancel  context.CancelCauseFunc
	// asking counts its questions that wait; answers are the bytes of answers to the others meanwhile.
	asking, answers int
	// left: it ends without an answer, which is to be had otherwise. stays: it does not, as the same request would act again.
	left, stays bool
}

// leave ends it without an answer. The session is locked.
func (c *sessionCall) leave() {
	c.left = true
	c.cancel(dialect.ErrLeft)
}

// question is a request of the server's that waits for its answer.
type question struct {
	call *sessionCall
	// answer gets the answer; nil if that goes to a task. answered: it has come.
	answer   chan steps.Answer
	answered bool
}

// maxCalls bounds the requests of one session that are under way here.
const maxCalls = 100

// maxSessionBytes bounds what one session holds: requests under way, answers, and what streams keep.
const maxSessionBytes = 4 << 20

var (
	errIDInUse   = errors.New("the id is in use")
	errManyCalls = errors.New("too many requests are under way: wait until some are answered")
	errHeld      = errors.New("too many bytes of requests and answers are under way: wait until some are answered")
	// errNobodyWaits is for an answer that came late, or to another replica than the one that has asked.
	errNobodyWaits = errors.New("nothing waits here for this answer: the call that asked has ended, or it runs in another replica of this server, which then all requests of the session must reach")
	// errNoQuestion is that where any replica would know.
	errNoQuestion = errors.New("nothing waits here for this answer: there is no such question, it was answered before, or the call that asked has ended")
)

// sessionContext returns a context for what a request began, which ends with the session and not with the connection (MCP 2025-11-25,
// basic/transports: disconnection is no cancellation).
func sessionContext(request context.Context, s *session) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(request))
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}

// likeness is what a request may have in common with those under way that have its id.
type likeness int

const (
	another  likeness = iota // nothing, so there may be none
	repeated                 // it may be the same, whose answer it gets
	more                     // it continues them
)

// begin registers a request and holds the session, unless too much is under way, or a request with its id. One that it repeats is
// left, unless it cannot begin.
func (s *session) begin(m *wire.Message, cancel context.CancelCauseFunc, as likeness) (*sessionCall, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var same *sessionCall
	calls, size := len(s.calls), m.Size
	for c := range s.calls {
		switch {
		case c.left || as == more || string(c.message.ID) != string(m.ID):
		case as == repeated && !c.stays && c.message.Method == m.Method && bytes.Equal(c.message.Params, m.Params):
			same, calls, size = c, calls-1, size-c.message.Size
		default:
			return nil, errIDInUse
		}
	}
	switch {
	case calls >= maxCalls:
		return nil, errManyCalls
	case !s.fits(size):
		return nil, errHeld
	}
	if same != nil {
		same.leave()
	}
	c := &sessionCall{message: m, came: time.Now(), cancel: cancel}
	s.calls[c] = struct{}{}
	s.held += m.Size
	s.busy++ // it is in use already
	return c, nil
}

// stop cancels the requests under way that these are, and reports whether there are any.
func (s *session) stop(is func(*sessionCall) bool) (found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.calls {
		if is(c) {
			c.cancel(dialect.ErrCancelled)
			found = true
		}
	}
	return found
}

// works reports whether calls are under way.
func (s *session) works() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls) > 0
}

// linger has the session stay in memory for a while after its last use.
func (s *session) linger() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = true
}

// fits reports whether the session may hold so many bytes more.
func (s *session) fits(size int) bool {
	size += s.held
	for _, st := range s.streams {
		if st.due > 0 {
			size += st.size()
		}
	}
	return size <= s.most
}

// answered hands a response to the call that waits for it. A client whose response was refused knows that no call hears it, or, for
// want of room, sends it again.
func (s *session) answered(id uint64, answer steps.Answer, size int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.waiting[id]
	if q == nil || q.answer == nil {
		return errNobodyWaits
	}
	if !s.fits(size) {
		return errHeld
	}
	q.call.answers += size
	s.held += size
	delete(s.waiting, id)
	q.answer <- answer
	return nil
}

const leastQuestion = dialect.LeastQuestion

// questionOf returns the id of the question that a response is to, or nil. Some clients lose their session by a refusal without it.
func questionOf(response jsontext.Value) jsontext.Value {
	id, _ := dialect.ReadAnswer(response)
	if id < leastQuestion || id >= 2*leastQuestion {
		return nil
	}
	return strconv.AppendUint(nil, id, 10)
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

// ask sends a question with that id, or if it is 0 a new one. The answer goes to q. back ends that, and reports whether none had come.
func (w *way) ask(id uint64, q *question, method string, params json.RawMessage) (asked uint64, back func() (open bool)) {
	w.mu.Lock()
	if id == 0 {
		id = w.questionID()
	}
	w.waiting[id] = q
	w.mu.Unlock()
	number := w.stream.add(eventRequest, wire.AppendCall(nil, id, method, params))
	return id, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		// A client that reads on after a break must not ask its user what needs no answer any more.
		w.stream.drop(number)
		if w.waiting[id] == q {
			delete(w.waiting, id)
		}
		return !q.answered
	}
}

func (w *way) Call(ctx context.Context, method string, params json.RawMessage) (steps.Answer, error) {
	w.mu.Lock()
	if w.call.asking == 0 { // what the call was answered before is in use no longer
		w.held -= w.call.answers
		w.call.answers = 0
	}
	w.call.asking++
	w.mu.Unlock()
	q := &question{call: w.call, answer: make(chan steps.Answer, 1)}
	id, back := w.ask(0, q, method, params)
	inturn.Take(ctx)
	defer func() {
		back()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.call.asking--
	}()
	select {
	case a := <-q.answer:
		return a, nil
	case <-ctx.Done():
		w.Notify(dialect.Cancellation(strconv.AppendUint(nil, id, 10), context.Cause(ctx)))
		return steps.Answer{}, context.Cause(ctx)
	}
}

// questionID returns the id of a new question, different from those of other replicas, of which nothing is known, and below 2^53, which
// is the same in all languages. The session is locked.
func (s *session) questionID() uint64 {
	for {
		var b [8]byte
		rand.Read(b[:]) // never fails (crypto/rand)
		if id := leastQuestion + binary.BigEndian.Uint64(b[:])%leastQuestion; s.waiting[id] == nil {
			return id
		}
	}
}

func (w *way) Hangup(retry time.Duration) {
	if w.revision >= revision.November2025 { // others cannot resume
		w.carry(&w.stream.carrier, nil, retry)
	}
}

// KeepOpen implements [dialect.Way]: nothing of these revisions is without an end.
func (*way) KeepOpen() *wire.Error { return wire.NotFound() }

// Leave implements [dialect.Leaver].
func (w *way) Leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call.leave()
}

// stay has the request not be left from now on, and fails if it was. With a key it does nothing: that leads to what the request
// begins. A nil w is never left.
func (w *way) stay(key string) error {
	if w == nil || key != "" {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.call.left {
		return dialect.ErrLeft
	}
	w.call.stays = true
	return nil
}

// isLeft reports whether the request ends without an answer.
func (w *way) isLeft() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.call.left
}

// carried reports whether a connection carries the stream.
func (w *way) carried() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stream.carrier != nil
}
