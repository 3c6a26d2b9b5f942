package handshake

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"

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
	if d.sessions.ledgerAway() {
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

// touched has the documents of sessions be read that are in memory, of all if ids are nil. It is
// called by the hub, which must not wait.
func (d *handshake) touched(ids []dialect.SessionID) {
	t := &d.sessions
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	if ids == nil {
		for _, s := range t.byRandom {
			t.run(func() { d.refresh(s) })
		}
	}
	for _, id := range ids {
		if s := t.byRandom[id]; s != nil {
			t.run(func() { d.refresh(s) })
		}
	}
}

// maxReaders is how many documents are read at once that others have changed.
const maxReaders = 4

// refresh looks for what another replica has changed of a session.
func (d *handshake) refresh(s *session) {
	select {
	case d.refreshing <- struct{}{}:
		defer func() { <-d.refreshing }()
	case <-s.ctx.Done():
		return
	}
	d.look(s.ctx, s)
	s.mu.Lock()
	n := s.notifier
	s.mu.Unlock()
	if n != nil { // there may be another task
		n.Search()
	}
}
