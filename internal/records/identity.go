package records

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// identitySize is how long an identity is, in bytes: enough that no two ledgers have the same.
const identitySize = 8

// Identity returns what tells the ledger from all others. It is in the ledger, where whoever asks
// first puts it, and so goes where the ledger's data go. It is not sealed: it must be readable when
// the keys of today are disabled, and tells nothing. The store is asked once.
func (b *Book) Identity(ctx context.Context) ([]byte, error) {
	if id := b.identity.Load(); id != nil {
		return *id, nil
	}
	r := &ledger.Record{Key: b.plainName("identity"), Body: make([]byte, identitySize)}
	rand.Read(r.Body) // never fails
	for {
		found, err := b.load(ctx, r.Key)
		if found == nil && err == nil {
			err = b.swap(ctx, r)
			found = r
		}
		switch {
		case errors.Is(err, ErrConflict):
			continue
		case err != nil:
			return nil, err
		case len(found.Body) != identitySize:
			return nil, fmt.Errorf("%w: what tells it from others is damaged", ErrUnreadable)
		}
		b.identity.Store(&found.Body)
		return found.Body, nil
	}
}
