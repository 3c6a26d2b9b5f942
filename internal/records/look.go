package records

import "context"

// Look returns how it is with a saga that [Book.List] has shown. It fails with
// [ErrNothingWaits] if there is nothing to undo any more.
func (b *Book) Look(ctx context.Context, key string) (Waiting, error) {
	r, err := b.load(ctx, key)
	switch {
	case err != nil:
		return Waiting{}, err
	case r == nil || r.Wake.IsZero():
		return Waiting{}, ErrNothingWaits
	}
	e, err := b.entry(r)
	if err != nil {
		return Waiting{}, err
	}
	return e.waiting(), nil
}
