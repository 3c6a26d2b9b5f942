package ledgertest

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
)

var endChecks = []check{
	{"end/contexts", func(r *rig) {
		s := r.open()
		past := r.now(s).Add(-time.Hour)
		rec := r.put(s, ledger.Record{Key: "k", Queue: "q", Owner: "o", Wake: past, Keep: past})
		canceled, cancel := context.WithCancel(r.ctx)
		cancel()
		expired, cancel := context.WithDeadline(r.ctx, time.Now().Add(-time.Second))
		defer cancel()
		for name, method := range methods(s, "k") {
			require.ErrorIsf(r, method(canceled), context.Canceled, "%s with a context that was canceled", name)
			require.ErrorIsf(r, method(expired), context.DeadlineExceeded, "%s with a context whose time is over", name)
		}
		r.unchanged(s, rec, nil, "calls whose context had ended")
	}},
	{"end/close", func(r *rig) {
		s := r.Open()
		rec := r.put(s, ledger.Record{Key: "k"})
		var waiting []<-chan error
		for name, method := range methods(s, "k") {
			if name != "Take" && name != "Watch" {
				continue
			}
			for range 3 {
				done := make(chan error, 1)
				go func() { done <- method(r.ctx) }()
				waiting = append(waiting, done)
			}
		}
		time.Sleep(50 * time.Millisecond)
		require.NoError(r, s.Close(), "Close")
		for _, done := range waiting {
			require.ErrorIs(r, wait(r, done, "what waits while the store is closed"), ledger.ErrClosed)
		}
		for name, method := range methods(s, "k") {
			require.ErrorIsf(r, method(r.ctx), ledger.ErrClosed, "%s after Close", name)
		}
		require.NoError(r, s.Close(), "Close of a store that is closed")
		if !r.Single {
			r.unchanged(r.open(), rec, nil, "the handle that had written it was closed")
		}
	}},
	{"end/close is of one handle", func(r *rig) {
		if r.Single {
			r.Skip("there is one handle only")
		}
		s, other := r.Open(), r.open()
		rec := r.put(s, ledger.Record{Key: "k"})
		done := r.take(other, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Minute})
		require.NoError(r, s.Close())
		r.unchanged(other, rec, nil, "another handle was closed")
		r.put(other, ledger.Record{Key: "l", Queue: "q", Wake: r.now(other)})
		r.arrived(done, "Take that waited while another handle was closed")
	}},
}

// methods calls every method in a way that would succeed, or wait, for a record that has
// no revision 9.
func methods(s ledger.Store, key string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Load":  func(ctx context.Context) error { _, err := s.Load(ctx, key); return err },
		"Swap":  func(ctx context.Context) error { return s.Swap(ctx, &ledger.Record{Key: key, Rev: 1}) },
		"Items": func(ctx context.Context) error { _, err := s.Items(ctx, key, 0, 1); return err },
		"Watch": func(ctx context.Context) error {
			for rec, err := range s.Watch(ctx, key, 9) {
				if rec != nil {
					return errors.New("a Watch that is to wait yielded a record")
				}
				return err
			}
			return errors.New("a Watch ended without an error")
		},
		"Take": func(ctx context.Context) error {
			_, err := s.Take(ctx, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: time.Minute})
			return err
		},
		"List":   func(ctx context.Context) error { _, err := s.List(ctx, []string{"q"}, "", 1); return err },
		"Owned":  func(ctx context.Context) error { _, err := s.Owned(ctx, []string{"o"}, "", 1); return err },
		"Count":  func(ctx context.Context) error { _, err := s.Count(ctx, "o", 1); return err },
		"Forget": func(ctx context.Context) error { _, err := s.Forget(ctx, 1); return err },
		"Now":    func(ctx context.Context) error { _, err := s.Now(ctx); return err },
	}
}
