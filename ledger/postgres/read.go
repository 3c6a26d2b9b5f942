package postgres

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

const (
	// columns are those of a record r that scanRecord reads.
	columns = `r.id, r.audience, r.owner, r.account, r.tool, r.revision, r.format, r.mode, r.status, r.request,
r.wake, r.keep, r.summary, r.fence, r.head, r.floor, r.lease, r.tries, r.created, r.updated`
	// itemColumns are those of an item i of a record, all zero if it has none.
	itemColumns = `coalesce(i.n, 0), coalesce(i.kind, ''), coalesce(i.lasting, false), coalesce(i.at, r.created), i.body`
	// unread are records r with their unread items, a row for each. The state, which may be large, is
	// in the first row only.
	unread = columns + `, statement_timestamp(), CASE WHEN row_number() OVER (PARTITION BY r.id ORDER BY i.n) = 1 THEN r.state END, ` + itemColumns

	loadRecords = `SELECT ` + unread + ` FROM mcpsaga_ledger.records AS r
LEFT JOIN mcpsaga_ledger.items AS i ON i.id = r.id AND i.n > r.applied WHERE `
	readLog = `SELECT r.head, r.floor, ` + itemColumns + ` FROM mcpsaga_ledger.records AS r LEFT JOIN LATERAL (
	SELECT * FROM mcpsaga_ledger.items WHERE id = r.id AND n > $2::bigint ORDER BY n LIMIT $3::bigint
) AS i ON true WHERE r.id = $1::uuid ORDER BY i.n`
	listOwned = `SELECT ` + columns + `, statement_timestamp() FROM mcpsaga_ledger.records AS r
WHERE audience = $1::text AND mode = $2::text AND owner = $3::uuid AND (created, id) > ($4::timestamptz, $5::uuid) ORDER BY created, id LIMIT $6::bigint`
	listStatuses = `SELECT ` + columns + `, statement_timestamp() FROM (SELECT DISTINCT unnest($2::text[]) AS name) AS s, LATERAL (
	SELECT * FROM mcpsaga_ledger.records
	WHERE audience = $1::text AND status = s.name AND ($6::text = '' OR mode = $6::text) AND (created, id) > ($3::timestamptz, $4::uuid) ORDER BY created, id LIMIT $5::bigint
) AS r ORDER BY r.created, r.id LIMIT $5::bigint`
)

// scanRecord reads a record from a row, and what follows the columns of the record and its Now.
func scanRecord(row pgx.Row, more ...any) (*store.Record, error) {
	var r store.Record
	var id, owner, account, request pgtype.UUID
	var wake, keep, until *time.Time
	err := row.Scan(append([]any{
		&id, &r.Audience, &owner, &account, &r.Tool, &r.Revision, &r.Format, &r.Mode, &r.Status, &request,
		&wake, &keep, &r.Summary, &r.Fence, &r.Head, &r.Floor, &until, &r.Tries, &r.Created, &r.Updated, &r.Now,
	}, more...)...)
	if err != nil {
		return nil, err
	}
	r.ID, r.Owner, r.Account, r.Request = id.Bytes, owner.Bytes, account.Bytes, request.Bytes
	r.Wake, r.Keep, r.Until = instant(wake), instant(keep), instant(until)
	r.Created, r.Updated, r.Now = r.Created.UTC(), r.Updated.UTC(), r.Now.UTC()
	return &r, nil
}

