// Package service is a small booking service with a database of its own. The trip
// example runs it three times: it holds beds, seats and money.
//
// A hold takes units of an item, such as beds in a city on certain days, for a
// while. It is then confirmed, released, or expires by itself. The caller names
// each hold with a key. A repeated request gets the same answer, and a key that was
// released before anything was held is refused ever after: a request that was delayed
// cannot hold anything once its caller has given up.
//
//	PUT    /holds/{key}          place a hold     200, or 409 if it cannot be had
//	DELETE /holds/{key}          release it       204, or 409 if it is confirmed
//	POST   /holds/{key}/confirm  make it final    200, or 409 if it is not held
//	POST   /holds/{key}/ask      ask its owner    204, or 409 if it is not held
//	POST   /holds/{key}/agree    the owner agrees 204, or 409 if it is not asked
//	GET    /holds                list all holds   200
//
// Every answer is given after the database is on disk, so the process can be killed at
// any time.
package service

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Request says what to hold.
type Request struct {
	// Item is what has a limited number of units.
	Item string `json:"item"`
	// Units is how many of them.
	Units int `json:"units"`
	// Reference is the caller's word for what the hold is for.
	Reference string `json:"reference"`
}

// State is what has become of a hold.
type State string

// The states of a hold. Only the first changes.
const (
	Held      State = "held"
	Confirmed State = "confirmed"
	Released  State = "released"
	Expired   State = "expired"
)

// Hold is a number of units that no one else can have.
type Hold struct {
	Key string `json:"key"`
	Request
	// Amount is the price of all units, in cents.
	Amount int   `json:"amount"`
	State  State `json:"state"`
	// Kept is how many units were confirmed; the others were given back.
	Kept int `json:"kept,omitzero"`
	// Expires is when it is released by itself, unless it is confirmed.
	Expires time.Time `json:"expires"`
}

// Conflict refuses a request for good: it changed nothing, and would be refused again.
type Conflict struct {
	// Reason says why, for people.
	Reason string
}

// Error implements error.
func (c *Conflict) Error() string { return c.Reason }

var errNothing = conflict("nothing is held under this key")

func conflict(format string, args ...any) error {
	return &Conflict{fmt.Sprintf(format, args...)}
}

// Place holds what is requested under a key. A repeated request gets the hold that is there.
func (s *Service) Place(ctx context.Context, key string, r Request) (h Hold, err error) {
	err = s.transact(ctx, key, func(t *sql.Tx, found *Hold) (err error) {
		switch {
		case found == nil:
			h, err = s.place(ctx, t, key, r)
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

func (s *Service) place(ctx context.Context, t *sql.Tx, key string, r Request) (Hold, error) {
	if r.Item == "" || r.Units <= 0 {
		return Hold{}, conflict("a hold needs an item, and units above 0")
	}
	var taken int // held or confirmed
	row := t.QueryRowContext(ctx, `SELECT coalesce(sum(iif(state = ?, units, kept)), 0) FROM holds WHERE item = ?`, Held, r.Item)
	if err := row.Scan(&taken); err != nil {
		return Hold{}, err
	}
	if left := s.opts.Capacity - taken; r.Units > left {
		return Hold{}, conflict("%d of %q are wanted and %d are left", r.Units, r.Item, left)
	}
	h := Hold{Key: key, Request: r, Amount: r.Units * s.opts.Price, State: Held, Expires: s.opts.Now().Add(s.opts.Lifetime)}
	return h, save(ctx, t, h, "placed")
}

// Confirm makes a hold final. Units is how many of it are wanted, and 0 means all; the rest is given
// back.
func (s *Service) Confirm(ctx context.Context, key string, units int) (h Hold, err error) {
	err = s.transact(ctx, key, func(t *sql.Tx, found *Hold) error {
		if found == nil {
			return errNothing
		}
		if h = *found; units == 0 {
			units = h.Units
		}
		switch {
		case h.State == Confirmed && h.Kept == units:
			return nil
		case h.State != Held:
			return conflict("what was held under this key is %s", h.State)
		case units < 0 || units > h.Units:
			return conflict("%d are to be confirmed of %d", units, h.Units)
		}
		h.State, h.Kept = Confirmed, units
		return save(ctx, t, h, "confirmed")
	})
	return h, err
}

// Release gives back what is held under a key, and makes sure that nothing is held under it later.
func (s *Service) Release(ctx context.Context, key string) error {
	return s.transact(ctx, key, func(t *sql.Tx, found *Hold) error {
		switch {
		case found == nil:
			// The request to hold may still be under way.
			return save(ctx, t, Hold{Key: key, State: Released, Expires: s.opts.Now()}, "barred")
		case found.State == Confirmed:
			return conflict("what was held under this key is confirmed")
		case found.State != Held:
			return nil
		}
		found.State = Released
		return save(ctx, t, *found, "released")
	})
}

// Ask notes whom to call when the owner of what is held agrees. It may be repeated.
func (s *Service) Ask(ctx context.Context, key, callback string) error {
	return s.transact(ctx, key, func(t *sql.Tx, found *Hold) error {
		if err := found.isThere(); err != nil {
			return err
		}
		_, err := t.ExecContext(ctx, `INSERT INTO asked (key, callback) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET callback = excluded.callback`, key, callback)
		return err
	})
}

// Agree is for the owner: it calls whom Ask has noted. Nothing is confirmed by it, so it may be repeated. When that has been
// confirmed, there is no one to call any more.
func (s *Service) Agree(ctx context.Context, key string) error {
	var callback string
	var amount int
	err := s.transact(ctx, key, func(t *sql.Tx, found *Hold) error {
		if err := found.isThere(); err != nil || found.State == Confirmed {
			return err
		}
		amount = found.Amount
		err := t.QueryRowContext(ctx, `SELECT callback FROM asked WHERE key = ?`, key).Scan(&callback)
		if errors.Is(err, sql.ErrNoRows) {
			return conflict("you were not asked for this")
		}
		return err
	})
	if err != nil || callback == "" {
		return err
	}
	body, err := json.Marshal(map[string]int{"amount": amount})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, callback, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	switch {
	case response.StatusCode < http.StatusMultipleChoices:
		return nil
	case response.StatusCode == http.StatusGone || response.StatusCode == http.StatusNotFound:
		return conflict("it is too late: this is not waited for any more")
	}
	return fmt.Errorf("who has asked answers with the status %s", response.Status)
}

// isThere fails if there is no hold, or it is released or expired.
func (h *Hold) isThere() error {
	switch {
	case h == nil:
		return errNothing
	case h.State == Released || h.State == Expired:
		return conflict("what was held under this key is %s", h.State)
	}
	return nil
}
