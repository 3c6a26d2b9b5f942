package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

const (
	// createRecord returns a row, which says whether there is such a record already. A record of the same
	// ID or request that is being created meanwhile is waited for.
	createRecord = `WITH room AS (
	SELECT $18::bigint = 0 OR $18::bigint > (SELECT count(*) FROM (
		SELECT FROM mcpsaga_ledger.records WHERE audience = $19::text AND account = $20::uuid AND mode = $21::text AND ` + live + ` LIMIT $18::bigint
	) AS found) AS free
), written AS (
	INSERT INTO mcpsaga_ledger.records (id, head, applied, fence, tool, revision, format, status, request, wake, keep, summary, state, floor, tries, lease, created, updated, audience, account, mode, owner)
	SELECT $1::uuid, $2::bigint + cardinality($3::text[]), $2::bigint + cardinality($3::text[]), $6::bigint, $7::text, $8::bigint, $9::int, $10::text, $11::uuid, $12::timestamptz, $13::timestamptz,
		$14::bytea, $15::bytea, $16::bigint, 0, statement_timestamp() + $17::interval, statement_timestamp(), statement_timestamp(), $19::text, $20::uuid, $21::text, $22::uuid
	FROM room WHERE free ON CONFLICT DO NOTHING RETURNING id, created, updated, lease
), ` + appendItems + `
SELECT free OR EXISTS (SELECT FROM mcpsaga_ledger.records WHERE id = $1::uuid) OR EXISTS (SELECT FROM mcpsaga_ledger.records WHERE request = $11::uuid),
	written.created, written.updated, written.lease FROM room LEFT JOIN written ON true`

	// updateRecord returns a row if the record was written. Items are only looked for if the floor has
	// risen.
	updateRecord = `WITH written AS (
	UPDATE mcpsaga_ledger.records SET head = $2::bigint + cardinality($3::text[]), applied = $2::bigint + cardinality($3::text[]), fence = $6::bigint,
		tool = $7::text, revision = $8::bigint, format = $9::int, status = $10::text, request = $11::uuid, wake = $12::timestamptz, keep = $13::timestamptz,
		summary = $14::bytea, state = $15::bytea, floor = greatest(floor, $16::bigint), tries = 0, lease = statement_timestamp() + $17::interval, updated = statement_timestamp()
	WHERE id = $1::uuid AND head = $2::bigint AND (fence = $6::bigint OR fence = $6::bigint - 1 AND (lease IS NULL OR lease <= statement_timestamp()))
	RETURNING id, created, updated, lease
), trimmed AS (
	DELETE FROM mcpsaga_ledger.items WHERE id = $1::uuid AND n <= $16::bigint AND NOT lasting
		AND $16::bigint > (SELECT floor FROM mcpsaga_ledger.records WHERE id = $1::uuid) AND EXISTS (SELECT FROM written)
), ` + appendItems + `
SELECT true, created, updated, lease FROM written`

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
)

func (d *database) Write(ctx context.Context, r *store.Record, c store.Change) error {
	const what = "write a record"
	if err := r.Check(c); err != nil {
		return wrapped(what, err)
	}
	if r.Head > math.MaxInt64-store.MaxItems || r.Fence > math.MaxInt64 { // no record has come that far
		return wrapped(what, store.ErrConflict)
	}
	kinds, lasting, bodies, size := arrays(c.Items)
	head := r.Head + uint64(len(c.Items))
	sql, args := updateRecord, []any{
		uuid(r.ID), int64(r.Head), kinds, lasting, bodies, int64(r.Fence), r.Tool, int64(r.Revision), int32(r.Format), string(r.Status), uuid(r.Request),
		timestamp(r.Wake), timestamp(r.Keep), clone(r.Summary), clone(r.State), int64(min(r.Floor, math.MaxInt64)), lease(c.Lease),
	}
	if r.Head == 0 {
		sql = createRecord
		args = append(args, int64(max(0, c.Most)), r.Audience, pgtype.UUID{Bytes: r.Account, Valid: true}, string(r.Mode), uuid(r.Owner))
	}
	var there bool
	var created, updated, until *time.Time
	err := d.do(ctx, what, &job{id: r.ID, head: head, size: size + len(r.State), sql: sql, args: args, scan: func(row pgx.Row) error {
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

// timestamp is a time as a parameter. The zero time is NULL.
func timestamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = store.Micro(t)
	return &t
}

// lease is its length as a parameter. No lease is NULL.
func lease(d time.Duration) *time.Duration {
	if d <= 0 {
		return nil
	}
	return &d
}
