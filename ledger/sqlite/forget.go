package sqlite

import "context"

// forgetBatch is how many records are removed in one transaction, so that others need not wait long.
const forgetBatch = 64

// Forget implements [store.Store]. The file keeps its size, and what was removed makes room for others.
func (l *database) Forget(ctx context.Context, limit int) (removed int, err error) {
	for err == nil && removed < limit {
		n := 0
		err = l.writer.do(ctx, &op{run: func(w *writer) (err error) { n, err = w.forget(min(limit-removed, forgetBatch)); return err }})
		if err == nil {
			removed += n
		}
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
