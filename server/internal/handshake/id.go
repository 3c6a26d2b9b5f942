package handshake

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
	"github.com/mcpsaga/mcpsaga/internal/sessionid"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/server/internal/dialect"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A session's id is a token: what the handshake agreed on, sealed with the server's keys. So
// any replica that has the keys serves any request of any session, and a session that nobody
// uses takes no memory. Of what a client declares, the id holds what the server understands,
// which is a few bits, however much the client sends.

// agreed is what a session's id says.
type agreed struct {
	name      string    // the id as clients send it
	id        tokens.ID // its random part
	revision  revision
	features  steps.Features
	guests    dialect.Experiments
	resumable bool       // the client can resume requests
	level     slog.Level // of log messages, unless the client sets another
	principal [sha256.Size]byte
	expires   time.Time
}

// maxID is the longest id that is looked at. Those made are about half as long.
const maxID = 512

// newID returns the id of a new session of a principal.
func (d *handshake) newID(p *peer, principal string) (string, error) {
	now := d.Turns.Now()
	whose := sha256.Sum256([]byte(principal))
	claims := tokens.Claims{IssuedAt: now, ExpiresAt: now.Add(d.Limits.SessionTTL), Request: whose[:]}
	rand.Read(claims.ID[:]) // never fails (crypto/rand)
	terms := sessionid.Terms{Revision: byte(p.revision), Features: p.features, Guests: byte(p.guests), Resumable: p.resumable, Level: p.level.Level()}
	return d.Turns.Codec.Seal(tokens.Binding{Purpose: sessionid.Purpose}, now, &tokens.Contents{Claims: claims, State: terms.Bytes()})
}

// readID opens a session's id. late reports that its time is over.
func (d *handshake) readID(ctx context.Context, name string, log *slog.Logger) (a *agreed, late bool, rerr *wire.Error) {
	if len(name) > maxID {
		return nil, false, goneSession()
	}
	now := d.Turns.Now()
	x, untimely, err := d.Turns.Codec.OpenAnyTime(tokens.Binding{Purpose: sessionid.Purpose}, now, name)
	switch {
	case err != nil:
		log.InfoContext(ctx, "request refused", "reason", "the session id is not valid here", "error", err)
		return nil, false, goneSession()
	case untimely != nil && untimely.Reason == tokens.ReasonNotYetValid:
		return nil, false, wire.TryAgain("this server's clock is behind the session: send the same request again")
	}
	terms, known := sessionid.Parse(x.State)
	if !known || len(x.Claims.Request) != sha256.Size {
		log.InfoContext(ctx, "request refused", "reason", "the session id is of a newer program")
		return nil, false, goneSession()
	}
	a = &agreed{
		name: name, id: x.Claims.ID, revision: revision(terms.Revision), features: terms.Features, guests: dialect.Experiments(terms.Guests),
		resumable: terms.Resumable, level: terms.Level,
		principal: [sha256.Size]byte(x.Claims.Request), expires: x.Claims.ExpiresAt.Add(d.Turns.Codec.Options().Skew),
	}
	return a, untimely != nil, nil
}

// of reports whether the session is a principal's.
func (a *agreed) of(principal string) bool {
	whose := sha256.Sum256([]byte(principal))
	return subtle.ConstantTimeCompare(whose[:], a.principal[:]) == 1
}

// session is what names the session to others than the client.
func (a *agreed) session() string { return string(a.id[:]) }

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
	keys := d.Turns.Codec.Keyset()
	s, ended := t.use(name, keys, nil)
	if s != nil {
		a, late = s.agreed, !d.Turns.Now().Before(s.agreed.expires)
	} else {
		if a, late, rerr = d.readID(ctx, name, log); rerr != nil {
			if rerr.Status == http.StatusNotFound {
				t.drop(name) // its key was taken out of use
			}
			return nil, nil, nil, false, rerr
		}
		s, ended = t.use(name, keys, a)
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
