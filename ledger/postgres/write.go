package postgres

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

const (
	// soon is when to look again where others are just at what is due.
	soon = 10 * time.Millisecond

	// createRecord returns a row, which says whether there is such a record already. A record of the same
	// ID or request that is being created meanwhile is waited for.
	createRecord = `WITH room AS (
	SELECT $18::bigint = 0 OR $18::bigint > (SELECT count(*) FROM (
		SELECT FROM mcpsaga_ledger.records WHERE audience = $19::text AND account = $20::uuid AND mode = $21::text AND ` + live + ` LIMIT $18::bigint
	) AS found) AS free
), written AS (
	INSERT INTO mcpsaga_ledger.records (id, head, applied, fence, tool, revision, format, status, request, wake, keep, summary, state, floor, tries, lease, created, updated, audience, account, mode, owner)
	SELECT $1::uuid, $2::bigint + cardinality($3::text[]), $2::bigint + cardinality($3::text[]), $6::bigint, $7::text, $8::bigint, $9::int, $10::text, $11::uuid, $12::timestamptz, $13::timestamptz,
		$14::bytea, $15::bytea, least($16::bigint, 0), 0, statement_timestamp() + $17::interval, statement_timestamp(), statement_timestamp(), $19::text, $20::uuid, $21::text, $22::uuid
	FROM room WHERE free ON CONFLICT DO NOTHING RETURNING id, created, updated, lease
), ` + appendItems + `
SELECT free OR EXISTS (SELECT FROM mcpsaga_ledger.records WHERE id = $1::uuid) OR EXISTS (SELECT FROM mcpsaga_ledger.records WHERE request = $11::uuid),
	written.created, written.updated, written.lease FROM room LEFT JOIN written ON true`

	// updateRecord returns a row if there is such a record, which says whether that is why it was not written. Items are
	// only looked for if the floor has risen, and other records only for one that gets another mode.
	updateRecord = `WITH room AS (
	SELECT $20::bigint = 0 OR mode = $18::text OR $20::bigint > (SELECT count(*) FROM (
		SELECT FROM mcpsaga_ledger.records AS r WHERE r.audience = old.audience AND r.account = old.account AND r.mode = $18::text AND ` + live + ` LIMIT $20::bigint
	) AS found) AS free FROM mcpsaga_ledger.records AS old WHERE ` + updatable + `
), written AS (
	UPDATE mcpsaga_ledger.records SET head = $2::bigint + cardinality($3::text[]), applied = $2::bigint + cardinality($3::text[]), fence = $6::bigint,
		tool = $7::text, revision = $8::bigint, format = $9::int, status = $10::text, request = $11::uuid, wake = $12::timestamptz, keep = $13::timestamptz,
		summary = $14::bytea, state = $15::bytea, floor = greatest(floor, least($16::bigint, $2::bigint)), tries = 0, lease = statement_timestamp() + $17::interval, updated = statement_timestamp(), mode = $18::text
	WHERE ` + updatable + ` AND (SELECT free FROM room)
	RETURNING id, created, updated, lease
), trimmed AS (
	DELETE FROM mcpsaga_ledger.items WHERE id = $1::uuid AND n <= $16::bigint AND NOT lasting
		AND $16::bigint > (SELECT floor FROM mcpsaga_ledger.records WHERE id = $1::uuid) AND EXISTS (SELECT FROM written)
), ` + appendItems + `
SELECT free OR EXISTS (SELECT FROM mcpsaga_ledger.records WHERE request = $11::uuid AND id <> $1::uuid),
	written.created, written.updated, written.lease FROM room LEFT JOIN written ON true`

	updatable = `id = $1::uuid AND head = $2::bigint AND tries = $19::int AND (fence = $6::bigint OR fence = $6::bigint - 1 AND (lease IS NULL OR lease <= statement_timestamp()))`

	appendItems = `appended AS (
	INSERT INTO mcpsaga_ledger.items (id, n, kind, lasting, at, body)
	SELECT written.id, $2::bigint + item.n, item.kind, item.lasting, statement_timestamp(), item.body
	FROM written, unnest($3::text[], $4::boolean[], $5::bytea[]) WITH ORDINALITY AS item (kind, lasting, body, n)
)`

	// signalRecord returns a row if there is such a record, which says whether it was signalled.
	signalRecord = `WITH written AS (
	UPDATE mcpsaga_ledger.records SET head = head + cardinality($3::text[]), wake = least(wake, statement_timestamp())
	WHERE id = $1::uuid AND head = $2::bigint AND ` + live + ` RETURNING id
), ` + appendItems + `
SELECT EXISTS (SELECT FROM written) FROM mcpsaga_ledger.records WHERE id = $1::uuid AND ` + live

	forgetRecords = `DELETE FROM mcpsaga_ledger.records WHERE id = ANY (ARRAY (
	SELECT id FROM mcpsaga_ledger.records WHERE keep <= statement_timestamp() ORDER BY keep LIMIT $1::bigint FOR UPDATE SKIP LOCKED))`

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
	renewLeases = `WITH held AS (SELECT * FROM unnest($1::uuid[], $2::bigint[], $4::bool[]) AS held (id, fence, unread)), renewed AS (
	UPDATE mcpsaga_ledger.records AS r SET lease = statement_timestamp() + $3::interval, tries = CASE WHEN unread THEN greatest(tries - 1, 0) ELSE tries END
	FROM held WHERE r.id = held.id AND r.fence = held.fence AND r.lease IS NOT NULL RETURNING r.id, r.fence
)
SELECT id FROM held WHERE NOT EXISTS (SELECT FROM renewed WHERE renewed.id = held.id AND renewed.fence = held.fence)`
)

