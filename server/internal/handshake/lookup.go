package handshake

import (
	"context"
	"log/slog"
	"net/http"
	"slices"

	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

// needs is what a request needs of its session.
type needs struct {
	memory bool // that it is in memory
	calls  bool // calls under way: for these, a session may be late
	quiet  bool // nothing is refused if there is no such session
	public bool // the answer is the same for everybody
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
	a, s, found, late, rerr := d.find(ctx, x, name, n.public, log)
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
		if s, rerr = d.enter(a, x, true); rerr != nil {
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

// find finds out what a session's id says, whose it is, and whether it goes on. The session
// is nil unless it is in memory; then it is in use. What the ledger remembers of it was found
// now; it is nil if there is no ledger or this does not say, and may be nil for what is public.
func (d *handshake) find(ctx context.Context, x *dialect.Exchange, name string, public bool, log *slog.Logger) (a *agreed, s *session, found *records.Session, late bool, rerr *wire.Error) {
	t := &d.sessions
	keys, ended := d.Turns.Codec.Keyset(), false
	if s = t.use(name, keys); s != nil {
		a, late = s.agreed, !d.Turns.Now().Before(s.agreed.expires)
	} else {
		if a, late, rerr = d.readID(ctx, name, log); rerr != nil {
			if rerr.Status == http.StatusNotFound {
				t.drop(name) // its key was taken out of use
			}
			return nil, nil, nil, false, rerr
		}
		s, ended = t.renew(a, keys)
	}
	if !a.of(x.Principal) {
		rerr = wire.Refuse(http.StatusForbidden, wire.CodeInvalidRequest, "the session belongs to somebody else")
		log.InfoContext(ctx, "request refused", "reason", "the session belongs to another principal")
	} else if ended {
		rerr = goneSession()
	} else if d.Tasks != nil && !(public && t.going.has(a.id)) { // which may be told a second too long
		if found = d.recordOf(ctx, a); found != nil && found.Ended {
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
	if version := x.Header.Get(wire.VersionHeader); version != "" && !slices.Contains(versions, version) {
		return ctx, func() {} // revisions of others have no sessions
	}
	s, rerr := d.sessionOf(ctx, x, needs{memory: true, quiet: true})
	if rerr != nil { // whoever only names it is not using it
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
