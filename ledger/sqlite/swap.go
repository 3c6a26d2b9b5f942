package sqlite

import (
	"bytes"
	"context"

	driver "zombiezen.com/go/sqlite"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// Swap implements [ledger.Store].
func (s *store) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	if err := r.Check(items...); err != nil {
		return err
	}
	// The writer may still be at it when ctx has ended and the caller uses his slices for something else.
	c := change{rec: *r, items: make([]ledger.Item, len(items))}
	c.rec.Body = bytes.Clone(r.Body)
	size := len(r.Body)
	for i, item := range items {
		c.items[i] = ledger.Item{N: item.N, Body: bytes.Clone(item.Body)}
		size += len(item.Body)
	}
	if err := s.writer.do(ctx, &op{run: c.run, bytes: size}); err != nil {
		return s.explain("change", err)
	}
	r.Rev++
	return nil
}

// change is one call of Swap.
type change struct {
	rec   ledger.Record
	items []ledger.Item
}

func (c *change) run(t *tx) error {
	var id int64
	var err error
	if c.rec.Rev == 0 {
		id, err = c.create(t)
	} else {
		id, err = c.replace(t)
	}
	if err != nil {
		return err
	}
	if err := c.append(t, id); err != nil {
		return err
	}
	r := &c.rec
	t.known.note(r, id)
	n := news{key: r.Key, rev: r.Rev + 1}
	if !r.Wake.IsZero() {
		n.queue, n.wake = r.Queue, r.Wake.UnixMicro()
	}
	t.news = append(t.news, n)
	return nil
}

// create makes the record, unless there is one.
func (c *change) create(t *tx) (id int64, err error) {
	if err := c.fresh(t, 0); err != nil {
		return 0, err
	}
	bindAll(t.st.create, &c.rec)
	t.st.create.BindBytes(6, c.rec.Body)
	if err := run(t.st.create); err != nil {
		return 0, &broken{err}
	}
	if t.st.Changes() == 0 {
		return 0, ledger.ErrConflict
	}
	t.dirty = true
	return t.st.LastInsertRowID(), nil
}

// replace writes the record that there is.
func (c *change) replace(t *tx) (id int64, err error) {
	r, st := &c.rec, &t.st
	id, named, timed, ok := t.known.find(r)
	if !ok {
		var rev uint64
		bindAll(st.find, r)
		_, err := one(st.find, func() {
			id, rev = st.find.ColumnInt64(0), uint64(st.find.ColumnInt64(1))
			named, timed = st.find.ColumnBool(2), st.find.ColumnBool(3)
		})
		if err != nil {
			return 0, &broken{err}
		}
		if rev != r.Rev {
			return 0, ledger.ErrConflict
		}
	}
	if err := c.fresh(t, id); err != nil {
		return 0, err
	}
	do := st.replace
	if !named {
		do = st.update
		bindName(do, 6, r.Queue)
		bindName(do, 7, r.Owner)
	} else if !timed {
		do = st.reschedule
	}
	if do != st.replace {
		bindTime(do, 4, r.Wake)
		bindTime(do, 5, r.Keep)
	}
	do.BindInt64(1, id)
	do.BindInt64(2, int64(r.Rev+1))
	do.BindBytes(3, r.Body)
	if err := run(do); err != nil {
		return 0, &broken{err}
	}
	t.dirty = true
	return id, nil
}

// bindAll sets key, queue, owner, wake and keep, which are the first parameters of a statement.
func bindAll(s *driver.Stmt, r *ledger.Record) {
	s.BindText(1, r.Key)
	bindName(s, 2, r.Queue)
	bindName(s, 3, r.Owner)
	bindTime(s, 4, r.Wake)
	bindTime(s, 5, r.Keep)
}

// fresh fails if one of the items is there already, or given twice. It is called before anything
// is changed, so that nothing need be taken back.
func (c *change) fresh(t *tx, id int64) error {
	var given map[uint64]bool
	if len(c.items) > 1 {
		given = make(map[uint64]bool, len(c.items))
	}
	for _, i := range c.items {
		if given[i.N] {
			return ledger.ErrConflict
		}
		if given != nil {
			given[i.N] = true
		}
		if c.rec.Rev == 0 {
			continue // what is not there has none
		}
		t.st.item.BindInt64(1, id)
		t.st.item.BindInt64(2, int64(i.N))
		found, err := one(t.st.item, func() {})
		if err != nil {
			return &broken{err}
		}
		if found {
			return ledger.ErrConflict
		}
	}
	return nil
}

// append adds the items.
func (c *change) append(t *tx, id int64) error {
	for _, i := range c.items {
		add := t.st.addItem
		add.BindInt64(1, id)
		add.BindInt64(2, int64(i.N))
		add.BindBytes(3, i.Body)
		if err := run(add); err != nil {
			return &broken{err}
		}
	}
	return nil
}
