package records

import (
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// ErrNoBlob: there is no such blob, or no more.
var ErrNoBlob = errors.New("records: no such blob")

type blob struct {
	Data []byte `json:"data"`
}

// PutBlob keeps data of a principal under an id that was drawn at random.
func (b *Book) PutBlob(ctx context.Context, principal string, id [16]byte, data []byte, keep time.Time) error {
	owner, err := b.owner(principal)
	if err != nil {
		return err
	}
	if err := b.room(ctx, owner); err != nil {
		return err
	}
	key := b.plainName("blob", principal, string(id[:]))
	body, err := b.seal(key, blob{data})
	if err != nil {
		return err
	}
	return b.swap(ctx, &ledger.Record{Key: key, Owner: owner, Body: body, Keep: keep})
}

// Blob returns what was kept under an id, or [ErrNoBlob].
func (b *Book) Blob(ctx context.Context, principal string, id [16]byte) ([]byte, error) {
	key := b.plainName("blob", principal, string(id[:]))
	r, err := b.load(ctx, key)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, ErrNoBlob
	}
	var found blob
	err = b.open(key, r.Body, &found)
	return found.Data, err
}
