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
	rows, err := t.st.over.Query(time.Now().UnixMicro(), f.limit)
	if err != nil {
		return &broken{err}
	}
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return &broken{errors.Join(err, rows.Close())}
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return &broken{err}
	}
	if len(ids) == 0 {
		return errNothing
	}
	for _, id := range ids {
		if _, err := t.st.forgetItems.Exec(id); err != nil {
			return &broken{err}
		}
		if _, err := t.st.forget.Exec(id); err != nil {
			return &broken{err}
		}
	}
	f.removed = len(ids)
	t.dirty = true
	return nil
}

// vacuum gives free pages at the end of the file back, if there are many more than will soon
// be used again.
func vacuum(t *tx) error {
	var free, all int
	if err := t.st.freePages.QueryRow().Scan(&free); err != nil {
		return &broken{err}
	}
	if err := t.st.pages.QueryRow().Scan(&all); err != nil {
		return &broken{err}
	}
	if free <= spare || free <= all/4 {
		return errNothing
	}
	if _, err := t.st.vacuum.Exec(); err != nil {
		return &broken{err}
	}
	t.dirty = true
	return nil
}
