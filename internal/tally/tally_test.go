package tally_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/tally"
)

// Whoever waits does so until the last has ended, and no longer.
func TestTally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under tally.Tally
		wait := func() chan struct{} {
			done := make(chan struct{}, 1)
			go func() {
				<-under.Idle()
				done <- struct{}{}
			}()
			synctest.Wait()
			return done
		}
		assert.Len(t, wait(), 1, "there is none")
		first, second := under.Begin(), under.Begin()
		one, two := wait(), wait()
		first()
		synctest.Wait()
		assert.Empty(t, one, "one is left")
		under.Begin()()
		synctest.Wait()
		assert.Empty(t, two, "one is left")
		second()
		synctest.Wait()
		for _, done := range []chan struct{}{one, two, wait()} {
			assert.Len(t, done, 1)
		}
		end := under.Begin()
		again := wait()
		assert.Empty(t, again)
		end()
		<-again
	})
}
