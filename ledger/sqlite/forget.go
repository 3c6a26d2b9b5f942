package sqlite

import "context"

const (
	forgetBatch = 64   // records that are removed in one transaction, so that others need not wait long
	shrinkSteps = 16   // times that a call of Forget gives 256 pages, 1 MiB, back to the file system
	spare       = 1024 // free pages that are kept at least; beyond that, a quarter of the file
)

func (l *database) Forget(ctx context.Context, limit int) (removed int, err error) {
	for err == nil && removed < limit {
		n := 0
		err = l.writer.do(ctx, &op{run: func(w *writer) (err error) { n, err = w.forget(min(limit-removed, forgetBatch)); return err }})
		if err == nil {
			removed += n
		}
	}
	for step := 0; step < shrinkSteps && (err == nil || err == errNothing && step == 0); step++ {
		err = l.writer.do(ctx, &op{run: (*writer).shrink})
	}
	if err == errNothing {
		err = nil
	}
	return removed, l.explain("clean", err)
}

func (w *writer) forget(limit int) (int, error) {
	var over []int64
	_, err := w.each("SELECT n FROM records WHERE keep <= ? ORDER BY keep LIMIT ?", func(r *row) { over = append(over, r.ColumnInt64(0)) }, w.ledger.now(), limit)
	if err == nil && len(over) == 0 {
		err = errNothing
	}
	for _, n := range over {
		if err == nil {
			err = w.remove(n)
		}
	}
	return len(over), err
}

func (w *writer) remove(n int64) error {
	for _, query := range []string{"DELETE FROM items WHERE record = ?", "DELETE FROM states WHERE record = ?", "DELETE FROM records WHERE n = ?"} {
		if err := w.exec(query, n); err != nil {
			return err
		}
	}
	return nil
}

// shrink gives free pages at the end of the file back, if there are many more than will soon
// be used again.
func (w *writer) shrink() error {
	free, err := w.number("PRAGMA freelist_count")
	if err != nil {
		return err
	}
	all, err := w.number("PRAGMA page_count")
	if err != nil {
		return err
	}
	if free <= spare || free <= all/4 {
		return errNothing
	}
	return w.exec("PRAGMA incremental_vacuum(256)") // each row is a page
}
