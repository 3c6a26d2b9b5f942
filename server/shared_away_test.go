package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// While the ledger is away, replicas tell their own clients at once, wait for nothing, and tell
// the others' as soon as it is back.
func TestChangesWithoutTheLedger(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*troubled, bool){
		"fails": (*troubled).setDown, "hangs": func(s *troubled, down bool) { s.hangs.Store(down) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				store := newTroubled(inMemory(t))
				r := sharing(t, 2, func() ledger.Store { return store })
				c := r[1].connect("2025-11-25", everything)
				require.Contains(t, c.ask(resourceRequest("subscribe", "notes://a")), `"result":{}`)
				there := c.get("")
				here := r[0].listen(listenFor(1, object{"resourceSubscriptions": []string{"notes://a"}}))
				here.must("1", acknowledged)
				away(store, true)
				for range 10 {
					begun := time.Now()
					r[0].srv.ResourceUpdated("notes://a")
					here.must("1", updated)
					assert.Less(t, time.Since(begun), 2*time.Second)
				}
				refused := c.ask(resourceRequest("subscribe", "notes://b"))
				assert.Contains(t, refused, `"code":-31503`, "it would hold here only")
				assert.Contains(t, c.ask(listTools), `"tools"`)
				time.Sleep(500 * time.Millisecond) // it is tried again without anything new to tell
				away(store, false)
				assert.Equal(t, []string{"notes://a"}, there.updates("notes://a"))
				r[1].srv.ToolsChanged()
				there.wait("notifications/tools/list_changed")
			})
		})
	}
}
