package handshake

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// sessionTable holds the sessions of the clients that speak HTTP.
type sessionTable struct {
	mu       sync.Mutex
	byID     map[string]*session
	owned    map[string]map[*session]struct{} // the sessions of each owner that is known
	stopping bool
	// running are the calls under way.
	running dialect.Tally
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
	s.general = newStream(generalStream, 1, &s.sharing)
	s.streams[generalStream] = s.general
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	switch {
	case t.stopping:
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

// end ends a session: its calls, its streams, its questions to the client.
func (d *handshake) end(s *session) {
	d.sessions.mu.Lock()
	defer d.sessions.mu.Unlock()
	d.sessions.remove(s, dialect.ErrSessionEnded)
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

// Drain implements [dialect.Drainer]: no session begins any more, clients are not waited
// for, and streams that belong to no request close.
func (d *handshake) Drain() {
	d.silence(dialect.ErrStopping)
	t := &d.sessions
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopping = true
	for _, s := range t.byID {
		s.silence(dialect.ErrStopping)
		s.general.disconnect(0)
	}
}

// Close implements [dialect.Drainer]: it ends all sessions.
func (d *handshake) Close() {
	d.Drain()
	t := &d.sessions
	t.mu.Lock()
	for _, s := range t.byID {
		t.remove(s, dialect.ErrStopping)
	}
	t.mu.Unlock()
	select {
	case <-t.running.Idle():
	case <-time.After(closeGrace):
	}
}
