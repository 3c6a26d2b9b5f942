package durable_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// A saga whose turn was lost after what is final, and whose client has cancelled too late and stays away, ends and is
// forgotten at last.
func TestAClientCancelsTooLateAndNeverComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOutside()
		s := newFleet(t, w.delivery())
		a, b := s.replica(), s.replica()
		first := a.begin(t, `{"to":"Rome"}`)
		w.dies(a, "pay")
		_, err := a.resume(first.Token, say("where", true))
		require.Error(t, err)
		stop := b.work(t)
		end, err := b.cancel(first.Token, say("where", true))
		require.NoError(t, err)
		require.Contains(t, end.Result.Content.Text(), "Not cancelled: it is too late.")
		assert.Greater(t, time.Until(b.onlyWaiting(t).Due), 5*time.Minute)
		time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Minute)
		assert.Empty(t, b.waiting(t))
		stop()
		time.Sleep(90 * 24 * time.Hour)
		s.forget()
		assert.Empty(t, s.all())
		assert.Len(t, w.things(), 1)
	})
}
