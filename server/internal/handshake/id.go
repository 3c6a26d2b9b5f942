package handshake

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"time"

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

// peer is the client as it was when the session began.
func (a *agreed) peer() *peer {
	p := &peer{revision: a.revision, features: a.features, guests: a.guests, resumable: a.resumable}
	p.level.Set(a.level)
	return p
}
