package handshake

import (
	"container/list"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/tally"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/handshake/revision"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// sessionTable holds what is in memory of sessions over HTTP. A session comes in when a request needs more than its id says, and
// goes when nothing is left to remember, or others need the room. The session itself continues.
//
// Its lock is taken first, then a session's, then the hub's and its subscription's. Under none of them anything is sent, or the
// ledger asked; and the hub holds none of its own when it reports sessions that others have changed.
type sessionTable struct {
	mu    sync.Mutex
	byID  map[string]*session
	owned map[string]int // how many are of each owner that is known
	// idle are those that are not in use, the one unused for the longest first.
	idle   list.List
	closed bool
	ends   endings
	// silentUntil is when the ledger is asked again about sessions, after it has failed.
	silentUntil atomic.Int64
	outage      turns.Outage
	// running are the calls under way.
	running tally.Tally
}

var (
	// errFull: there are as many sessions as there may be.
	errFull = errors.New("there are too many sessions; try again later")
	// errEvicted ends what is in memory of a session, not the session.
	errEvicted = errors.New("the session is not in memory any more")
)

// needs is what a request needs of its session.
type needs struct {
	memory bool // that it is in memory
	calls  bool // calls under way: for these, a session may be late
	quiet  bool // nothing is refused if there is no such session
}

// sessionOf returns the session that an HTTP request names, in use until release.
func (d *handshake) sessionOf(ctx context.Context, x *dialect.Exchange, n needs) (*session, *wire.Error) {
	name := x.Header.Get(wire.SessionHeader)
	if name == "" {
		return nil, wire.Refuse(http.StatusBadRequest, wire.CodeInvalidRequest, noSessionText)
	}
	log := d.Log
	if n.quiet {
		log = slog.New(slog.DiscardHandler)
	}
	a, late, rerr := d.readID(ctx, name, log)
	if a != nil && rerr != nil && d.sessions.has(name) {
		rerr = nil // the clock was set back
	}
	switch {
	case rerr != nil && rerr.Status == http.StatusNotFound:
		d.sessions.drop(name) // its key was taken out of use
		return nil, rerr
	case rerr != nil:
		return nil, rerr
	case !a.of(x.Principal):
		log.InfoContext(ctx, "request refused", "reason", "the session belongs to another principal")
		return nil, wire.Refuse(http.StatusForbidden, wire.CodeInvalidRequest, "the session belongs to somebody else")
	}
	found := d.recordOf(ctx, a)
	if found != nil && found.Value.Ended {
		d.sessions.end(a, d.Turns.Now())
	}
	s, rerr := d.use(a, x.Account, n, late)
	if s != nil && found != nil {
		s.learn(found)
	}
	return s, rerr
}

// use returns a session, in use until release, and in memory if it must be: if there is no room, an idle one gives way.
func (d *handshake) use(a *agreed, owner string, n needs, late bool) (*session, *wire.Error) {
	t := &d.sessions
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ended := t.ends[a.id]
	s := t.byID[a.name]
	var err error
	switch {
	case ended, late && (s == nil || !n.calls || !s.works()):
		return nil, goneSession()
	case s != nil:
	case !n.memory:
		return newSession(a), nil
	case t.closed:
		err = dialect.ErrStopping
	case owner != "" && t.owned[owner] >= d.Limits.MaxSessionsPerPrincipal && !t.evict(owner),
		len(t.byID) >= d.Limits.MaxSessions && !t.evict(""):
		err = errFull
	}
	if err != nil {
		return nil, inAMinute(err)
	}
	if s == nil {
		s = d.enter(a, owner)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy++
	s.idle.Stop()
	if s.resting != nil {
		t.idle.Remove(s.resting)
		s.resting = nil
	}
	return s, nil
}

// inAMinute refuses what cannot be at present.
func inAMinute(err error) *wire.Error {
	rerr := wire.Refuse(http.StatusServiceUnavailable, wire.CodeInternalError, err.Error())
	rerr.RetryAfter = time.Minute
	return rerr
}

// enter puts a session into memory. The table is locked.
func (d *handshake) enter(a *agreed, owner string) *session {
	t := &d.sessions
	s := newSession(a)
	s.owner, s.changes = owner, d.Hub.Subscribe(true, true, true, nil)
	s.most = max(maxSessionBytes, 2*int(d.Limits.MaxBody))
	s.calls, s.waiting, s.streams = make(map[*sessionCall]struct{}), make(map[uint64]*question), make(map[string]*stream)
	// Other replicas, and this one later, name streams of the same session.
	s.stem = rand.Text()[:13] // 65 bits
	s.look = func(ctx context.Context) { d.look(ctx, s) }
	t.byID[a.name] = s
	t.owned[owner]++
	s.idle = time.AfterFunc(d.Limits.SessionIdle, func() { t.forget(s) })
	return s
}

// release ends what use began, or what begin did for a call.
func (d *handshake) release(s *session, c *sessionCall) {
	if s.idle == nil {
		return // it is not in memory
	}
	t := &d.sessions
	t.mu.Lock()
	defer t.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if c != nil {
		s.held -= c.message.Size + c.answers
		c.answers = 0
		delete(s.calls, c)
	}
	if s.busy--; s.busy > 0 || s.ctx.Err() != nil {
		return
	}
	switch {
	case !d.Turns.Now().Before(s.agreed.expires):
		t.remove(s, dialect.ErrSessionEnded)
	case !s.changed && len(s.streams) == 0: // nothing is left that a client may have missed
		t.remove(s, errEvicted)
	default:
		s.resting = t.idle.PushBack(s)
		s.idle.Reset(min(d.Limits.SessionIdle, s.agreed.expires.Sub(d.Turns.Now())))
	}
}

// evict takes out of memory what has been idle the longest: of an owner, or of all.
func (t *sessionTable) evict(owner string) bool {
	for e := t.idle.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*session); owner == "" || s.owner == owner {
			t.remove(s, errEvicted)
			return true
		}
	}
	return false
}