// instant is a time that may be NULL.
func instant(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func scanUnread(rows pgx.Rows) (list []*store.Record, err error) {
	defer rows.Close()
	for rows.Next() {
		var state []byte
		var i store.Item
		r, err := scanRecord(rows, &state, &i.N, &i.Kind, &i.Lasting, &i.At, &i.Body)
		if err != nil {
			return nil, err
		}
		if n := len(list); n > 0 && list[n-1].ID == r.ID {
			r = list[n-1]
		} else {
			r.State = state
			list = append(list, r)
		}
		r.Unread = appendItem(r.Unread, i)
	}
	return list, rows.Err()
}

func appendItem(list []store.Item, i store.Item) []store.Item {
	if i.N == 0 {
		return list
	}
	i.At = i.At.UTC()
	return append(list, i)
}

func (d *database) Load(ctx context.Context, id store.ID) (*store.Record, error) {
	return d.load(ctx, "load a record", `r.id = $1::uuid`, id)
}

func (d *database) Find(ctx context.Context, request store.ID) (*store.Record, error) {
	return d.load(ctx, "find a record", `r.request = $1::uuid`, request)
}

// load loads the record of which a condition on an ID holds.
func (d *database) load(ctx context.Context, what, condition string, id store.ID) (*store.Record, error) {
	list, err := query(ctx, d, what, scanUnread, loadRecords+condition+` ORDER BY i.n`, uuid(id))
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, wrapped(what, store.ErrNotFound)
	}
	return list[0], nil
}

func query[T any](ctx context.Context, d *database, what string, scan func(pgx.Rows) (T, error), sql string, args ...any) (found T, err error) {
	err = d.read(ctx, what, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, sql, args...)
		if err == nil {
			found, err = scan(rows)
		}
		return err
	})
	return found, err
}

func (d *database) Log(ctx context.Context, id store.ID, after uint64, limit int) (*store.Log, error) {
	const what = "read a log"
	l, err := query(ctx, d, what, func(rows pgx.Rows) (l *store.Log, err error) {
		var read store.Log
		var i store.Item
		_, err = pgx.ForEachRow(rows, []any{&read.Head, &read.Floor, &i.N, &i.Kind, &i.Lasting, &i.At, &i.Body}, func() error {
			l, read.Items, i.Body = &read, appendItem(read.Items, i), nil
			return nil
		})
		return l, err
	}, readLog, uuid(id), int64(min(after, math.MaxInt64)), int64(max(0, limit)))
	if err == nil && l == nil {
		err = wrapped(what, store.ErrNotFound)
	}
	return l, err
}

func scanID(row pgx.CollectableRow) (store.ID, error) {
	id, err := pgx.RowTo[pgtype.UUID](row)
	return id.Bytes, err
}

func (d *database) List(ctx context.Context, f store.Filter, after store.Cursor, limit int) ([]*store.Record, error) {
	scan := func(rows pgx.Rows) ([]*store.Record, error) {
		return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*store.Record, error) { return scanRecord(row) })
	}
	// The zero time is before all records.
	created, id, most := store.Micro(after.Created), pgtype.UUID{Bytes: after.ID, Valid: true}, int64(max(0, limit))
	if f.Owner != (store.ID{}) {
		return query(ctx, d, "list an owner's records", scan, listOwned, f.Audience, string(f.Mode), uuid(f.Owner), created, id, most)
	}
	statuses := make([]string, len(f.Statuses))
	for i, s := range f.Statuses {
		statuses[i] = string(s)
	}
	return query(ctx, d, "list records", scan, listStatuses, f.Audience, statuses, created, id, most, string(f.Mode))
}

func (d *database) Identity(ctx context.Context) (store.ID, error) {
	return query(ctx, d, "read the database's identity", func(rows pgx.Rows) (store.ID, error) {
		return pgx.CollectExactlyOneRow(rows, scanID)
	}, `SELECT identity FROM mcpsaga_ledger.version`)
}

// Check writes a record in both ways, and removes it, in a transaction of its own, which no one sees.
func (d *database) Check(ctx context.Context) (at time.Time, err error) {
	created, c := store.Trial()
	written := *created
	written.Head, written.Floor = 1, 1 // so that the first item is removed
	err = d.read(ctx, "check", func(ctx context.Context, conn *pgxpool.Conn) error {
		b := &pgx.Batch{}
		b.Queue(look).QueryRow(func(row pgx.Row) (err error) {
			at, _, err = seen(row)
			return err
		})
		for _, r := range []*store.Record{created, &written} {
			sql, args, _ := writing(r, c)
			b.Queue(sql, args...)
		}
		b.Queue(`DELETE FROM mcpsaga_ledger.records WHERE id = $1::uuid`, uuid(created.ID))
		return conn.SendBatch(ctx, b).Close()
	})
	return at, err
}
