package records

import (
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// Call is what is remembered of a first call that came with an idempotency key.
type Call struct {
	// ID is the saga that it began.
	ID []byte `json:"id"`
	// Digest is that of what was called.
	Digest []byte `json:"digest"`
	// Keep is until when it is remembered.
	Keep time.Time `json:"keep"`

	key string
	rev uint64
}

// Call returns the call that a principal made with a key. If there is none it is the given
// one from now on; made says so.
func (b *Book) Call(ctx context.Context, principal, key string, c Call) (found *Call, made bool, err error) {
	names, err := b.keyedNames("call", principal, key)
	if err != nil {
		return nil, false, err
	}
	for {
		for _, name := range names {
			r, err := b.load(ctx, name)
			if err != nil {
				return nil, false, err
			}
			if r == nil {
				continue
			}
			found := &Call{key: r.Key, rev: r.Rev}
			return found, false, b.open(r.Key, r.Body, found)
		}
		c.key, c.rev = names[0], 0
		if err := b.PutCall(ctx, &c); !errors.Is(err, ErrConflict) {
			return &c, err == nil, err
		}
	}
}

// PutCall writes a call. One that was found leads to another saga then. It is on nobody's account: the
// saga is, as long as that goes on, and calls are known for a day, in which a busy principal has more
// of them than sagas under way.
func (b *Book) PutCall(ctx context.Context, c *Call) error {
	body, err := b.seal(c.key, c)
	if err != nil {
		return err
	}
	r := &ledger.Record{Key: c.key, Rev: c.rev, Body: body, Keep: c.Keep}
	if err := b.swap(ctx, r); err != nil {
		return err
	}
	c.rev = r.Rev
	return nil
}
