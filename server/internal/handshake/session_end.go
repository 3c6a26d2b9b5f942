package handshake

import (
	"context"
	"time"

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
