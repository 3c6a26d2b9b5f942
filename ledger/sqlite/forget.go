package sqlite

import (
	"context"
	"errors"
	"time"
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

// Forget implements [ledger.Store].
func (s *store) Forget(ctx context.Context, limit int) (removed int, err error) {
	for removed < limit {
		f := removal{limit: min(limit-removed, forgetBatch)}
		err := s.writer.do(ctx, &op{run: f.run})
		if err == errNothing {
			break
		}
		if err != nil {
			return removed, s.explain("clean", err)
		}
		removed += f.removed
	}
	for range vacuumSteps {
		err := s.writer.do(ctx, &op{run: vacuum})
		if err == errNothing {
			break
		}
		if err != nil {
			return removed, s.explain("shrink", err)
		}
	}
	return removed, nil
}

// removal removes a batch of records that need not be kept.
type removal struct{ limit, removed int }

func (f *removal) run(t *tx) error {
	var ids []int64
	t.st.over.BindInt64(1, time.Now().UnixMicro())
	t.st.over.BindInt64(2, int64(f.limit))
	if err := each(t.st.over, func() { ids = append(ids, t.st.over.ColumnInt64(0)) }); err != nil {
		return &broken{err}
	}
	if len(ids) == 0 {
		return errNothing
	}
	for _, id := range ids {
		t.st.forgetItems.BindInt64(1, id)
		t.st.forget.BindInt64(1, id)
		if err := errors.Join(run(t.st.forgetItems), run(t.st.forget)); err != nil {
			return &broken{err}
		}
	}
	clear(t.known)
	f.removed = len(ids)
	t.dirty = true
	return nil
}

// vacuum gives free pages at the end of the file back, if there are many more than will soon
// be used again.
func vacuum(t *tx) error {
	var free, all int
	_, err1 := one(t.st.freePages, func() { free = t.st.freePages.ColumnInt(0) })
	_, err2 := one(t.st.pages, func() { all = t.st.pages.ColumnInt(0) })
	if err := errors.Join(err1, err2); err != nil {
		return &broken{err}
	}
	if free <= spare || free <= all/4 {
		return errNothing
	}
	if err := each(t.st.vacuuming, func() {}); err != nil { // each row is a page
		return &broken{err}
	}
	t.dirty = true
	return nil
}
