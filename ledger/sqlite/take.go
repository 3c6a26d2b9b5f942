package sqlite

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// Take implements [ledger.Store].
func (s *store) Take(ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	queues := distinct(t.Queues)
	me, end := s.waits.take(queues)
	defer end()
	for {
		s.waits.expect(me, math.MaxInt64) // what changes from now on rings
		next, some, err := s.nextWake(ctx, queues)
		if err != nil {
			return nil, s.explain("read", err)
		}
		wait := relook
		if some {
			s.waits.expect(me, next)
			wait = min(wait, time.Until(fromMicros(next)))
		}
		if wait <= 0 {
			g := grab{queues: queues, limit: t.Limit, lease: t.Lease}
			switch err := s.writer.do(ctx, &op{run: g.run}); err {
			case nil:
				return g.got, nil
			case errNothing: // another process was quicker
				continue
			default:
				return nil, s.explain("take from", err)
			}
		}
		if err := s.sleep(ctx, me.bell, wait); err != nil {
			return nil, err
		}
	}
}

// nextWake is when the first record in one of the queues is due, if there is some.
func (s *store) nextWake(ctx context.Context, queues []string) (next int64, some bool, err error) {
	err = s.read(ctx, func(r *reader) error {
		for _, q := range queues {
			r.nextWake.BindText(1, q)
			_, err := one(r.nextWake, func() {
				if wake := r.nextWake.ColumnInt64(0); !r.nextWake.ColumnIsNull(0) && (!some || wake < next) {
					next, some = wake, true
				}
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return next, some, err
}

// grab takes records that are due.
type grab struct {
	queues []string
	limit  int
	lease  time.Duration
	got    []*ledger.Record
}

func (g *grab) run(t *tx) error {
	now := time.Now()
	due, err := g.due(t, now)
	if err != nil {
		return &broken{err}
	}
	if len(due) == 0 {
		return errNothing
	}
	wake := now.Add(g.lease).UnixMicro()
	for _, d := range due {
		t.st.take.BindInt64(1, wake)
		t.st.take.BindInt64(2, d.id)
		if err := run(t.st.take); err != nil {
			return &broken{err}
		}
		t.st.byID.BindInt64(1, d.id)
		r, err := scan(d.key, t.st.byID)
		if err != nil {
			return &broken{err}
		}
		delete(t.known, r.Key)
		g.got = append(g.got, r)
		t.news = append(t.news, news{key: r.Key, rev: r.Rev, queue: r.Queue, wake: wake})
	}
	t.dirty = true
	return nil
}

// dueRecord is a record whose time has come.
type dueRecord struct {
	id, wake int64
	key      string
}

// due lists the records that have waited longest.
func (g *grab) due(t *tx, now time.Time) (list []dueRecord, err error) {
	for _, q := range g.queues {
		find := t.st.due
		find.BindText(1, q)
		find.BindInt64(2, now.UnixMicro())
		find.BindInt64(3, int64(g.limit))
		err := each(find, func() {
			list = append(list, dueRecord{id: find.ColumnInt64(0), key: find.ColumnText(1), wake: find.ColumnInt64(2)})
		})
		if err != nil {
			return nil, err
		}
		slices.SortFunc(list, func(a, b dueRecord) int { return cmp.Or(cmp.Compare(a.wake, b.wake), cmp.Compare(a.key, b.key)) })
		list = list[:min(g.limit, len(list))]
	}
	return list, nil
}
