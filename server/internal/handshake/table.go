package handshake

import (
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tally"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// sessionTable holds what is in memory of the sessions of clients that speak HTTP. A session
// comes in when a request needs more than its id says, and goes when nothing of it is left
// to remember, or when others need the room. The session itself continues.
//
// Its lock is taken first, then a session's, then the hub's and its subscription's. Under none of
// them anything is sent, or the ledger asked; and the hub holds none of its own when it reports
// sessions that others have changed.
type sessionTable struct {
	mu    sync.Mutex
	byID  map[string]*session
	owned map[string]map[*session]struct{} // the sessions of each owner that is known
	// idle are those that are not in use, the one unused for the longest first.
	idle     list.List
	closed   bool
	ends     endings
	byRandom map[tokens.ID]*session // those in memory, by the random parts of their ids
	// silentUntil is when the ledger is asked again about sessions, after it has failed.
	silentUntil atomic.Int64
	// running are the calls under way.
	running tally.Tally
}

var (
	// errFull: there are as many sessions as there may be.
	errFull = errors.New("there are too many sessions; try again later")
	// errEvicted ends what is in memory of a session, not the session.
	errEvicted = errors.New("the session is not in memory any more")
)

// generalStream begins the name of the stream that belongs to no request, which no other's
// does.
const generalStream = "g"

// run does something that Close waits for.
func (t *sessionTable) run(f func()) {
	ended := t.running.Begin()
	go func() {
		defer ended()
		f()
	}()
}

// enter puts a session into memory, in use, unless it is there already or may not be. If there
// is no room, one that is not in use gives way.
func (d *handshake) enter(a *agreed, x *dialect.Exchange) (*session, *wire.Error) {
	t := &d.sessions
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.byID[a.name]; s != nil { // another request was faster
		t.hold(s)
		return s, nil
	}
	owner := x.Account()
	var err error
	switch {
	case t.ends.ids[a.id] != nil: // since it was looked for
		return nil, goneSession()
	case t.closed:
		err = dialect.ErrStopping
	case owner != "" && len(t.owned[owner]) >= d.Limits.MaxSessionsPerPrincipal && !t.evict(owner),
		len(t.byID) >= d.Limits.MaxSessions && !t.evict(""):
		err = errFull
	}
	if err != nil {
		rerr := wire.Refuse(http.StatusServiceUnavailable, wire.CodeInternalError, err.Error())
		rerr.RetryAfter = time.Minute
		return nil, rerr
	}
	s := newSession(a)
	s.answering, s.changes = d.Draining, d.Hub.Subscribe(dialect.NewInterest(true, true, true, nil))
	s.owner, s.keys = owner, d.Turns.Codec.Keyset()
	s.most = max(maxSessionBytes, 2*int(d.Limits.MaxBody))
	s.calls, s.waiting = make(map[string]*sessionCall), make(map[uint64]*question)
	// Other replicas, and this one later, name streams of the same session.
	s.stem = rand.Text()[:13] // 65 bits
	// The general stream never ends: one response is due and never comes.
	s.general = &stream{name: generalStream + s.stem, session: s, due: 1}
	s.streams = map[string]*stream{s.general.name: s.general}
	if t.byID == nil {
		t.byID, t.owned = make(map[string]*session), make(map[string]map[*session]struct{})
		t.byRandom = make(map[tokens.ID]*session)
	}
	t.byID[a.name] = s
	t.byRandom[a.id] = s
	if owner != "" {
		if t.owned[owner] == nil {
			t.owned[owner] = make(map[*session]struct{})
		}
		t.owned[owner][s] = struct{}{}
	}
	s.check = func(ctx context.Context) {
		if !d.Turns.Now().Before(a.expires) {
			s.general.carriedBy(nil, 0) // calls under way come to their end
			return
		}
		d.look(ctx, s)
	}
	s.idle = time.AfterFunc(d.Limits.SessionIdle, func() { t.forget(s) })
	t.hold(s)
	return s, nil
}

// use returns the session with that id if it is in memory, and keeps it there until release.
// The id must have been opened with these keys, which others may not open: when the session came
// into memory, or now, to a. Of that it also reports whether this process knows that the session was
// ended; one in memory was not.
func (t *sessionTable) use(name string, keys *codec.Keyset, a *agreed) (s *session, ended bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s = t.byID[name]
	if s == nil || s.keys != keys && a == nil {
		return nil, a != nil && t.ends.ids[a.id] != nil
	}
	s.keys = keys
	t.hold(s)
	return s, false
}

// hold has a session be in use. The table is locked.
func (t *sessionTable) hold(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy++
	s.idle.Stop()
	if s.resting != nil {
		t.idle.Remove(s.resting)
		s.resting = nil
	}
}

// release ends what use or enter began, or with the id of a request what begin did.
func (d *handshake) release(s *session, id jsontext.Value) {
	if s.idle == nil {
		return // it is not in memory
	}
	t := &d.sessions
	t.mu.Lock()
	defer t.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.calls[string(id)]; c != nil {
		s.held -= c.size + c.answers
		c.answers = 0
		delete(s.calls, string(id))
		close(c.over)
	}
	if s.busy--; s.busy > 0 || s.ctx.Err() != nil {
		return
	}
	s.idleSince = time.Now()
	switch {
	case !d.Turns.Now().Before(s.agreed.expires):
		t.remove(s, dialect.ErrSessionEnded)
	case !s.changed && len(s.streams) == 1: // the general one: nothing is left that a client may have missed
		t.remove(s, errEvicted)
	default:
		s.resting = t.idle.PushBack(s)
		s.idle.Reset(min(d.Limits.SessionIdle, s.agreed.expires.Sub(d.Turns.Now())))
	}
}

// needs is what a request needs of its session.
type needs struct {
	memory bool // that it is in memory
	calls  bool // calls under way: for these, a session may be late
	quiet  bool // nothing is refused if there is no such session
}

// sessionOf returns the session that an HTTP request names, to be released.
func (d *handshake) sessionOf(ctx context.Context, x *dialect.Exchange, n needs) (*session, *wire.Error) {
	name := x.Header.Get(wire.SessionHeader)
	if name == "" {
		return nil, wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, noSessionText)
	}
	log := d.Log
	if n.quiet {
		log = slog.New(slog.DiscardHandler)
	}
	a, s, found, late, rerr := d.find(ctx, x, name, log)
	if rerr == nil && s != nil && found != nil {
		s.learn(found)
	}
	switch {
	case rerr != nil:
		return nil, rerr
	case s != nil && late && !(n.calls && s.works()):
		d.release(s, nil)
		return nil, goneSession()
	case s != nil:
		return s, nil
	case late:
		return nil, goneSession()
	case n.memory:
		if s, rerr = d.enter(a, x); rerr != nil {
			return nil, rerr
		}
	default:
		s = newSession(a)
	}
	if found != nil {
		s.learn(found)
	}
	return s, nil
}

