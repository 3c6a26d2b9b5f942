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

// What one replica tells reaches the others also after the keys were rotated and the old one is gone:
// those that have been there, and one that knows the new key only.
func TestReplicasTellOneAnotherAfterARotation(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		keys := newKeys(t)
		o := server.Options{Keys: keys, Ledger: inMemory(t)}
		r := replicas(t, 2, o)
		told := func(from, to *rig, uri string) {
			t.Helper()
			c := to.connect("2025-11-25", everything)
			assert.Contains(t, c.ask(resourceRequest("subscribe", uri)), `"result":{}`)
			stream := c.get("")
			synctest.Wait()
			from.srv.ResourceUpdated(uri)
			assert.Equal(t, []string{uri}, stream.updates(uri))
		}
		told(r[1], r[0], "notes://before")
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
		told(r[1], r[0], "notes://after")
		o.Keys = disabled
		fresh := replicas(t, 1, o)[0]
		told(r[0], fresh, "notes://fresh")
		told(fresh, r[1], "notes://back")
	})
}
