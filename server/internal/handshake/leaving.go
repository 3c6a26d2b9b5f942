package handshake

import (
	"context"
	"iter"
	"slices"
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
