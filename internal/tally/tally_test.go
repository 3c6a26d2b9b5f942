package tally_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/tally"
)

// Whoever waits does so until the last has ended, and no longer.
func TestTally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under tally.Tally
		ctx, stop := context.WithCancel(t.Context())
		wait := func(ctx context.Context) chan error {
			done := make(chan error, 1)
			go func() { done <- under.Wait(ctx) }()
			synctest.Wait()
			return done
		}
		assert.Len(t, wait(ctx), 1, "there is none")
		first, second := under.Begin(), under.Begin()
		one, two, impatient := wait(t.Context()), wait(t.Context()), wait(ctx)
		first()
		synctest.Wait()
		assert.Empty(t, one, "one is left")
		under.Begin()()
		synctest.Wait()
		assert.Empty(t, two, "one is left")
		stop()
		assert.ErrorIs(t, <-impatient, context.Canceled)
		second()
		synctest.Wait()
		for _, done := range []chan error{one, two, wait(t.Context()), wait(ctx)} {
			assert.Len(t, done, 1)
			assert.NoError(t, <-done)
		}
		end := under.Begin()
		again := wait(t.Context())
		assert.Empty(t, again)
		end()
		assert.NoError(t, <-again)
	})
}
