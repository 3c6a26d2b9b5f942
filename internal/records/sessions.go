package records

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// Session is what is remembered of a session beside what its id says. There is no record
// until there is something to say.
type Session struct {
	// Ended: its client has ended it. Nothing of it changes any more.
	Ended bool `json:"ended,omitzero"`
	// Level is that of log messages, if the client has set one.
	Level *slog.Level `json:"level,omitzero"`
	// URIs are the resources that the client has subscribed to.
	URIs []SessionURI `json:"uris,omitzero"`
	// Carrier names the connection that carries what belongs to no request; empty if there
	// was none yet. The newest counts.
	Carrier string `json:"carrier,omitzero"`
	// Since is what was the news when the carrier began.
	Since Position `json:"since,omitzero"`

	key string
	rev uint64
}

// SessionURI is a resource that a client has subscribed to.
type SessionURI struct {
	URI string `json:"uri"`
	// From is what was the news then.
	From Position `json:"from,omitzero"`
}

// Rev grows with each change of the record; 0 means that there is none.
func (s *Session) Rev() uint64 { return s.rev }

// Index returns the place of a URI among those subscribed to, or -1.
func (s *Session) Index(uri string) int {
	return slices.IndexFunc(s.URIs, func(u SessionURI) bool { return u.URI == uri })
}

// Session returns what is remembered of the session with that id, which was drawn at random.
// If the record cannot be read it has ended: its client begins another one, while a session
// that its client has ended must not go on.
func (b *Book) Session(ctx context.Context, id [16]byte) (*Session, error) {
	s := &Session{key: b.plainName("session", string(id[:]))}
	r, err := b.load(ctx, s.key)
	if err != nil || r == nil {
		return s, err
	}
	if err := b.open(r.Key, r.Body, s); err != nil {
		s.Ended = true
	}
	s.rev = r.Rev
	return s, nil
}

// ChangeSession changes what is remembered of a session until keep. It begins with what was
// found before, or with nil; whenever somebody else was faster, change is called again with
// what there is then, of which it may replace fields, but not change what they refer to. If it
// fails nothing is written, nor if it reports that there is nothing to change. What a
// principal has in sessions is counted apart from its sagas, so that neither takes the
// other's room.
//
// It is tried again for as long as ctx goes on, and fails with [ErrConflict] if others were
// faster all that time. How often says nothing: each time it was one of them that got ahead.
func (b *Book) ChangeSession(ctx context.Context, principal string, id [16]byte, keep time.Time, found *Session, change func(*Session) (bool, error)) (*Session, error) {
	for try := 0; ; try++ {
		if found == nil {
			var err error
			if found, err = b.Session(ctx, id); err != nil {
				return nil, overtaken(ctx, try, err)
			}
		}
		next := *found
		changed, err := change(&next)
		if err != nil || !changed {
			return found, err
		}
		owners, err := b.often("owner of sessions", principal)
		if err != nil {
			return nil, err
		}
		if next.rev == 0 {
			if err := b.room(ctx, owners[0]); err != nil {
				return nil, err
			}
		}
		body, err := b.seal(next.key, &next)
		if err != nil {
			return nil, err
		}
		r := &ledger.Record{Key: next.key, Rev: next.rev, Owner: owners[0], Body: body, Keep: keep}
		switch err = b.swap(ctx, r); {
		case err == nil:
			next.rev = r.Rev
			return &next, nil
		case !errors.Is(err, ErrConflict):
			return nil, overtaken(ctx, try, err)
		}
		found = nil
		if err := pause(ctx, try); err != nil {
			return nil, overtaken(ctx, try+1, err)
		}
	}
}

// overtaken says that others were faster, if that is why ctx has ended before the change was made.
func overtaken(ctx context.Context, conflicts int, err error) error {
	if conflicts > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return err
}
