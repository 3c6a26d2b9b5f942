package sqlite

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// relook is how often those who wait look for themselves, whatever they were told: clocks
// may have been set, and a record forgotten and made again.
const relook = time.Second

// Watch implements [ledger.Store].
func (s *store) Watch(ctx context.Context, key string, after uint64) iter.Seq2[*ledger.Record, error] {
	return func(yield func(*ledger.Record, error) bool) {
		changed, end := s.waits.watch(key)
		defer end()
		for after := after; ; {
			r, err := s.Load(ctx, key)
			switch {
			case err == nil:
				s.waits.saw(key, r.Rev)
				if r.Rev > after {
					if after = r.Rev; !yield(r, nil) {
						return
					}
				}
			case !errors.Is(err, ledger.ErrNotFound):
				yield(nil, err)
				return
			}
			if err := s.sleep(ctx, changed, relook); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// Notify implements [ledger.Notifier].
func (s *store) Notify(key string, rev uint64, changed func()) (stop func()) {
	return s.waits.notify(key, rev, changed)
}

// sleep waits for a bell, or for d, and fails if ctx or the store ends.
func (s *store) sleep(ctx context.Context, b bell, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-b:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return ledger.ErrClosed
	}
	return nil
}

// findNews is the goroutine that finds out, when other processes have changed something,
// which of the records that are watched it was, so that not all who watch have to.
func (s *store) findNews() {
	defer close(s.waits.ended)
	for {
		select {
		case <-s.waits.stale:
		case <-s.closing:
			return
		}
		for key, was := range s.waits.watched() {
			var rev uint64
			err := s.read(context.Background(), func(r *reader) error {
				r.rev.BindText(1, key)
				_, err := one(r.rev, func() { rev = uint64(r.rev.ColumnInt64(0)) })
				return err
			})
			if err != nil {
				rev = was + 1 // they see for themselves
			}
			s.waits.found(key, was, rev)
		}
	}
}
