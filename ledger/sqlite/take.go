package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
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
		next, err := s.nextWake(ctx, queues)
		if err != nil {
			return nil, s.explain("read", err)
		}
		wait := relook
		if next.Valid {
			s.waits.expect(me, next.Int64)
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

// nextWake is when the first record in one of the queues is due.
func (s *store) nextWake(ctx context.Context, queues []string) (next sql.NullInt64, err error) {
	err = s.read(ctx, func(r *reader) error {
		for _, q := range queues {
			var wake sql.NullInt64
			if err := r.nextWake.QueryRow(q).Scan(&wake); err != nil {
				return err
			}
			if wake.Valid && (!next.Valid || wake.Int64 < next.Int64) {
				next = wake
			}
		}
		return nil
	})
	return next, err
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
	wake := micros(now.Add(g.lease))
	for _, d := range due {
		if _, err := t.st.take.Exec(wake, d.id); err != nil {
			return &broken{err}
		}
		r, err := scan(d.key, t.st.byID.QueryRow(d.id))
		if err != nil {
			return &broken{err}
		}
		g.got = append(g.got, r)
		t.news = append(t.news, news{key: r.Key, rev: r.Rev, queue: r.Queue, wake: wake.Int64})
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
		rows, err := t.st.due.Query(q, now.UnixMicro(), g.limit)
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			var d dueRecord
			if err := rows.Scan(&d.id, &d.key, &d.wake); err != nil {
				return nil, errors.Join(err, rows.Close())
			}
			list = append(list, d)
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
		slices.SortFunc(list, func(a, b dueRecord) int { return cmp.Or(cmp.Compare(a.wake, b.wake), cmp.Compare(a.key, b.key)) })
		list = list[:min(g.limit, len(list))]
	}
	return list, nil
}
