package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
	"github.com/mcpsaga/mcpsaga/internal/store"
)

// A record that is taken while others signal it has all that is unread, though it is locked as it is now and the
// log is read as it was when the statement began.
func TestTakenRecordsAreWhole(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	_, url := newDatabase(t, server)
	s, other := open(t, url), open(t, url)
	const n = 12
	var ids []store.ID
	for range n {
		ids = append(ids, create(t, s, func(r *store.Record) { r.Wake = time.Unix(1, 0) }).ID)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		heads := make([]uint64, n)
		for i := 0; ctx.Err() == nil; i = (i + 1) % n {
			if heads[i] == 0 {
				heads[i] = 1
			}
			switch err := other.Signal(t.Context(), ids[i], heads[i], change("x").Items...); {
			case err == nil:
				heads[i]++
			case errors.Is(err, store.ErrConflict):
				now, err := other.Load(t.Context(), ids[i])
				assert.NoError(t, err)
				heads[i] = now.Head
			default:
				assert.NoError(t, err)
			}
		}
	}()
	take, taken := taking(n), 0
	take.Lease = time.Microsecond
	for ctx.Err() == nil {
		list, _, err := s.Take(t.Context(), take)
		require.NoError(t, err)
		for _, r := range list {
			taken++
			if len(r.Unread) != int(r.Head)-1 {
				cancel()
				<-done
				require.Len(t, r.Unread, int(r.Head)-1)
			}
		}
	}
	<-done
	assert.Positive(t, taken)
	t.Logf("%d records were taken", taken)
}
