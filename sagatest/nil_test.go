package sagatest_test

import (
	"context"
	"testing"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
)

// A world in which nothing has happened may be nil where it is empty afterwards.
func TestNilIsAsEmptyAsEmpty(t *testing.T) {
	type world struct {
		Held   []string            `json:"held"`
		Guests map[string][]string `json:"guests"`
	}
	c := visitCase(true, nil)
	c.New = func(testing.TB) sagatest.Subject {
		var w world
		h := newHotel()
		do, undo := h.room.Do, h.room.Undo
		h.room.Do = func(ctx context.Context, key saga.Key, what string) (int, error) {
			n, err := do(ctx, key, what)
			w.Held = append([]string{}, h.held...)
			w.Guests = map[string][]string{"ann": w.Held}
			return n, err
		}
		h.room.Undo = func(ctx context.Context, p saga.Performed[string, int]) error {
			err := undo(ctx, p)
			w.Held = append([]string{}, h.held...)
			if w.Guests = map[string][]string{}; len(w.Held) > 0 {
				w.Guests["ann"] = w.Held
			}
			return err
		}
		return sagatest.Subject{Tool: h.visit(h.correctly), World: func() any { return w }}
	}
	sagatest.Sweep(t, c)
}
