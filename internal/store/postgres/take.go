package postgres

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// soon is when to look again where others are just at what is due.
const soon = 10 * time.Millisecond

const (
	// takeDue looks up each tool's first records in the index, however many are due. A record to which another has
	// appended since the statement began is locked as it is now, but its new items are not seen: it is
	// left for the next time.
	takeDue = `WITH due AS (
	SELECT r.* FROM ` + tools + `, LATERAL (
		SELECT id, head, due AS since FROM mcpsaga_ledger.records
		WHERE audience = $1::text AND tool = tool.name AND due <= statement_timestamp() AND revision <= tool.revision AND format <= $4::int
		ORDER BY due LIMIT $5::bigint FOR UPDATE SKIP LOCKED
	) AS r ORDER BY since LIMIT $5::bigint
), taken AS (
	UPDATE mcpsaga_ledger.records AS r SET fence = fence + 1, tries = tries + 1, lease = statement_timestamp() + $6::interval
	FROM due WHERE r.id = due.id AND r.head = due.head RETURNING r.*, due.since
)
SELECT ` + unread + ` FROM taken AS r LEFT JOIN mcpsaga_ledger.items AS i ON i.id = r.id AND i.n > r.applied ORDER BY r.since, r.id, i.n`

	tools = `(SELECT name, min(revision) AS revision FROM unnest($2::text[], $3::bigint[]) AS named (name, revision) GROUP BY name) AS tool`

	nextDue = `SELECT statement_timestamp(), (SELECT min(r.due) FROM ` + tools + `, LATERAL (
	SELECT due FROM mcpsaga_ledger.records WHERE audience = $1::text AND tool = tool.name AND due IS NOT NULL AND revision <= tool.revision AND format <= $4::int
	ORDER BY due LIMIT 1) AS r)`

	// renewLeases returns those that were lost.
	renewLeases = `WITH held AS (SELECT * FROM unnest($1::uuid[], $2::bigint[]) AS held (id, fence)), renewed AS (
	UPDATE mcpsaga_ledger.records AS r SET lease = statement_timestamp() + $3::interval
	FROM held WHERE r.id = held.id AND r.fence = held.fence AND r.lease IS NOT NULL RETURNING r.id, r.fence
)
SELECT id FROM held WHERE NOT EXISTS (SELECT FROM renewed WHERE renewed.id = held.id AND renewed.fence = held.fence)`
)

func (d *database) Take(ctx context.Context, t store.Take) (taken []*store.Record, next time.Time, err error) {
	const what = "take records"
	if err := t.Check(); err != nil {
		return nil, next, wrapped(what, err)
	}
	names, revisions := make([]string, len(t.Tools)), make([]int64, len(t.Tools))
	for i, tool := range t.Tools {
		names[i], revisions[i] = tool.Name, int64(tool.Revision)
	}
	err = d.change(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		b := &pgx.Batch{}
		b.Queue(takeDue, t.Audience, names, revisions, int32(t.Format), int64(t.Limit), lease(t.Lease)).Query(func(rows pgx.Rows) (err error) {
			taken, err = scanUnread(rows)
			return err
		})
		b.Queue(nextDue, t.Audience, names, revisions, int32(t.Format)).QueryRow(func(row pgx.Row) error {
			var now time.Time
			var first *time.Time
			err := row.Scan(&now, &first)
			if next = instant(first); first != nil && len(taken) == 0 && !next.After(now) {
				next = now.UTC().Add(soon)
			}
			return err
		})
		return conn.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return nil, time.Time{}, d.failed(ctx, what, err)
	}
	return taken, next, nil
}

func (d *database) Renew(ctx context.Context, held []store.Held, length time.Duration) (lost []store.ID, err error) {
	// All lock records in one order, lest two wait for each other.
	held = slices.SortedFunc(slices.Values(held), func(a, b store.Held) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	ids, fences := make([]store.ID, len(held)), make([]int64, len(held))
	for i, h := range held {
		ids[i], fences[i] = h.ID, int64(h.Fence)
	}
	err = d.change(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, renewLeases, uuids(ids), fences, lease(length))
		if err == nil {
			lost, err = pgx.CollectRows(rows, scanID)
		}
		return err
	})
	return lost, d.failed(ctx, "renew leases", err)
}
