package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// Swap implements [ledger.Store].
func (s *store) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	if err := r.Check(items...); err != nil {
		return err
	}
	// The writer may still be at it when ctx has ended and the caller uses his slices for something else.
	c := change{rec: *r, items: make([]ledger.Item, len(items))}
	c.rec.Body = clone(r.Body)
	size := len(r.Body)
	for i, item := range items {
		c.items[i] = ledger.Item{N: item.N, Body: clone(item.Body)}
		size += len(item.Body)
	}
	if err := s.writer.do(ctx, &op{run: c.run, bytes: size}); err != nil {
		return s.explain("change", err)
	}
	r.Rev++
	return nil
}

// clone never returns nil: the driver would make NULL of it.
func clone(b []byte) []byte { return append([]byte{}, b...) }

// change is one call of Swap.
type change struct {
	rec   ledger.Record
	items []ledger.Item
}

func (c *change) run(t *tx) error {
	var id int64
	var rev uint64
	var queue, owner sql.NullString
	var wake, keep sql.NullInt64
	err := t.st.find.QueryRow(c.rec.Key).Scan(&id, &rev, &queue, &owner, &wake, &keep)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return &broken{err}
	}
	if rev != c.rec.Rev {
		return ledger.ErrConflict
	}
	if len(c.items) > 0 {
		if _, err := t.st.savepoint.Exec(); err != nil {
			return &broken{err}
		}
	}
	r := &c.rec
	var done sql.Result
	switch q, o, w, k := name(r.Queue), name(r.Owner), micros(r.Wake), micros(r.Keep); {
	case rev == 0:
		if done, err = t.st.create.Exec(r.Key, q, o, w, k, r.Body); err == nil {
			id, err = done.LastInsertId()
		}
	case q != queue || o != owner:
		_, err = t.st.update.Exec(rev+1, r.Body, w, k, q, o, id)
	case w != wake || k != keep:
		_, err = t.st.reschedule.Exec(rev+1, r.Body, w, k, id)
	default:
		_, err = t.st.replace.Exec(rev+1, r.Body, id)
	}
	if err != nil {
		return &broken{err}
	}
	if len(c.items) > 0 {
		if err := c.append(t, id); err != nil {
			return err
		}
	}
	t.dirty = true
	n := news{key: r.Key, rev: rev + 1}
	if !r.Wake.IsZero() {
		n.queue, n.wake = r.Queue, r.Wake.UnixMicro()
	}
	t.news = append(t.news, n)
	return nil
}

// append adds the items, and takes the change of the record back if one of them is there already.
func (c *change) append(t *tx, id int64) error {
	for _, i := range c.items {
		done, err := t.st.addItem.Exec(id, int64(i.N), i.Body)
		if err != nil {
			return &broken{err}
		}
		if n, err := done.RowsAffected(); err != nil {
			return &broken{err}
		} else if n == 0 {
			_, err1 := t.st.back.Exec()
			_, err2 := t.st.release.Exec()
			if err := errors.Join(err1, err2); err != nil {
				return &broken{err}
			}
			return ledger.ErrConflict
		}
	}
	if _, err := t.st.release.Exec(); err != nil {
		return &broken{err}
	}
	return nil
}
