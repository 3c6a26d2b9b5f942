package records

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// ahead is a store whose clock is ahead, and which takes its time to say so.
type ahead struct {
	ledger.Store
	by, takes time.Duration
	fails     error
	asked     int
}

func (a *ahead) Now(context.Context) (time.Time, error) {
	a.asked++
	time.Sleep(a.takes)
	return time.Now().Add(a.by), a.fails
}

func TestTimeOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &ahead{by: time.Hour}
		b := New(store, func() *codec.Keyset { return nil }, "here", 0)
		off := func() time.Duration { return time.Until(b.Now(t.Context(), time.Now)) }
		store.fails = errors.New("connection refused")
		assert.Zero(t, off(), "unknown yet")
		store.fails = nil
		assert.Equal(t, time.Hour, off())
		store.by = 2 * time.Hour
		assert.Equal(t, time.Hour, off(), "it is not asked each time")
		assert.Equal(t, 2, store.asked)
		time.Sleep(measureEvery)
		store.takes = measureWithin + time.Millisecond
		assert.Equal(t, time.Hour, off(), "nobody knows when it was asked")
		store.takes = 0
		assert.Equal(t, 2*time.Hour, off())
		time.Sleep(measureEvery)
		store.fails = errors.New("connection refused")
		assert.Equal(t, 2*time.Hour, off(), "it is where it was")
	})
}

// A clock that is set by less than the shortest lease makes none of them longer or shorter.
func TestTimeOfTheStoreOnceTheClockWasSet(t *testing.T) {
	for _, by := range []time.Duration{time.Minute, -time.Minute, time.Second / 2, -time.Second / 2} {
		synctest.Test(t, func(t *testing.T) {
			store := &ahead{by: time.Hour}
			b := New(store, func() *codec.Keyset { return nil }, "here", 0)
			set := time.Duration(0)
			off := func() time.Duration {
				return time.Until(b.Now(t.Context(), func() time.Time { return time.Now().Add(set) }))
			}
			assert.Equal(t, time.Hour, off())
			time.Sleep(measureEvery / 2)
			set = by
			assert.Equal(t, time.Hour, off(), "set by %v", by)
			assert.Equal(t, 2, store.asked)
		})
	}
}
