package handshake

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
)

// Of the connections of a session that carry what belongs to no request, the newest counts, on
// whatever replica it is. With a ledger nothing of such a stream is kept between two of them:
// the ids of its events say up to where the client has heard, and any replica tells the rest.

// listens has the client get what belongs to no request from where it stopped. here says that the
// stream which it reads on is in memory, with what it has not read.
func (d *handshake) listens(ctx context.Context, s *session, x *dialect.Exchange, here bool) {
	if d.Core == nil {
		s.linger()
		return
	}
	s.mu.Lock()
	found := s.record
	s.mu.Unlock()
	id := x.Header.Get("Last-Event-ID")
	switch {
	case here:
	case id != "":
		told, _ := strconv.ParseUint(id[strings.LastIndexByte(id, '.')+1:], 36, 64)
		s.changes.CatchUp(told)
	case found == nil:
	case found.Value.Carrier != "": // it does not say what it has heard from the one before
		s.changes.CatchUp(found.Value.Since)
	default:
		for _, u := range found.Value.URIs {
			s.changes.CatchUpOn(u.URI, u.From)
		}
	}
	s.mu.Lock()
	s.principal = x.Principal
	s.mu.Unlock()
	d.carry(ctx, s)
}

// carry writes down that a connection of this replica carries what belongs to no request. If
// the ledger does not take it, the connection carries that all the same, and so may another.
func (d *handshake) carry(ctx context.Context, s *session) {
	if d.sessions.going.down() {
		return
	}
	name := d.Hub.By() + "." + rand.Text()[:13]
	since := s.changes.Told()
	s.mu.Lock()
	s.carrier, s.carrying = name, true
	principal := s.principal
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	err := d.change(ctx, s, principal, func(r *settings) (bool, error) {
		if r.Ended {
			return false, errors.New("the session has ended")
		}
		r.Carrier, r.Since = name, since
		return true, nil
	})
	if err != nil && ctx.Err() == nil {
		d.Log.InfoContext(ctx, "another connection of the same session may get the same", "error", err)
	}
	s.mu.Lock()
	if s.carrier == name {
		s.carrying = false
		if err != nil {
			s.carrier = ""
		}
	}
	over := s.superseded()
	s.mu.Unlock()
	if over {
		s.general.carriedBy(nil, 0)
	}
}

// processOf is the process whose connection a carrier is.
func processOf(carrier string) string {
	by, _, _ := strings.Cut(carrier, ".")
	return by
}

// position is what the id of an event says of how much the client has heard; empty if no replica could
// tell the rest. changes are nil if the stream belongs to a request.
func (s *session) position(changes *dialect.Subscription) string {
	if changes == nil {
		return ""
	}
	n := changes.Told()
	if n == 0 {
		return ""
	}
	return "." + strconv.FormatUint(n, 36)
}

// stale are sessions whose record is to be read, as another replica has changed it.
type stale struct {
	mu      sync.Mutex
	ids     map[tokens.ID]struct{}
	readers int
}

// maxReaders is how many records are read at once that others have changed.
const maxReaders = 4

// touched has the records of sessions be read that are in memory, of all if ids are nil. It is
// called by the hub, which must not wait.
func (d *handshake) touched(ids []dialect.SessionID) {
	t := &d.sessions
	var here []tokens.ID
	t.mu.Lock()
	if ids == nil {
		for id := range t.byRandom {
			here = append(here, id)
		}
	}
	for _, id := range ids {
		if t.byRandom[id] != nil {
			here = append(here, id)
		}
	}
	closed := t.closed
	t.mu.Unlock()
	if closed {
		return
	}
	t.stale.mu.Lock()
	defer t.stale.mu.Unlock()
	if t.stale.ids == nil {
		t.stale.ids = make(map[tokens.ID]struct{})
	}
	for _, id := range here {
		t.stale.ids[id] = struct{}{}
	}
	for range min(maxReaders-t.stale.readers, len(t.stale.ids)) {
		t.stale.readers++
		t.run(d.refresh)
	}
}

// refresh reads records until none are stale.
func (d *handshake) refresh() {
	t := &d.sessions
	for {
		t.stale.mu.Lock()
		var next tokens.ID
		for next = range t.stale.ids {
			break
		}
		if len(t.stale.ids) == 0 {
			t.stale.readers--
			t.stale.mu.Unlock()
			return
		}
		delete(t.stale.ids, next)
		t.stale.mu.Unlock()
		t.mu.Lock()
		s := t.byRandom[next]
		t.mu.Unlock()
		if s != nil {
			d.look(s.ctx, s)
			s.mu.Lock()
			tells := s.teller
			s.mu.Unlock()
			if tells != nil { // there may be another task
				tells.Search()
			}
		}
	}
}