func (d *database) Write(ctx context.Context, r *store.Record, c store.Change) error {
	const what = "write a record"
	if err := r.Check(c); err != nil {
		return wrapped(what, err)
	}
	if r.Head > math.MaxInt64-store.MaxItems || r.Fence > math.MaxInt64 { // no record has come that far
		return wrapped(what, store.ErrConflict)
	}
	head := r.Head + uint64(len(c.Items))
	sql, args, size := writing(r, c)
	var there bool
	var created, updated, until *time.Time
	err := d.do(ctx, what, &job{id: r.ID, head: head, size: size, sql: sql, args: args, scan: func(row pgx.Row) error {
		err := row.Scan(&there, &created, &updated, &until)
		switch {
		case errors.Is(err, pgx.ErrNoRows), err == nil && created == nil && there:
			return store.ErrConflict
		case err == nil && created == nil:
			return store.ErrFull
		}
		return err
	}})
	if err != nil {
		return err
	}
	r.Head, r.Created, r.Updated, r.Now = head, instant(created), instant(updated), instant(updated)
	r.Until, r.Tries, r.Unread = instant(until), 0, nil
	return nil
}

// writing is the statement that writes a record, and about how many bytes it sends.
func writing(r *store.Record, c store.Change) (sql string, args []any, size int) {
	kinds, lasting, bodies, size := arrays(c.Items)
	args = []any{
		uuid(r.ID), int64(r.Head), kinds, lasting, bodies, int64(r.Fence), r.Tool, int64(r.Revision), int32(r.Format), string(r.Status), uuid(r.Request),
		orNull(store.Micro(r.Wake)), orNull(store.Micro(r.Keep)), clone(r.Summary), clone(r.State), int64(min(r.Floor, math.MaxInt64)), orNull(c.Lease),
	}
	size += len(r.State)
	if r.Head > 0 {
		return updateRecord, append(args, string(r.Mode), int32(r.Tries), int64(max(0, c.Most))), size
	}
	return createRecord, append(args, int64(max(0, c.Most)), r.Audience, pgtype.UUID{Bytes: r.Account, Valid: true}, string(r.Mode), uuid(r.Owner)), size
}

func (d *database) Signal(ctx context.Context, id store.ID, head uint64, items ...store.Item) error {
	const what = "signal a record"
	if err := store.CheckItems(items); err != nil {
		return wrapped(what, err)
	}
	kinds, lasting, bodies, size := arrays(items)
	args := []any{uuid(id), int64(min(head, math.MaxInt64)), kinds, lasting, bodies}
	return d.do(ctx, what, &job{id: id, head: head + uint64(len(items)), size: size, sql: signalRecord, args: args, scan: func(row pgx.Row) error {
		var signalled bool
		err := row.Scan(&signalled)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return store.ErrNotFound
		case err == nil && !signalled:
			return store.ErrConflict
		}
		return err
	}})
}

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
		b.Queue(takeDue, t.Audience, names, revisions, int32(t.Format), int64(t.Limit), t.Lease).Query(func(rows pgx.Rows) (err error) {
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
	ids, fences, unread := make([]pgtype.UUID, len(held)), make([]int64, len(held)), make([]bool, len(held))
	for i, h := range held {
		ids[i], fences[i], unread[i] = pgtype.UUID{Bytes: h.ID, Valid: true}, int64(h.Fence), h.Unread
	}
	err = d.change(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, renewLeases, ids, fences, length, unread)
		if err == nil {
			lost, err = pgx.CollectRows(rows, scanID)
		}
		return err
	})
	return lost, d.failed(ctx, "renew leases", err)
}

// Forget leaves records that are just being written for the next time.
func (d *database) Forget(ctx context.Context, limit int) (n int, err error) {
	err = d.change(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, forgetRecords, int64(max(0, limit)))
		n = int(tag.RowsAffected())
		return err
	})
	return n, d.failed(ctx, "forget records", err)
}

// arrays are items as parameters, and about how many bytes these send.
func arrays(items []store.Item) (kinds []string, lasting []bool, bodies [][]byte, size int) {
	for _, i := range items {
		kinds, lasting, bodies = append(kinds, i.Kind), append(lasting, i.Lasting), append(bodies, clone(i.Body))
		size += len(i.Body)
	}
	return kinds, lasting, bodies, size
}

// clone copies bytes as a parameter that is not NULL.
func clone(b []byte) []byte { return append([]byte{}, b...) }

// orNull is a parameter that is NULL instead of zero.
func orNull[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}
