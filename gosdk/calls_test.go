package gosdk

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// Whoever waits does so until the last call has ended, and no longer.
func TestCallsAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c calls
		ctx, stop := context.WithCancel(t.Context())
		wait := func(ctx context.Context) chan error {
			done := make(chan error, 1)
			go func() { done <- c.wait(ctx) }()
			synctest.Wait()
			return done
		}
		assert.Len(t, wait(ctx), 1, "there is none")
		c.begin()
		c.begin()
		one, two, impatient := wait(t.Context()), wait(t.Context()), wait(ctx)
		c.end()
		synctest.Wait()
		assert.Empty(t, one, "one is left")
		c.begin()
		c.end()
		synctest.Wait()
		assert.Empty(t, two, "one is left")
		stop()
		assert.ErrorIs(t, <-impatient, context.Canceled)
		c.end()
		synctest.Wait()
		for _, done := range []chan error{one, two, wait(t.Context())} {
			assert.Len(t, done, 1)
			assert.NoError(t, <-done)
		}
		c.begin()
		again := wait(t.Context())
		assert.Empty(t, again)
		c.end()
		assert.NoError(t, <-again)
	})
}
