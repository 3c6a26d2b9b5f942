package service

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Place holds what is asked under a key. A hold that there is already is returned
// as it is, if it was asked for in the same words.
func (s *Service) Place(ctx context.Context, key string, r Request) (h Hold, err error) {
	err = s.transact(ctx, func(t *tx) error {
		found, err := t.find(ctx, key)
		switch {
		case err != nil:
			return err
		case found == nil:
			h, err = t.place(ctx, key, r)
			return err
		case found.State == Released || found.State == Expired:
			return conflict("what was held under this key is %s", found.State)
		case found.Request != r:
			return conflict("something else is held under this key")
		}
		h = *found
		return nil
	})
	return h, err
}

func (t *tx) place(ctx context.Context, key string, r Request) (Hold, error) {
	if r.Item == "" || r.Units <= 0 {
		return Hold{}, conflict("a hold needs an item, and units above 0")
	}
	var taken int
	row := t.QueryRowContext(ctx, `SELECT coalesce(sum(iif(state = ?, units, kept)), 0) FROM holds WHERE item = ?`, Held, r.Item)
	if err := row.Scan(&taken); err != nil {
		return Hold{}, err
	}
	if left := t.opts.Capacity - taken; r.Units > left {
		return Hold{}, conflict("%d of %q are wanted and %d are left", r.Units, r.Item, left)
	}
	h := Hold{Key: key, Request: r, Amount: r.Units * t.opts.Price, State: Held, Expires: t.opts.Now().Add(t.opts.Lifetime)}
	return h, t.insert(ctx, h, "placed")
}

// Confirm makes a hold final. Of a hold of which only a part is wanted, units is that part;
// the rest is given back. 0 means all of it.
func (s *Service) Confirm(ctx context.Context, key string, units int) (h Hold, err error) {
	err = s.transact(ctx, func(t *tx) error {
		found, err := t.find(ctx, key)
		switch {
		case err != nil:
			return err
		case found == nil:
			return conflict("nothing is held under this key")
		case units == 0:
			units = found.Units
		}
		h = *found
		switch {
		case h.State == Confirmed && h.Kept == units:
			return nil
		case h.State != Held:
			return conflict("what was held under this key is %s", h.State)
		case units < 0 || units > h.Units:
			return conflict("%d are to be confirmed of %d", units, h.Units)
		}
		h.State, h.Kept, h.Amount = Confirmed, units, units*t.opts.Price
		return t.update(ctx, h, "confirmed")
	})
	return h, err
}

// Release gives back what is held under a key, and makes sure that nothing is
// held under it later.
func (s *Service) Release(ctx context.Context, key string) error {
	return s.transact(ctx, func(t *tx) error {
		found, err := t.find(ctx, key)
		switch {
		case err != nil:
			return err
		case found == nil:
			// The request to hold may still be under way.
			return t.insert(ctx, Hold{Key: key, State: Released}, "barred")
		case found.State == Confirmed:
			return conflict("what was held under this key is confirmed")
		case found.State != Held:
			return nil
		}
		found.State = Released
		return t.update(ctx, *found, "released")
	})
}

// List returns all holds there ever were.
func (s *Service) List(ctx context.Context) ([]Hold, error) {
	list := []Hold{}
	err := s.transact(ctx, func(t *tx) error {
		rows, err := t.QueryContext(ctx, selectHold+` ORDER BY rowid`)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			h, err := scan(rows.Scan)
			if err != nil {
				return err
			}
			list = append(list, h)
		}
		return rows.Err()
	})
	return list, err
}

const selectHold = `SELECT key, item, units, reference, amount, state, kept, expires FROM holds`

func scan(into func(...any) error) (h Hold, err error) {
	var expires int64
	err = into(&h.Key, &h.Item, &h.Units, &h.Reference, &h.Amount, &h.State, &h.Kept, &expires)
	h.Expires = time.Unix(0, expires).UTC()
	return h, err
}

// find returns nil if there is no hold with that key.
func (t *tx) find(ctx context.Context, key string) (*Hold, error) {
	h, err := scan(t.QueryRowContext(ctx, selectHold+` WHERE key = ?`, key).Scan)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &h, nil
}

func (t *tx) insert(ctx context.Context, h Hold, event string) error {
	var expires int64 // a key that is barred has no time, and no year 1 in nanoseconds
	if !h.Expires.IsZero() {
		expires = h.Expires.UnixNano()
	}
	_, err := t.ExecContext(ctx, `INSERT INTO holds (key, item, units, reference, amount, state, kept, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		h.Key, h.Item, h.Units, h.Reference, h.Amount, h.State, h.Kept, expires)
	return t.logged(ctx, h.Key, event, err)
}

func (t *tx) update(ctx context.Context, h Hold, event string) error {
	_, err := t.ExecContext(ctx, `UPDATE holds SET amount = ?, state = ?, kept = ? WHERE key = ?`, h.Amount, h.State, h.Kept, h.Key)
	return t.logged(ctx, h.Key, event, err)
}

func (t *tx) logged(ctx context.Context, key, event string, err error) error {
	if err == nil {
		_, err = t.ExecContext(ctx, `INSERT INTO log (key, event) VALUES (?, ?)`, key, event)
	}
	return err
}
