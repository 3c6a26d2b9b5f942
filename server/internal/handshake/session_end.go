package handshake

import (
	"container/list"
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
)

// How sessions leave memory: when nothing is left to remember, when others need the room, and when they
// end.

// closeGrace is how long Close waits for calls to undo what they did.
const closeGrace = 5 * time.Second

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
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.byID {
		s.general.carriedBy(nil, 0)
	}
}

// isClosed reports whether the dialect's Close was called. Before, a server that stops still begins
// sessions: any replica continues them.
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
