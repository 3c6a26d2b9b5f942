package server_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/server"
)

// What one replica tells reaches the others also after the keys were rotated, one replica after the other,
// and after the old key is gone.
func TestReplicasTellOneAnotherAfterARotation(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		keys := newKeys(t)
		r := replicas(t, 2, server.Options{Keys: keys, Ledger: inMemory(t)})
		told := func(uri string) {
			t.Helper()
			c := r[0].connect("2025-11-25", everything)
			assert.Contains(t, c.ask(resourceRequest("subscribe", uri)), `"result":{}`)
			stream := c.get("")
			synctest.Wait()
			r[1].srv.ResourceUpdated(uri)
			assert.Equal(t, []string{uri}, stream.updates(uri))
		}
		told("notes://before")
		added, id, err := keys.Add(codec.XChaCha20Poly1305)
		require.NoError(t, err)
		promoted, err := added.Promote(id)
		require.NoError(t, err)
		disabled, err := promoted.Disable(keys.Primary().ID)
		require.NoError(t, err)
		for _, step := range []*codec.Keyset{added, promoted, disabled} {
			for _, r := range r {
				r.srv.SetKeys(step)
			}
			time.Sleep(time.Minute)
		}
		told("notes://after")
	})
}
