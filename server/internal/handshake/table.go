package handshake

import (
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tally"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// sessionTable holds what is in memory of the sessions of clients that speak HTTP. A session
// comes in when a request needs more than its id says, and goes when nothing of it is left
// to remember, or when others need the room. It goes on all the same.
//
// Its lock is taken first, then a session's, then the hub's and its subscription's. The lot's is
// taken under the table's, or under one of the ledger's store, and only for a look. Under none of
// them anything is sent, the ledger asked, or somebody waited for; and the hub holds none of its own
// when it tells of sessions that others have changed.
type sessionTable struct {
	mu    sync.Mutex
	byID  map[string]*session
	owned map[string]map[*session]struct{} // the sessions of each owner that is known
	// idle are those that are not in use, the one unused for the longest first.
	idle   list.List
	closed bool
	ends   endings
	// With a ledger: those in memory, by the random parts of their ids; those of which the
	// ledger has said that they go on; those to look at.
	byRandom map[tokens.ID]*session
	going    going
	stale    stale
	// lot has the streams that wait without a session in memory.
	lot lot
	// running are the calls under way.
	running tally.Tally
}

// closeGrace is how long Close waits for calls to undo what they did.
const closeGrace = 5 * time.Second

var (
	// errFull: there are as many sessions as there may be.
	errFull = errors.New("there are too many sessions; try again later")
	// errEvicted ends what is in memory of a session, not the session.
	errEvicted = errors.New("the session is not in memory any more")
)

// generalStream begins the name of the stream that belongs to no request, which no other's
// does.
const generalStream = "g"

// newSession returns what requests of a session are served with. Unless enter puts it into
// the table, nothing is remembered of it.
func newSession(a *agreed) *session {
	s := &session{agreed: a}
	s.peer = &peer{session: s, revision: a.revision, features: a.features, guests: a.guests, resumable: a.resumable}
	s.level.Set(a.level)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// enter puts a session into memory, in use, unless it is there already or may not be. If there
// is no room, whoever only waits gives way to who has just come, if he has (fresh).
func (d *handshake) enter(a *agreed, x *dialect.Exchange, fresh bool) (*session, *wire.Error) {
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
	case t.ends.has(a.id): // since it was looked for
		return nil, goneSession()
	case t.closed:
		err = dialect.ErrStopping
	case owner != "" && len(t.owned[owner]) >= d.Limits.MaxSessionsPerPrincipal && !t.evict(owner) && !(fresh && t.displace(maps.Keys(t.owned[owner]))),
		len(t.byID) >= d.Limits.MaxSessions && !t.evict("") && !(fresh && t.displace(maps.Values(t.byID))):
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
	if d.Tasks != nil { // and so a ledger
		s.shown, s.park = d.Turns.Records().ShowPosition, d.park
	}
	s.check = func(ctx context.Context) { d.look(ctx, s) }
	s.idle = time.AfterFunc(d.Limits.SessionIdle, func() { t.forget(s) })
	s.overdue = time.AfterFunc(a.expires.Sub(d.Turns.Now()), func() { t.over(s) })
	t.hold(s)
	return s, nil
}

// evict takes the session out of memory that has been idle the longest, of an owner's or of
// all. Those in use stay.
func (t *sessionTable) evict(owner string) bool {
	var oldest *session
	if owner == "" {
		if first := t.idle.Front(); first != nil {
			oldest = first.Value.(*session)
		}
	}
	for s := range t.owned[owner] {
		if s.resting != nil && (oldest == nil || s.idleSince.Before(oldest.idleSince)) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	t.remove(oldest, errEvicted)
	return true
}

// displace has the streams of one of the sessions end whose calls only wait for their clients: with
// a ledger these come back and find their calls, and a request that was refused would be lost. The
// session goes when they have ended. One that goes anyhow makes room as well, once.
func (t *sessionTable) displace(sessions iter.Seq[*session]) bool {
	for s := range sessions {
		if s.leaves {
			s.leaves = false
			return true
		}
		if waits := s.waitsOnly(); len(waits) > 0 {
			for _, r := range waits {
				r.leave(stopRetry)
			}
			return true
		}
	}
	return false
}

// leaving notes that a session is about to go, if none of its calls stays.
func (t *sessionTable) leaving(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaves = true
	for _, c := range s.calls {
		s.leaves = s.leaves && c.left
	}
}

// waitsOnly returns who reads for the calls of the session; none if any of them can do without
// its client, or the client could not come back.
func (s *session) waitsOnly() (list []*reader) {
	s.mu.Lock()
	for _, c := range s.calls {
		if c.reader == nil || c.left || !c.reader.w.waits.Load() {
			s.mu.Unlock()
			return nil
		}
		list = append(list, c.reader)
	}
	s.mu.Unlock()
	if slices.ContainsFunc(list, func(r *reader) bool { return !r.canLeave() }) {
		return nil
	}
	return list
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
		return nil, a != nil && t.ends.has(a.id)
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
	s.leaves = false
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
	case s.late:
		t.remove(s, dialect.ErrSessionEnded)
	case !s.changed && len(s.streams) == 1: // the general one: nothing is left that a client may have missed
		t.remove(s, errEvicted)
	default:
		s.resting = t.idle.PushBack(s)
		s.idle.Reset(d.Limits.SessionIdle)
	}
}

// forget takes a session out of memory that has been idle for long enough.
func (t *sessionTable) forget(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.resting != nil { // it may have been used while its time ran out
		t.remove(s, errEvicted)
	}
}

// over ends a session whose time is over. Calls under way come to their end.
func (t *sessionTable) over(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.mu.Lock()
	s.late = true
	working := len(s.calls) > 0
	s.mu.Unlock()
	if working {
		s.general.carriedBy(nil, 0)
		return
	}
	t.remove(s, dialect.ErrSessionEnded)
}

// end ends a session, and remembers that.
func (t *sessionTable) end(a *agreed, now time.Time) {
	defer t.lot.end(a.id)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends.forget(now)
	t.ends.add(a.id, a.expires)
	if s := t.byID[a.name]; s != nil {
		t.remove(s, dialect.ErrSessionEnded)
	}
}

// drop takes a session out of memory whose id is valid no more.
func (t *sessionTable) drop(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.byID[name]; s != nil {
		t.remove(s, dialect.ErrSessionEnded)
	}
}

// remove ends what is in memory of a session: its calls, its streams, its questions to the
// client. The table is locked.
func (t *sessionTable) remove(s *session, why error) {
	if t.byID[s.agreed.name] != s {
		return
	}
	delete(t.byID, s.agreed.name)
	delete(t.byRandom, s.agreed.id)
	if s.owner != "" {
		if delete(t.owned[s.owner], s); len(t.owned[s.owner]) == 0 {
			delete(t.owned, s.owner)
		}
	}
	if s.resting != nil {
		t.idle.Remove(s.resting)
		s.resting = nil
	}
	s.idle.Stop()
	s.overdue.Stop()
	s.cancel(why)
	s.changes.Close()
}

// Drain implements [dialect.Sessions]: streams that belong to no request close.
func (d *handshake) Drain() {
	t := &d.sessions
	t.lot.drain()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.byID {
		s.general.carriedBy(nil, 0)
	}
}

// isClosed reports whether the dialect's Close was called. Before, a server that stops still begins
// sessions: any replica goes on with them.
func (t *sessionTable) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

func (d *handshake) Close() {
	t := &d.sessions
	t.mu.Lock()
	t.closed = true
	for _, s := range t.byID {
		t.remove(s, dialect.ErrStopping)
	}
	t.mu.Unlock()
	t.lot.close()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	_ = t.running.Wait(ctx)
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

func (e *endings) has(id tokens.ID) bool { return e.ids[id] != nil }

func (e *endings) add(id tokens.ID, expires time.Time) {
	if e.has(id) {
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
