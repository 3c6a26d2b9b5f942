package durable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// ErrConflict: others have changed a document at the same time, each time that it was tried.
var ErrConflict = store.ErrConflict

// Document is something small that a dialect remembers beside sagas, such as what a session has
// subscribed to. It is a row without a saga.
type Document[T any] struct {
	Value T
	// record is as it was read or written; its Head is 0 if there is none yet.
	record store.Record
}

// Exists reports whether there is such a document.
func (d *Document[T]) Exists() bool { return d.record.Head > 0 }

// Version grows with each change of the document; 0 means that there is none.
func (d *Document[T]) Version() uint64 { return d.record.Head }

// Name names a document.
type Name = store.ID

// DocumentName names a document among all: parts must be such that others cannot guess them.
func (c *Core) DocumentName(kind string, parts ...string) Name {
	return c.rows.hashID("document "+kind, parts...)
}

// ReadDocument returns a document, which is empty if there is none. It fails with [ErrUnreadable] if it
// cannot be read here.
func ReadDocument[T any](ctx context.Context, c *Core, name store.ID) (*Document[T], error) {
	d := new(Document[T])
	record, err := insist(ctx, &c.rows.reads, func() (*store.Record, error) { return c.rows.store.Load(ctx, name) })
	switch {
	case errors.Is(err, store.ErrNotFound):
		d.record.ID = name
		return d, nil
	case err != nil:
		return nil, err
	}
	d.record = *record
	return d, c.rows.open(name, placeState, record.Head, record.State, &d.Value)
}

// ChangeDocument changes a document, or makes it, and has it kept until then. It begins with what was found
// before, or with nil; whenever another process was faster, change is called again with what there is
// then. If change fails, or reports that there is nothing to change, nothing is written. What a principal
// has in documents is counted apart from its sagas.
//
// It is tried again until ctx ends, and fails with [ErrConflict] if others were
// faster all that time.
func ChangeDocument[T any](ctx context.Context, c *Core, principal string, name store.ID, keep time.Time, found *Document[T], change func(*T) (bool, error)) (*Document[T], error) {
	for try := 0; ; try++ {
		if found == nil {
			var err error
			if found, err = ReadDocument[T](ctx, c, name); err != nil {
				return nil, overtaken(ctx, try, err)
			}
		}
		next := *found
		changed, err := change(&next.Value)
		if err != nil || !changed {
			return found, err
		}
		if err = c.writeDocument(ctx, principal, &next.record, keep, &next.Value); err == nil {
			return &next, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return nil, overtaken(ctx, try, err)
		}
		found = nil
		// A little, at random, so that those who write the same document do not meet again.
		if err := sleep(ctx, rand.N(min(time.Millisecond<<min(try, 6), 50*time.Millisecond))+1); err != nil {
			return nil, overtaken(ctx, try+1, failure(ctx, err))
		}
	}
}

// SetDocument is [ChangeDocument] to a value, whatever was there before.
func SetDocument[T any](ctx context.Context, c *Core, principal string, name Name, keep time.Time, value T) error {
	_, err := ChangeDocument(ctx, c, principal, name, keep, nil, func(v *T) (bool, error) {
		*v = value
		return true, nil
	})
	return err
}

func (c *Core) writeDocument(ctx context.Context, principal string, r *store.Record, keep time.Time, value any) (err error) {
	owner := c.rows.owner(principal)
	r.Audience, r.Owner, r.Account, r.Tool, r.Mode, r.Status = c.rows.audience, owner, owner, "document", store.ModeSession, store.Waiting
	r.Format, r.Keep = format, keep
	if r.Head > 0 {
		r.Fence++
	}
	if r.State, err = c.rows.seal(r.ID, placeState, r.Head+1, value); err != nil {
		return err
	}
	items, err := c.rows.sealItems(r.ID, r.Head, []event{{kind: kindTurn}})
	if err != nil {
		return err
	}
	items[0].Lasting = false // it only counts
	r.Floor = r.Head
	_, err = insist(ctx, &c.rows.writes, func() (any, error) {
		return nil, c.rows.store.Write(ctx, r, store.Change{Items: items, Most: max(0, c.MaxSagas)})
	})
	if errors.Is(err, store.ErrUnknown) {
		err = store.ErrConflict // it is looked at
	}
	return fullLedger(err)
}

// overtaken says that others were faster, if that is why ctx has ended before a change was made.
func overtaken(ctx context.Context, conflicts int, err error) error {
	if conflicts > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	}
	return err
}
