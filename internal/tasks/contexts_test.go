package tasks

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/records"
)

// Each attempt to write has about as long as it is to have, and ends with its parent, however many
// share a context.
func TestSharedContextsOfWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, end := context.WithCancel(t.Context())
		var w writeContexts
		first := w.get(parent)
		time.Sleep(shared - time.Millisecond)
		assert.Same(t, first, w.get(parent), "what begins at about the same time shares one")
		time.Sleep(time.Millisecond)
		second := w.get(parent)
		assert.NotSame(t, first, second)
		time.Sleep(writeTime)
		synctest.Wait()
		assert.Equal(t, records.ErrSlow, context.Cause(first))
		assert.NoError(t, second.Err(), "it has a moment yet")
		third := w.get(parent)
		assert.NoError(t, third.Err())
		time.Sleep(shared)
		synctest.Wait()
		assert.Equal(t, records.ErrSlow, context.Cause(second))
		assert.NoError(t, third.Err())

		other, endOther := context.WithCancel(t.Context())
		defer endOther()
		last, fourth := w.get(parent), w.get(other)
		end()
		assert.Equal(t, context.Canceled, context.Cause(third))
		assert.Equal(t, context.Canceled, context.Cause(last))
		assert.NoError(t, fourth.Err(), "its parent goes on")
	})
}
