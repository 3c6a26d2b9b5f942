package sqlite

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

func (l *database) Write(ctx context.Context, r *store.Record, c store.Change) error {
	if err := r.Check(c); err != nil {
		return err
	}
	next := *r
	o := &op{id: r.ID, bytes: len(r.State) + len(r.Summary)}
	for i := range c.Items {
		o.bytes += len(c.Items[i].Body)
	}
	o.head = r.Head + uint64(len(c.Items))
	o.run = func(w *writer) error { return w.write(&next, c) }
	if err := l.writer.do(ctx, o); err != nil {
		return l.explain("write", err)
	}
	r.Head, r.Until, r.Created, r.Updated, r.Now, r.Tries, r.Unread = o.head, next.Until, next.Created, next.Updated, next.Updated, 0, nil
	return nil
}

// write writes a record, whose times become those to be returned.
func (w *writer) write(r *store.Record, c store.Change) error {
	old, n, err := w.find(r.ID)
	if err != nil {
		return err
	}
	now := w.ledger.now()
	if r.Head != old.Head || n != 0 && r.Tries != old.Tries || n != 0 && r.Fence != old.Fence && (r.Fence != old.Fence+1 || old.Until.After(now)) {
		return store.ErrConflict
	}
	if r.Request != (store.ID{}) && r.Request != old.Request {
		if taken, err := w.number("SELECT 1 FROM records WHERE request = ?", r.Request); err != nil {
			return err
		} else if taken != 0 {
			return store.ErrConflict
		}
	}
	if n != 0 {
		r.Audience, r.Account = old.Audience, old.Account
	}
	if c.Most > 0 && (n == 0 || r.Mode != old.Mode) {
		if err := w.room(r, c.Most); err != nil {
			return err
		}
	}
	r.Created, r.Updated, r.Until = old.Created, now, time.Time{}
	lease := int64(0)
	if c.Lease > 0 {
		r.Until = now.Add(c.Lease)
		lease = r.Until.UnixMicro()
	}
	head := r.Head + uint64(len(c.Items))
	if n == 0 {
		r.Created = now
		n, err = w.create(r, head, lease)
	} else {
		err = w.replace(r, old, n, head, lease)
	}
	if err != nil {
		return err
	}
	return w.append(n, r.Head, c.Items, now)
}

// room fails if the account of a record has no room for one more of its mode.
func (w *writer) room(r *store.Record, most int) error {
	count, err := w.number(`SELECT count(*) FROM (SELECT 1 FROM records
		WHERE audience = ? AND account IS ? AND mode = ? AND status NOT IN ('ended', 'outstanding') LIMIT ?)`,
		r.Audience, r.Account, string(r.Mode), most)
	if err == nil && count >= int64(most) {
		err = store.ErrFull
	}
	return err
}

func (w *writer) create(r *store.Record, head uint64, lease int64) (n int64, err error) {
	err = w.exec(`INSERT INTO records (id, audience, owner, account, request, tool, revision, format, mode, status, fence, head, seen, floor, tries,
			lease, wake, due, keep, created, updated, summary) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?12, ?12, 0, 0, ?13, ?14, max(?14, ?13), ?15, ?16, ?16, ?17)`,
		r.ID, r.Audience, r.Owner, r.Account, r.Request, r.Tool, int(r.Revision), int(r.Format), string(r.Mode), string(r.Status), r.Fence, head,
		lease, r.Wake, r.Keep, r.Created, r.Summary)
	n = w.LastInsertRowID()
	if err == nil && len(r.State) > 0 {
		err = w.exec("INSERT INTO states (record, body) VALUES (?, ?)", n, r.State)
	}
	return n, err
}

func (w *writer) replace(r, old *store.Record, n int64, head uint64, lease int64) error {
	floor := max(old.Floor, min(r.Floor, old.Head))
	if floor > old.Floor {
		if err := w.exec("DELETE FROM items WHERE record = ? AND n > ? AND n <= ? AND NOT lasting", n, old.Floor, floor); err != nil {
			return err
		}
	}
	err := w.exec(`UPDATE records SET tool = ?, revision = ?, format = ?, mode = ?, status = ?, request = ?, keep = ?, fence = ?, head = ?9, seen = ?9,
			floor = ?, tries = 0, lease = ?11, wake = ?12, due = max(?12, ?11), updated = ?, summary = ? WHERE n = ?`,
		r.Tool, int(r.Revision), int(r.Format), string(r.Mode), string(r.Status), r.Request, r.Keep, r.Fence, head,
		floor, lease, r.Wake, r.Updated, r.Summary, n)
	if err != nil {
		return err
	}
	if len(r.State) == 0 {
		return w.exec("DELETE FROM states WHERE record = ?", n)
	}
	return w.exec("INSERT INTO states (record, body) VALUES (?, ?) ON CONFLICT (record) DO UPDATE SET body = excluded.body", n, r.State)
}

func (w *writer) append(n int64, head uint64, items []store.Item, now time.Time) error {
	for i := range items {
		err := w.exec("INSERT INTO items (record, n, kind, lasting, at, body) VALUES (?, ?, ?, ?, ?, ?)",
			n, head+uint64(i)+1, items[i].Kind, items[i].Lasting, now, items[i].Body)
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *database) Signal(ctx context.Context, id store.ID, head uint64, items ...store.Item) error {
	if err := store.CheckItems(items); err != nil {
		return err
	}
	next := head + uint64(len(items))
	return l.explain("signal", l.writer.do(ctx, &op{id: id, head: next, run: func(w *writer) error {
		old, n, err := w.find(id)
		switch {
		case err != nil:
			return err
		case n == 0 || old.Status.Over():
			return store.ErrNotFound
		case old.Head != head:
			return store.ErrConflict
		}
		now := l.now()
		wake := old.Wake
		if wake.IsZero() || wake.After(now) {
			wake = now
		}
		if err := w.exec("UPDATE records SET head = ?1, wake = ?2, due = max(?2, lease) WHERE n = ?3", next, wake, n); err != nil {
			return err
		}
		return w.append(n, head, items, now)
	}}))
}
