package store

import (
	"context"
	"time"
)

// Intercept is a store whose calls may be delayed, counted or refused.
type Intercept struct {
	Store
	// Around is called for each call but Close, with what it is about; next makes the call. An error of
	// it is the call's, whether or not that was made.
	Around func(ctx context.Context, c Call, next func() error) error
}

// Call is a call of a store's method.
type Call struct {
	// Method is its name, such as "Write".
	Method string
	// ID is the record's, if it is about one.
	ID ID
	// Record is what is written, and Items are what is appended.
	Record *Record
	Items  []Item
	// Taken is what was taken, once the call was made.
	Taken *[]*Record
}

// Writes reports whether the call changes something.
func (c Call) Writes() bool { return c.Method == "Write" || c.Method == "Signal" }

func do[T any](ctx context.Context, i *Intercept, c Call, call func() (T, error)) (v T, err error) {
	err = i.Around(ctx, c, func() (err error) { v, err = call(); return err })
	if err != nil {
		v = *new(T)
	}
	return v, err
}

// Load implements [Store].
func (i *Intercept) Load(ctx context.Context, id ID) (*Record, error) {
	return do(ctx, i, Call{Method: "Load", ID: id}, func() (*Record, error) { return i.Store.Load(ctx, id) })
}

// Find implements [Store].
func (i *Intercept) Find(ctx context.Context, request ID) (*Record, error) {
	return do(ctx, i, Call{Method: "Find", ID: request}, func() (*Record, error) { return i.Store.Find(ctx, request) })
}

// Write implements [Store].
func (i *Intercept) Write(ctx context.Context, r *Record, c Change) error {
	before := *r
	err := i.Around(ctx, Call{Method: "Write", ID: r.ID, Record: r, Items: c.Items}, func() error { return i.Store.Write(ctx, r, c) })
	if err != nil {
		*r = before // it does not know
	}
	return err
}

// Signal implements [Store].
func (i *Intercept) Signal(ctx context.Context, id ID, head uint64, items ...Item) error {
	return i.Around(ctx, Call{Method: "Signal", ID: id, Items: items}, func() error { return i.Store.Signal(ctx, id, head, items...) })
}

// Take implements [Store].
func (i *Intercept) Take(ctx context.Context, t Take) (taken []*Record, next time.Time, err error) {
	var found []*Record
	taken, err = do(ctx, i, Call{Method: "Take", Taken: &found}, func() (_ []*Record, err error) {
		found, next, err = i.Store.Take(ctx, t)
		return found, err
	})
	return taken, next, err
}

// Renew implements [Store].
func (i *Intercept) Renew(ctx context.Context, held []Held, lease time.Duration) ([]ID, error) {
	return do(ctx, i, Call{Method: "Renew"}, func() ([]ID, error) { return i.Store.Renew(ctx, held, lease) })
}

// Log implements [Store].
func (i *Intercept) Log(ctx context.Context, id ID, after uint64, limit int) (*Log, error) {
	return do(ctx, i, Call{Method: "Log", ID: id}, func() (*Log, error) { return i.Store.Log(ctx, id, after, limit) })
}

// Heads implements [Store].
func (i *Intercept) Heads(ctx context.Context, ids []ID) ([]uint64, error) {
	return do(ctx, i, Call{Method: "Heads"}, func() ([]uint64, error) { return i.Store.Heads(ctx, ids) })
}

// Identity implements [Store].
func (i *Intercept) Identity(ctx context.Context) (ID, error) {
	return do(ctx, i, Call{Method: "Identity"}, func() (ID, error) { return i.Store.Identity(ctx) })
}

// Listen implements [Store].
func (i *Intercept) Listen(ctx context.Context, changed func(ID, uint64)) error {
	return i.Around(ctx, Call{Method: "Listen"}, func() error { return i.Store.Listen(ctx, changed) })
}

// List implements [Store].
func (i *Intercept) List(ctx context.Context, f Filter, after Cursor, limit int) ([]*Record, error) {
	return do(ctx, i, Call{Method: "List"}, func() ([]*Record, error) { return i.Store.List(ctx, f, after, limit) })
}

// Forget implements [Store].
func (i *Intercept) Forget(ctx context.Context, limit int) (int, error) {
	return do(ctx, i, Call{Method: "Forget"}, func() (int, error) { return i.Store.Forget(ctx, limit) })
}

// Check implements [Store].
func (i *Intercept) Check(ctx context.Context) (time.Time, error) {
	return do(ctx, i, Call{Method: "Check"}, func() (time.Time, error) { return i.Store.Check(ctx) })
}
