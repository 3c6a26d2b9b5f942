package records

import (
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// EndSession remembers that a client has ended the session with that id, which was drawn at
// random, until keep. Ending it again changes nothing. What a principal has ended is counted
// apart from its sagas, so that neither takes the other's room.
func (b *Book) EndSession(ctx context.Context, principal string, id [16]byte, keep time.Time) error {
	if ended, err := b.SessionEnded(ctx, id); err != nil || ended {
		return err
	}
	owners, err := b.keyedNames("owner of ended sessions", principal)
	if err != nil {
		return err
	}
	if err := b.room(ctx, owners[0]); err != nil {
		return err
	}
	key := b.sessionName(id)
	body, err := b.seal(key, struct{}{})
	if err != nil {
		return err
	}
	err = b.swap(ctx, &ledger.Record{Key: key, Owner: owners[0], Body: body, Keep: keep})
	if errors.Is(err, ErrConflict) { // somebody else has ended it meanwhile
		return nil
	}
	return err
}

// SessionEnded reports whether a session was ended by [Book.EndSession]. That there is a
// record is enough: nobody else can make its name.
func (b *Book) SessionEnded(ctx context.Context, id [16]byte) (bool, error) {
	r, err := b.load(ctx, b.sessionName(id))
	return r != nil, err
}

func (b *Book) sessionName(id [16]byte) string { return b.plainName("ended session", string(id[:])) }
