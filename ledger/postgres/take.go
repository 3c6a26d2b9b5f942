package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpsaga/mcpsaga/ledger"
)

const (
	// lookOutAlone is how often Take looks for itself while the server does not tell of
	// changes, though the time that it knows of has not come. Otherwise it does as watchers.
	lookOutAlone = 500 * time.Millisecond
	// soon is how long it waits where others are just taking what is due.
	soon = 20 * time.Millisecond
)

const (
	// Each queue's first are looked up by the index, however many are due. A time that is
	// computed once, by the subquery, can be looked up in an index.
	takeDue = `WITH due AS (
	SELECT r.key, r.wake AS since FROM unnest($1::bytea[]) AS q (name), LATERAL (
		SELECT key, wake FROM mcpsaga_ledger.records WHERE queue = q.name AND wake <= (SELECT clock_timestamp())
		ORDER BY wake LIMIT $2::bigint FOR UPDATE SKIP LOCKED
	) AS r ORDER BY r.wake LIMIT $2::bigint
)
UPDATE mcpsaga_ledger.records AS r SET rev = r.rev + 1, wake = clock_timestamp() + $3::bigint * interval '1 microsecond'
FROM due WHERE r.key = due.key RETURNING r.key, r.rev, r.queue, r.owner, r.body, r.wake, r.keep, due.since`
	nextDue = `SELECT clock_timestamp(), (SELECT min(r.wake) FROM unnest($1::bytea[]) AS q (name), LATERAL (
	SELECT wake FROM mcpsaga_ledger.records WHERE queue = q.name AND wake IS NOT NULL ORDER BY wake LIMIT 1) AS r)`
)

func (s *store) Take(ctx context.Context, t ledger.Take) ([]*ledger.Record, error) {
	const what = "take records"
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("ledger/postgres: %s: %w", what, err)
	}
	t.Queues = slices.Compact(slices.Sorted(slices.Values(t.Queues))) // one that is named twice would wait for itself
	w := s.hub.taker(t.Queues)
	defer s.hub.leave(w)
	for {
		if ctx.Err() != nil || s.ctx.Err() != nil {
			return nil, s.failed(ctx, what, ctx.Err())
		}
		w.forgetNext()
		taken, clock, err := s.take(ctx, t, w)
		if err != nil {
			return nil, s.failed(ctx, what, err)
		}
		if len(taken) > 0 {
			return taken, nil
		}
		if err := s.rest(ctx, w, clock); err != nil {
			return nil, s.failed(ctx, what, err)
		}
	}
}

// rest waits until it is worth while to look again.
func (s *store) rest(ctx context.Context, w *waiter, clock clock) error {
	longest := lookOutAlone
	if s.hub.told.Load() {
		longest = s.look
	}
	began := time.Now()
	for {
		wait := longest - time.Since(began)
		if next, known := w.nextWake(); known {
			wait = min(wait, max(next.Sub(clock.now()), soon-time.Since(began)))
		}
		select {
		case <-time.After(wait):
			return nil
		case <-w.signal:
			if w.again.Swap(false) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// clock estimates the time of the server, whatever the clock of this machine says.
type clock struct {
	server time.Time
	here   time.Time // with the monotonic reading
}

func (c clock) now() time.Time { return c.server.Add(time.Since(c.here)) }

// take takes what is due. If nothing is, it has the waiter know when something will be.
func (s *store) take(ctx context.Context, t ledger.Take, w *waiter) (taken []*ledger.Record, c clock, err error) {
	// If the caller gives up at this moment, the answer is waited for nevertheless, for a
	// while: what was taken, and nobody got, would be nobody's until the lease is over.
	within, cancel := s.bound(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(time.Second, cancel) })()
	queues := byteas(t.Queues)
	type due struct {
		record *ledger.Record
		since  time.Time
	}
	var all []due
	b := &pgx.Batch{}
	b.Queue(takeDue, queues, int64(t.Limit), t.Lease.Microseconds()).Query(func(rows pgx.Rows) (err error) {
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (d due, err error) {
			d.record, err = scan(row, &d.since)
			return d, err
		})
		return err
	})
	b.Queue(nextDue, queues).QueryRow(func(row pgx.Row) error {
		var wake *time.Time
		c.here = time.Now()
		if err := row.Scan(&c.server, &wake); err != nil {
			return err
		}
		if wake != nil {
			w.wakeAt(*wake)
		}
		return nil
	})
	if err := s.pool.SendBatch(within, b).Close(); err != nil {
		if within.Err() == nil && broken(err) {
			s.pool.Reset()
		}
		return nil, c, err
	}
	slices.SortFunc(all, func(a, b due) int {
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.record.Key, b.record.Key))
	})
	for _, d := range all {
		taken = append(taken, d.record)
		s.changed(&ledger.Record{Key: d.record.Key})
	}
	return taken, c, nil
}
