package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// read has a free connection do something, which sees the database as of one moment. The statements are
// short, so ctx limits only how long to wait for the connection.
func (l *database) read(ctx context.Context, do func(*conn) error) error {
	if err := l.usable(ctx); err != nil {
		return err
	}
	var c *conn
	select {
	case c = <-l.pool:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.closing:
		return store.ErrClosed
	}
	defer func() { l.pool <- c }()
	err := c.exec("BEGIN")
	if err == nil {
		err = do(c)
		_ = c.exec("ROLLBACK")
	}
	if moved := l.files.check(); moved != nil {
		err = moved
	}
	return l.explain("read", err)
}

func (l *database) Load(ctx context.Context, id store.ID) (*store.Record, error) {
	return l.load(ctx, "r.id = ?", id)
}

func (l *database) Find(ctx context.Context, request store.ID) (*store.Record, error) {
	return l.load(ctx, "r.request = ?", request)
}

func (l *database) load(ctx context.Context, which string, id store.ID) (r *store.Record, err error) {
	err = l.read(ctx, func(c *conn) error {
		r, err = c.record(l.now(), which, id)
		return err
	})
	return r, err
}

// columns are those of a record that lists show; [row.record] reads them.
const columns = `r.id, r.audience, r.owner, r.account, r.request, r.tool, r.revision, r.format, r.mode, r.status, r.fence, r.head, r.floor, r.tries,
	nullif(r.lease, 0), r.wake, r.keep, r.created, r.updated, r.summary, r.n`

func (r *row) record() *store.Record {
	return &store.Record{
		ID: r.id(0), Audience: r.ColumnText(1), Owner: r.id(2), Account: r.id(3), Request: r.id(4),
		Tool: r.ColumnText(5), Revision: uint32(r.uint(6)), Format: uint16(r.uint(7)), Mode: store.Mode(r.ColumnText(8)), Status: store.Status(r.ColumnText(9)),
		Fence: r.uint(10), Head: r.uint(11), Floor: r.uint(12), Tries: r.ColumnInt(13),
		Until: r.time(14), Wake: r.time(15), Keep: r.time(16), Created: r.time(17), Updated: r.time(18), Summary: r.bytes(19),
	}
}

// find returns a record without its State, and its row; the row is 0 if there is none.
func (c *conn) find(id store.ID) (r *store.Record, n int64, err error) {
	r = new(store.Record)
	_, err = c.each("SELECT "+columns+" FROM records r WHERE r.id = ?", func(row *row) {
		r, n = row.record(), row.ColumnInt64(20)
	}, id)
	return r, n, err
}

// record returns a record as it is loaded.
func (c *conn) record(now time.Time, which string, id any) (r *store.Record, err error) {
	var n int64
	var seen uint64
	found, err := c.each("SELECT "+columns+", r.seen, s.body FROM records r LEFT JOIN states s ON s.record = r.n WHERE "+which, func(row *row) {
		r, n, seen = row.record(), row.ColumnInt64(20), row.uint(21)
		r.State, r.Now = row.bytes(22), now
	}, id)
	if err == nil && found == 0 {
		err = store.ErrNotFound
	}
	if err == nil && r.Head > seen {
		r.Unread, err = c.items(n, seen, math.MaxInt32)
	}
	return r, err
}

// items returns items of a record's log whose number is greater than after.
func (c *conn) items(n int64, after uint64, limit int) (list []store.Item, err error) {
	_, err = c.each("SELECT n, kind, lasting, at, body FROM items WHERE record = ? AND n > ? ORDER BY n LIMIT ?", func(r *row) {
		list = append(list, store.Item{N: r.uint(0), Kind: r.ColumnText(1), Lasting: r.ColumnBool(2), At: r.time(3), Body: r.bytes(4)})
	}, n, min(after, math.MaxInt64), max(0, limit)) // to SQLite, a negative limit is none
	return list, err
}

func (l *database) Log(ctx context.Context, id store.ID, after uint64, limit int) (*store.Log, error) {
	found := new(store.Log)
	err := l.read(ctx, func(c *conn) error {
		var n int64
		_, err := c.each("SELECT n, head, floor FROM records WHERE id = ?", func(r *row) {
			n, found.Head, found.Floor = r.ColumnInt64(0), r.uint(1), r.uint(2)
		}, id)
		if err == nil && n == 0 {
			err = store.ErrNotFound
		}
		if err == nil && after < found.Head {
			found.Items, err = c.items(n, after, limit)
		}
		return err
	})
	return found, err
}

func (l *database) List(ctx context.Context, f store.Filter, after store.Cursor, limit int) (list []*store.Record, err error) {
	limit = max(0, limit)
	from := int64(math.MinInt64)
	if !after.Created.IsZero() {
		from = after.Created.UnixMicro()
	}
	err = l.read(ctx, func(c *conn) error {
		now := l.now()
		collect := func(which string, args ...any) error {
			query := "SELECT " + columns + " FROM records r WHERE " + which + " AND (r.created, r.id) > (?, ?) ORDER BY r.created, r.id LIMIT ?"
			_, err := c.each(query, func(row *row) {
				r := row.record()
				r.Now = now
				list = append(list, r)
			}, append(args, from, after.ID[:], limit)...)
			return err
		}
		if f.Owner != (store.ID{}) {
			return collect("r.audience = ? AND r.owner = ? AND r.mode = ?", f.Audience, f.Owner, string(f.Mode))
		}
		for i, status := range f.Statuses {
			if slices.Contains(f.Statuses[:i], status) {
				continue
			}
			if err := collect("r.audience = ? AND r.status = ? AND ? IN ('', r.mode)", f.Audience, string(status), string(f.Mode)); err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b *store.Record) int {
		return cmp.Or(a.Created.Compare(b.Created), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return list[:min(limit, len(list))], err
}
