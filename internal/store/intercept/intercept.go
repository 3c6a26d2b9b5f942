// Package intercept wraps a store: for tests in which it delays, counts or fails, and for one that is
// opened late.
package intercept

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// Store is a store whose calls may be delayed, counted or refused.
type Store struct {
	store.Store
	// Around is called for each call but Identity and Close, with what it is about; next makes the call. An error of
	// it is the call's, whether or not that was made.
	Around func(ctx context.Context, c Call, next func() error) error
}

// Call is a call of a store's method.
type Call struct {
	// Method is its name, such as "Write".
	Method string
	// ID is the record's, if it is about one.
	ID store.ID
	// Record is what is written, and Items are what is appended.
	Record *store.Record
	Items  []store.Item
	// Taken is what was taken, once the call was made.
	Taken *[]*store.Record
}

// Writes reports whether the call changes something.
func (c Call) Writes() bool { return c.Method == "Write" || c.Method == "Signal" }

func do[T any](ctx context.Context, i *Store, c Call, call func() (T, error)) (v T, err error) {
	err = i.Around(ctx, c, func() (err error) { v, err = call(); return err })
	if err != nil {
		v = *new(T)
	}
	return v, err
}

// Load implements [store.Store].
func (i *Store) Load(ctx context.Context, id store.ID) (*store.Record, error) {
	return do(ctx, i, Call{Method: "Load", ID: id}, func() (*store.Record, error) { return i.Store.Load(ctx, id) })
}

// Find implements [store.Store].
func (i *Store) Find(ctx context.Context, request store.ID) (*store.Record, error) {
	return do(ctx, i, Call{Method: "Find", ID: request}, func() (*store.Record, error) { return i.Store.Find(ctx, request) })
}

// Write implements [store.Store].
func (i *Store) Write(ctx context.Context, r *store.Record, c store.Change) error {
	before := *r
	err := i.Around(ctx, Call{Method: "Write", ID: r.ID, Record: r, Items: c.Items}, func() error { return i.Store.Write(ctx, r, c) })
	if err != nil {
		*r = before // it does not know
	}
	return err
}

// Signal implements [store.Store].
func (i *Store) Signal(ctx context.Context, id store.ID, head uint64, items ...store.Item) error {
	return i.Around(ctx, Call{Method: "Signal", ID: id, Items: items}, func() error { return i.Store.Signal(ctx, id, head, items...) })
}

// Take implements [store.Store].
func (i *Store) Take(ctx context.Context, t store.Take) (taken []*store.Record, next time.Time, err error) {
	var found []*store.Record
	taken, err = do(ctx, i, Call{Method: "Take", Taken: &found}, func() (_ []*store.Record, err error) {
		found, next, err = i.Store.Take(ctx, t)
		return found, err
	})
	return taken, next, err
}

// Renew implements [store.Store].
func (i *Store) Renew(ctx context.Context, held []store.Held, lease time.Duration) ([]store.ID, error) {
	return do(ctx, i, Call{Method: "Renew"}, func() ([]store.ID, error) { return i.Store.Renew(ctx, held, lease) })
}

// Log implements [store.Store].
func (i *Store) Log(ctx context.Context, id store.ID, after uint64, limit int) (*store.Log, error) {
	return do(ctx, i, Call{Method: "Log", ID: id}, func() (*store.Log, error) { return i.Store.Log(ctx, id, after, limit) })
}

// Listen implements [store.Store].
func (i *Store) Listen(ctx context.Context, changed func(store.ID, uint64)) error {
	return i.Around(ctx, Call{Method: "Listen"}, func() error { return i.Store.Listen(ctx, changed) })
}

// List implements [store.Store].
func (i *Store) List(ctx context.Context, f store.Filter, after store.Cursor, limit int) ([]*store.Record, error) {
	return do(ctx, i, Call{Method: "List"}, func() ([]*store.Record, error) { return i.Store.List(ctx, f, after, limit) })
}

// Forget implements [store.Store].
func (i *Store) Forget(ctx context.Context, limit int) (int, error) {
	return do(ctx, i, Call{Method: "Forget"}, func() (int, error) { return i.Store.Forget(ctx, limit) })
}

// Check implements [store.Store].
func (i *Store) Check(ctx context.Context) (time.Time, error) {
	return do(ctx, i, Call{Method: "Check"}, func() (time.Time, error) { return i.Store.Check(ctx) })
}
