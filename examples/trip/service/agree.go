package service

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Ask notes whom to call when the owner of what is held agrees. It may be repeated.
func (s *Service) Ask(ctx context.Context, key, callback string) error {
	return s.transact(ctx, key, func(t *tx, found *Hold) error {
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
	err := s.transact(ctx, key, func(t *tx, found *Hold) error {
		if err := found.isThere(); err != nil {
			return err
		}
		if amount = found.Amount; found.State == Confirmed {
			return nil
		}
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
