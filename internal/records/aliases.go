package records

import (
	"context"
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// An alias leads from what is known to one client, such as the id of a request in its session,
// to what is remembered under another name.

// SetAlias has a name lead to value until keep, whatever it led to before. Parts of the name
// must be ones that nobody else can guess. It fails with [ErrFull] if the principal has too many.
func (b *Book) SetAlias(ctx context.Context, principal string, value any, keep time.Time, name ...string) error {
	owners, err := b.keyedNames("owner of aliases", principal)
	if err != nil {
		return err
	}
	key := b.plainName("alias", name...)
	body, err := b.seal(key, value)
	if err != nil {
		return err
	}
	for range settleTries {
		r := &ledger.Record{Key: key, Owner: owners[0], Body: body, Keep: keep}
		old, err := b.load(ctx, key)
		switch {
		case err != nil:
			return err
		case old != nil:
			r.Rev = old.Rev
		default:
			if err := b.room(ctx, owners[0]); err != nil {
				return err
			}
		}
		if err = b.swap(ctx, r); !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return ErrConflict // somebody else writes the same all the time
}

// Alias reads into value what a name leads to. It reports false if that is nothing.
func (b *Book) Alias(ctx context.Context, value any, name ...string) (found bool, err error) {
	key := b.plainName("alias", name...)
	r, err := b.load(ctx, key)
	if r == nil || err != nil {
		return false, err
	}
	return true, b.open(key, r.Body, value)
}

// ChangeAlias changes what a name leads to, until keep: change is called with what that is, or
// with nothing if the name is new. It changes that, and reports whether there is anything to
// write; whenever somebody else was faster it is called again with what there is then, as with
// [Book.ChangeSession]. Else it is as [Book.SetAlias].
func ChangeAlias[T any](ctx context.Context, b *Book, principal string, keep time.Time, change func(value *T) bool, name ...string) error {
	owners, err := b.keyedNames("owner of aliases", principal)
	if err != nil {
		return err
	}
	key := b.plainName("alias", name...)
	for try := 0; ; try++ {
		r := &ledger.Record{Key: key, Owner: owners[0], Keep: keep}
		var value T
		old, err := b.load(ctx, key)
		if err == nil && old != nil {
			r.Rev = old.Rev
			err = b.open(key, old.Body, &value)
		}
		if err != nil {
			return overtaken(ctx, try, err)
		}
		if !change(&value) {
			return nil
		}
		if r.Rev == 0 {
			if err := b.room(ctx, owners[0]); err != nil {
				return err
			}
		}
		if r.Body, err = b.seal(key, value); err != nil {
			return err
		}
		if err = b.swap(ctx, r); !errors.Is(err, ErrConflict) {
			return overtaken(ctx, try, err)
		}
		if err := pause(ctx, try); err != nil {
			return overtaken(ctx, try+1, err)
		}
	}
}
