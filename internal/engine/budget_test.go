package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// The time in which a turn waits for its checkpoints is not its code's.
func TestBudgetStandsStillWhileATurnWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(t.Context(), time.Minute)
		defer b.close()
		begun, before := time.Now(), b.Done()
		derived, stop := context.WithCancel(b)
		defer stop()
		time.Sleep(50 * time.Second)
		resume := b.wait()
		time.Sleep(time.Hour)
		assert.NoError(t, b.Err())
		end, _ := b.Deadline()
		assert.Equal(t, 10*time.Second, time.Until(end))
		resume()
		time.Sleep(9 * time.Second)
		assert.NoError(t, b.Err())
		assert.NoError(t, derived.Err(), "also what was derived before has the time")
		<-before
		<-derived.Done()
		assert.Equal(t, time.Hour+time.Minute, time.Since(begun))
		assert.Equal(t, context.DeadlineExceeded, b.Err())
		child, cancel := context.WithTimeout(b, time.Hour)
		defer cancel()
		<-child.Done()
		assert.Equal(t, context.DeadlineExceeded, child.Err())
	})
}

// It ends with the request as well, also while it stands still.
func TestBudgetEndsWithItsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		b := newBudget(parent, time.Minute)
		defer b.close()
		resume := b.wait()
		cancel()
		<-b.Done()
		assert.Equal(t, context.Canceled, b.Err())
		resume()
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		b = newBudget(late, time.Minute)
		defer b.close()
		end, ok := b.Deadline()
		assert.True(t, ok)
		assert.Equal(t, time.Second, time.Until(end))
		<-b.Done()
		assert.Equal(t, context.DeadlineExceeded, b.Err())
	})
}