// find finds out what a session's id says, whose it is, and whether it has ended. The session
// is nil unless it is in memory; then it is in use. What the ledger remembers of it was found
// now; it is nil if there is no ledger or this does not say.
func (d *handshake) find(ctx context.Context, x *dialect.Exchange, name string, log *slog.Logger) (a *agreed, s *session, found *document, late bool, rerr *wire.Error) {
	t := &d.sessions
	keys := d.Turns.Codec.Keyset()
	s, ended := t.use(name, keys, nil)
	if s != nil {
		a, late = s.agreed, !d.Turns.Now().Before(s.agreed.expires)
	} else {
		if a, late, rerr = d.readID(ctx, name, log); rerr != nil {
			if rerr.Status == http.StatusNotFound {
				t.drop(name) // its key was taken out of use
			}
			return nil, nil, nil, false, rerr
		}
		s, ended = t.use(name, keys, a)
	}
	if !a.of(x.Principal) {
		rerr = wire.Refuse(http.StatusForbidden, wire.CodeInvalidRequest, "the session belongs to somebody else")
		log.InfoContext(ctx, "request refused", "reason", "the session belongs to another principal")
	} else if ended {
		rerr = goneSession()
	} else if d.Tasks != nil {
		if found = d.recordOf(ctx, a); found != nil && found.Value.Ended {
			t.end(a, d.Turns.Now())
			rerr = goneSession()
		}
	}
	if rerr != nil && s != nil {
		d.release(s, nil)
	}
	return a, s, found, late, rerr
}

// Join implements [dialect.Sessions]. A request of the saga proposal needs no session, and
// is served whatever session it names; but a client that has one cancels by a notification
// there, and is using it.
func (d *handshake) Join(ctx context.Context, x *dialect.Exchange) (context.Context, func()) {
	if version := x.Header.Get(wire.VersionHeader); version != "" && !revision.Serves(version) {
		return ctx, func() {} // revisions of others have no sessions
	}
	s, rerr := d.sessionOf(ctx, x, needs{memory: true, quiet: true})
	if rerr != nil { // a request that only names it is not using it
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	_, err := s.begin(x.Message, "", cancel)
	caller, joined := d.callerOf(s), ctx
	x.Caller = caller
	return ctx, func() {
		s.visited(joined, caller)
		if err == nil {
			d.release(s, x.Message.ID)
		}
		cancel(nil)
		d.release(s, nil)
	}
}

// A session's id is good until it expires, so what a client has ended before must be
// remembered: by this process, and in the ledger by all, if there is one.

// endings are sessions that were ended before their time. The table's mutex guards them.
type endings struct {
	ids   map[tokens.ID]*list.Element
	order list.List // of ending, the oldest first
}

type ending struct {
	id      tokens.ID
	expires time.Time
}

// maxEndings bounds what a process remembers of sessions that were ended. Above, the oldest
// are forgotten: their ids open again, for those whom they were given to.
const maxEndings = 10_000

func (e *endings) add(id tokens.ID, expires time.Time) {
	if e.ids[id] != nil {
		return
	}
	if e.ids == nil {
		e.ids = make(map[tokens.ID]*list.Element)
	}
	e.ids[id] = e.order.PushBack(ending{id, expires})
	if len(e.ids) > maxEndings {
		delete(e.ids, e.order.Remove(e.order.Front()).(ending).id)
	}
}

// forget removes those that have expired by themselves, as far as they were ended first.
func (e *endings) forget(now time.Time) {
	for first := e.order.Front(); first != nil && !now.Before(first.Value.(ending).expires); first = e.order.Front() {
		delete(e.ids, e.order.Remove(first).(ending).id)
	}
}
