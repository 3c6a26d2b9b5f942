package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"

	driver "zombiezen.com/go/sqlite"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// read has a free connection do something, which sees the database as of one moment. The statements are
// short, so ctx limits only how long to wait for the connection.
func (l *ledger) read(ctx context.Context, do func(*conn) error) error {
	if l.isClosed() {
		return store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
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
	if _, err := l.files.check(); err != nil {
		return err
	}
	err := exec(c.snapshot)
	if err == nil {
		err = do(c)
		_ = exec(c.rollback)
	}
	if err != nil && err != store.ErrNotFound { // perhaps since the files were replaced meanwhile
		if _, moved := l.files.check(); moved != nil {
			return moved
		}
	}
	return err
}

// Load implements [store.Store].
func (l *ledger) Load(ctx context.Context, id store.ID) (*store.Record, error) {
	return l.load(ctx, func(c *conn) *driver.Stmt { return c.load }, id)
}

// Find implements [store.Store].
func (l *ledger) Find(ctx context.Context, request store.ID) (*store.Record, error) {
	return l.load(ctx, func(c *conn) *driver.Stmt { return c.find }, request)
}

func (l *ledger) load(ctx context.Context, by func(*conn) *driver.Stmt, id store.ID) (r *store.Record, err error) {
	err = l.read(ctx, func(c *conn) error {
		if r, err = c.record(by(c), id); err == nil {
			r.Now = l.clock.now()
		}
		return err
	})
	if err != nil {
		return nil, l.explain("read", err)
	}
	return r, nil
}

// record reads the record that a statement finds, with what is unread.
func (c *conn) record(s *driver.Stmt, by any) (r *store.Record, err error) {
	var n int64
	var seen uint64
	found, err := each(s, func() {
		r = recordOf(s)
		n, seen, r.State = s.ColumnInt64(20), uint64(s.ColumnInt64(21)), bytesOf(s, 22)
	}, by)
	if err == nil && found == 0 {
		err = store.ErrNotFound
	}
	if err == nil && r.Head > seen {
		r.Unread, err = c.items(n, seen, math.MaxInt64)
	}
	return r, err
}

// recordOf reads the columns that are shown.
func recordOf(s *driver.Stmt) *store.Record {
	r := &store.Record{
		ID: idOf(s, 0), Audience: s.ColumnText(1), Owner: idOf(s, 2), Account: idOf(s, 3), Request: idOf(s, 4),
		Tool: s.ColumnText(5), Revision: uint32(s.ColumnInt64(6)), Format: uint16(s.ColumnInt64(7)),
		Mode: store.Mode(s.ColumnText(8)), Status: store.Status(s.ColumnText(9)),
		Fence: uint64(s.ColumnInt64(10)), Head: uint64(s.ColumnInt64(11)), Floor: uint64(s.ColumnInt64(12)), Tries: s.ColumnInt(13),
		Wake: timeOf(s, 15), Keep: timeOf(s, 16), Created: timeOf(s, 17), Updated: timeOf(s, 18), Summary: bytesOf(s, 19),
	}
	if s.ColumnInt64(14) != 0 {
		r.Until = timeOf(s, 14)
	}
	return r
}

// items reads items of a record's log whose number is greater than after.
func (c *conn) items(n int64, after uint64, limit int) (list []store.Item, err error) {
	s := c.unread
	_, err = each(s, func() {
		list = append(list, store.Item{
			N: uint64(s.ColumnInt64(0)), Kind: s.ColumnText(1), Lasting: s.ColumnBool(2), At: timeOf(s, 3), Body: bytesOf(s, 4),
		})
	}, n, min(after, math.MaxInt64), max(0, limit)) // to SQLite, a negative limit is none
	return list, err
}

// Log implements [store.Store].
func (l *ledger) Log(ctx context.Context, id store.ID, after uint64, limit int) (*store.Log, error) {
	found := new(store.Log)
	err := l.read(ctx, func(c *conn) error {
		var n int64
		_, err := each(c.log, func() {
			n, found.Head, found.Floor = c.log.ColumnInt64(0), uint64(c.log.ColumnInt64(1)), uint64(c.log.ColumnInt64(2))
			found.Status = store.Status(c.log.ColumnText(3))
		}, id)
		if err == nil && n == 0 {
			err = store.ErrNotFound
		}
		if err == nil && after < found.Head {
			found.Items, err = c.items(n, after, limit)
		}
		return err
	})
	if err != nil {
		return nil, l.explain("read", err)
	}
	return found, nil
}

// Heads implements [store.Store].
func (l *ledger) Heads(ctx context.Context, ids []store.ID) ([]uint64, error) {
	heads := make([]uint64, len(ids))
	err := l.read(ctx, func(c *conn) error {
		for i, id := range ids {
			if _, err := each(c.heads, func() { heads[i] = uint64(c.heads.ColumnInt64(0)) }, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, l.explain("read", err)
	}
	return heads, nil
}

// List implements [store.Store].
func (l *ledger) List(ctx context.Context, f store.Filter, after store.Cursor, limit int) (list []*store.Record, err error) {
	limit = max(0, limit)
	from := int64(math.MinInt64)
	if !after.Created.IsZero() {
		from = after.Created.UnixMicro()
	}
	id := after.ID[:] // not NULL if it is zero
	err = l.read(ctx, func(c *conn) error {
		now := l.clock.now()
		collect := func(s *driver.Stmt, args ...any) error {
			_, err := each(s, func() {
				r := recordOf(s)
				r.Now = now
				list = append(list, r)
			}, append(args, from, id, limit)...)
			return err
		}
		if f.Owner != (store.ID{}) {
			return collect(c.owned, f.Audience, f.Owner, string(f.Mode))
		}
		for i, status := range f.Statuses {
			if slices.Contains(f.Statuses[:i], status) {
				continue
			}
			if err := collect(c.status, f.Audience, string(status)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, l.explain("read", err)
	}
	slices.SortFunc(list, func(a, b *store.Record) int {
		return cmp.Or(a.Created.Compare(b.Created), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return list[:min(limit, len(list))], nil
}