// forget takes a session out of memory that has been idle for long enough.
func (t *sessionTable) forget(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.resting != nil { // it may have been used while its time ran out
		t.remove(s, errEvicted)
	}
}

// end ends a session, and remembers that.
func (t *sessionTable) end(a *agreed, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends.add(a.id, a.expires, now)
	t.remove(t.byID[a.name], dialect.ErrSessionEnded)
}

// drop takes a session out of memory whose id is valid no more.
func (t *sessionTable) drop(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.remove(t.byID[name], dialect.ErrSessionEnded)
}

// remove ends what is in memory of a session: calls, streams and questions. The table is locked.
func (t *sessionTable) remove(s *session, why error) {
	if s == nil || t.byID[s.agreed.name] != s {
		return
	}
	delete(t.byID, s.agreed.name)
	if t.owned[s.owner]--; t.owned[s.owner] == 0 {
		delete(t.owned, s.owner)
	}
	if s.resting != nil {
		t.idle.Remove(s.resting)
		s.resting = nil
	}
	s.idle.Stop()
	s.cancel(why)
	s.changes.Close()
}

// inMemory returns the sessions in memory; with ids, those of them.
func (t *sessionTable) inMemory(ids []dialect.SessionID) (list []*session) {
	wanted := make(map[dialect.SessionID]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.byID {
		if ids == nil || wanted[s.agreed.id] {
			list = append(list, s)
		}
	}
	return list
}

func (t *sessionTable) has(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[name] != nil
}

// isClosed reports whether Close was called. Before, a server that stops still begins sessions, for any replica.
func (t *sessionTable) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// Drain implements [dialect.Sessions]: streams that belong to no request close.
func (d *handshake) Drain() {
	for _, s := range d.sessions.inMemory(nil) {
		s.carry(&s.general, nil, 0)
	}
}

func (d *handshake) Close(ctx context.Context) {
	t := &d.sessions
	t.mu.Lock()
	t.closed = true
	for _, s := range t.byID {
		t.remove(s, dialect.ErrStopping)
	}
	t.mu.Unlock()
	_ = t.running.Wait(ctx)
}

// Join implements [dialect.Sessions]. A request of the saga proposal is served whatever session it names, but a client that has
// one cancels by a notification there, and is using it.
func (d *handshake) Join(ctx context.Context, x *dialect.Exchange) (context.Context, func()) {
	if version := x.Header.Get(wire.VersionHeader); version != "" && !revision.Serves(version) {
		return ctx, func() {} // revisions of others have no sessions
	}
	s, rerr := d.sessionOf(ctx, x, needs{memory: true, quiet: true})
	if rerr != nil && rerr.Status == http.StatusServiceUnavailable { // no room, but what it has begun is found by it all the same
		if s, rerr = d.sessionOf(ctx, x, needs{quiet: true}); rerr == nil {
			x.Caller = d.caller(s.peer)
			x.Caller.Asked = nil                     // it could not be remembered what it was asked
			return ctx, func() { d.release(s, nil) } // it may be in memory by now
		}
	}
	if rerr != nil { // a request that only names it is not using it
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	call, err := s.begin(x.Message, cancel, another)
	caller, joined := d.caller(s.peer), ctx
	x.Caller = caller
	return ctx, func() {
		s.visited(joined, caller)
		if err == nil {
			d.release(s, call)
		}
		cancel(nil)
		d.release(s, nil)
	}
}

// endings are sessions that were ended before their time, and when that is over, for their ids are good until then: those that this
// process knows. The table's mutex guards them.
type endings map[tokens.ID]time.Time

// maxEndings bounds them. Above, the ids open again that expire first, for those whom they were given to.
const maxEndings = 10_000

func (e endings) add(id tokens.ID, expires, now time.Time) {
	if _, known := e[id]; known {
		return
	}
	maps.DeleteFunc(e, func(_ tokens.ID, expires time.Time) bool { return !now.Before(expires) })
	if e[id] = expires; len(e) > maxEndings {
		first := slices.MinFunc(slices.Collect(maps.Keys(e)), func(a, b tokens.ID) int { return e[a].Compare(e[b]) })
		delete(e, first)
	}
}
