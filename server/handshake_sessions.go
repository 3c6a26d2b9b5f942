package server

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"
)

// sessionTable holds the sessions of the clients that speak HTTP.
type sessionTable struct {
	mu       sync.Mutex
	byID     map[string]*session
	owned    map[string]map[*session]struct{} // the sessions of each owner that is known
	stopping bool
	// running counts the calls under way; drained, if it is not nil, is closed when
	// there are none any more.
	running int
	drained chan struct{}
}

// closeGrace is how long [Server.Close] waits for calls to undo what they did.
const closeGrace = 5 * time.Second

// errFull: there are as many sessions as there may be.
var errFull = errors.New("there are too many sessions; try again later")

// generalStream is the name of the stream that belongs to no request.
const generalStream = "g"

// start begins a session for a client that has just been answered.
func (d *handshake) start(p *peer, c caller) (*session, error) {
	t := &d.sessions
	s := &session{
		peer: p, id: rand.Text(), principal: c.principal, owner: d.ownerOf(c), idleSince: time.Now(),
		streams: make(map[string]*stream), calls: make(map[string]*sessionCall), waiting: make(map[uint64]*question),
		most: max(maxSessionBytes, 2*int(d.opts.MaxBody)),
	}
	// The general stream never ends: one response is due and never comes.
	s.general = newStream(generalStream, 1, &s.sharing)
	s.streams[generalStream] = s.general
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.stopping:
		return nil, errStopping
	case s.owner != "" && len(t.owned[s.owner]) >= d.opts.MaxSessionsPerPrincipal && !t.evict(s.owner),
		len(t.byID) >= d.opts.MaxSessions:
		return nil, errFull
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
	s.idle = time.AfterFunc(d.opts.SessionIdle, func() { d.expire(s) })
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
	t.remove(oldest, errSessionEnded)
	return true
}

// use returns the session with that id and keeps it from expiring until release;
// or nil if there is none.
func (t *sessionTable) use(id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.byID[id]
	if s != nil {
		s.hold()
	}
	return s
}

func (s *session) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy++
	s.idle.Stop()
}

// release ends what hold began.
func (d *handshake) release(s *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy--; s.busy == 0 && s.ctx.Err() == nil {
		s.idleSince = time.Now()
		s.idle.Reset(d.opts.SessionIdle)
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
		t.remove(s, errSessionEnded)
	}
}

// end ends a session: its calls, its streams, its questions to the client.
func (d *handshake) end(s *session) {
	d.sessions.mu.Lock()
	defer d.sessions.mu.Unlock()
	d.sessions.remove(s, errSessionEnded)
}

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

// stop ends what could hold up the server's end: no session begins any more,
// clients are not waited for, and streams that belong to no request close. Turns
// under way go on.
func (d *handshake) stop() {
	t := &d.sessions
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopping = true
	for _, s := range t.byID {
		s.silence(errStopping)
		s.general.disconnect(0)
	}
}

// close ends all sessions, and waits a little for their calls to end.
func (d *handshake) close() {
	d.stop()
	t := &d.sessions
	t.mu.Lock()
	for _, s := range t.byID {
		t.remove(s, errStopping)
	}
	var drained chan struct{}
	if t.running > 0 {
		if t.drained == nil {
			t.drained = make(chan struct{})
		}
		drained = t.drained
	}
	t.mu.Unlock()
	if drained == nil {
		return
	}
	select {
	case <-drained:
	case <-time.After(closeGrace):
	}
}

// enter and leave count a call.
func (t *sessionTable) enter() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running++
}

func (t *sessionTable) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running--; t.running == 0 && t.drained != nil {
		close(t.drained)
		t.drained = nil
	}
}
