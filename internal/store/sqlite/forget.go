package sqlite

import (
	"context"
	"errors"
)

const (
	// forgetBatch is how many records are removed in one transaction, so that others
	// need not wait long.
	forgetBatch = 64
	// vacuumSteps is how many times a call of Forget gives 256 pages, 1 MiB, back to the
	// file system.
	vacuumSteps = 16
	// spare is how many free pages are kept at least; beyond that, a quarter of the file.
	spare = 1024
)

// Forget implements [store.Store].
func (l *ledger) Forget(ctx context.Context, limit int) (removed int, err error) {
	for removed < limit {
		n := 0
		err := l.writer.do(ctx, &op{run: func(w *writer) (err error) { n, err = w.remove(min(limit-removed, forgetBatch)); return err }})
		if err == errNothing {
			break
		}
		if err != nil {
			return removed, l.explain("clean", err)
		}
		removed += n
	}
	for range vacuumSteps {
		err := l.writer.do(ctx, &op{run: (*writer).shrink})
		if err == errNothing {
			break
		}
		if err != nil {
			return removed, l.explain("shrink", err)
		}
	}
	return removed, nil
}

// remove removes records that need not be kept.
func (w *writer) remove(limit int) (int, error) {
	var rows []int64
	_, err := each(w.over, func() { rows = append(rows, w.over.ColumnInt64(0)) }, w.now(), limit)
	if err != nil {
		return 0, err
	}
	if len(rows) == 0 {
		return 0, errNothing
	}
	for _, n := range rows {
		if err := errors.Join(exec(w.forgetItems, n), exec(w.stateless, n), exec(w.forget, n)); err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

// shrink gives free pages at the end of the file back, if there are many more than will soon
// be used again.
func (w *writer) shrink() error {
	var free, all int
	_, err := each(w.freePages, func() { free = w.freePages.ColumnInt(0) })
	if err == nil {
		_, err = each(w.pages, func() { all = w.pages.ColumnInt(0) })
	}
	if err != nil {
		return err
	}
	if free <= spare || free <= all/4 {
		return errNothing
	}
	return exec(w.vacuum) // each row is a page
}
