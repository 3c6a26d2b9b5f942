package sqlite

import (
	"context"
	"slices"
	"strings"

	"github.com/mcpsaga/mcpsaga/ledger"
)

const (
	// fewWaiting is how many records may have a Wake in the queues that are listed for them to be
	// sorted. If there are more, all records are looked at in the order of their keys.
	fewWaiting = 4000
	// stride is how many are looked at until it is asked whether the caller still waits.
	stride = 1000
)

// found is a record that is to be listed.
type found struct {
	key string
	id  int64
}

func byKey(a, b found) int { return strings.Compare(a.key, b.key) }

// List implements [ledger.Store]. No index has the records of a queue in the order of their keys:
// each change of a Wake would have to change it as well, and lists are rare.
func (s *store) List(ctx context.Context, queues []string, after string, limit int) (list []*ledger.Record, err error) {
	queues = distinct(queues)
	return s.listBy(ctx, limit, func(r *reader) ([]found, error) {
		waiting := 0
		for _, q := range queues {
			r.waiting.BindText(1, q)
			r.waiting.BindInt64(2, int64(s.set.fewWaiting+1-waiting)) // counted in the index alone
			if _, err := one(r.waiting, func() { waiting += r.waiting.ColumnInt(0) }); err != nil {
				return nil, err
			}
			if waiting > s.set.fewWaiting {
				return r.through(ctx, queues, after, limit)
			}
		}
		return r.sorted(queues, after)
	})
}

// sorted returns all that wait in the queues.
func (r *reader) sorted(queues []string, after string) (all []found, err error) {
	for _, q := range queues {
		r.queued.BindText(1, q)
		r.queued.BindText(2, after)
		if err := each(r.queued, func() { all = append(all, found{r.queued.ColumnText(0), r.queued.ColumnInt64(1)}) }); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, byKey)
	return all, nil
}

// through looks at one record after the other until it has found as many that wait in the queues.
func (r *reader) through(ctx context.Context, queues []string, after string, limit int) (all []found, err error) {
	for n := stride; n == stride && len(all) < limit; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n = 0
		r.walk.BindText(1, after)
		r.walk.BindInt64(2, stride)
		err := each(r.walk, func() {
			n++
			after = r.walk.ColumnText(0)
			if _, listed := slices.BinarySearch(queues, r.walk.ColumnText(2)); listed && !r.walk.ColumnIsNull(3) {
				all = append(all, found{after, r.walk.ColumnInt64(1)})
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Owned implements [ledger.Store].
func (s *store) Owned(ctx context.Context, owners []string, after string, limit int) (list []*ledger.Record, err error) {
	return s.listBy(ctx, limit, func(r *reader) (all []found, err error) {
		for _, owner := range distinct(owners) {
			r.owned.BindText(1, owner)
			r.owned.BindText(2, after)
			r.owned.BindInt64(3, int64(limit))
			if err := each(r.owned, func() { all = append(all, found{r.owned.ColumnText(0), r.owned.ColumnInt64(1)}) }); err != nil {
				return nil, err
			}
			slices.SortFunc(all, byKey)
			all = all[:min(limit, len(all))]
		}
		return all, nil
	})
}

// listBy returns the first of the records that find finds. It is all one transaction: a record is
// not missed because it moves to another queue or owner meanwhile.
func (s *store) listBy(ctx context.Context, limit int, find func(*reader) ([]found, error)) (list []*ledger.Record, err error) {
	err = s.read(ctx, func(r *reader) error {
		if limit < 1 {
			return nil // to SQLite, a negative limit is none
		}
		if err := run(r.begin); err != nil {
			return err
		}
		defer func() { _ = run(r.rollback) }()
		all, err := find(r)
		if err != nil {
			return err
		}
		for _, f := range all[:min(limit, len(all))] {
			r.byID.BindInt64(1, f.id)
			rec, err := scan(f.key, r.byID)
			if err != nil {
				return err
			}
			list = append(list, rec)
		}
		return nil
	})
	if err != nil {
		return nil, s.explain("read", err)
	}
	return list, nil
}

// distinct are the names that can be those of queues or owners, in order, each once.
func distinct(names []string) []string {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })
	slices.Sort(names)
	return slices.Compact(names)
}
