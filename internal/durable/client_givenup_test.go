package durable_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What was given up is shown to operators for a while, and then forgotten. It is not tried again then,
// which would keep it for ever.
func TestWhatIsGivenUpIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		w.unwilling = map[string]bool{"hold": true}
		s := newFleet(t, w.trip(nil))
		a := s.replica()
		_, err := a.call(`{"to":"Rome","early":true}`)
		require.NoError(t, err)
		list := func() []durable.Waiting { return a.waiting(t) }
		works := func(d time.Duration) {
			stop := a.work(t)
			time.Sleep(d)
			stop()
		}
		works(time.Hour)
		time.Sleep(15 * 24 * time.Hour)
		works(time.Hour)
		require.Equal(t, durable.GivenUp, list()[0].State)
		tries := len(w.calls)
		time.Sleep(60 * 24 * time.Hour)
		works(time.Hour)
		assert.Len(t, w.calls, tries)
		assert.Empty(t, list())
	})
}
