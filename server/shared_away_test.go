package server_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/server"
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

// Of streams that began while the ledger was away no more than one goes on when it is back.
func TestStreamsWithoutTheLedger(t *testing.T) {
	for name, late := range map[string]time.Duration{"the other begins at once": 2 * time.Second, "later": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newTroubled(ledger.NewMemory(ledger.MemoryOptions{}))
				o := server.Options{Ledger: store}
				here := newBubble(t, o)
				o.Keys = here.keys
				there := newBubble(t, o)
				there.session = here.session
				get := func(b *bubble) (ended <-chan time.Time, leave func()) {
					at := make(chan time.Time, 1)
					ctx, cancel := context.WithCancel(t.Context())
					go func() {
						r := httptest.NewRequestWithContext(ctx, "GET", "http://localhost/mcp", nil)
						r.Header.Set("Mcp-Session-Id", b.session)
						b.handler.ServeHTTP(httptest.NewRecorder(), r)
						at <- time.Now()
					}()
					return at, cancel
				}
				store.setDown(true)
				one, leave := get(here)
				defer leave()
				time.Sleep(time.Second)
				store.setDown(false)
				time.Sleep(late)
				begun := time.Now()
				two, leave := get(there)
				assert.Less(t, (<-one).Sub(begun), 16*time.Second)
				select {
				case <-two:
					assert.Fail(t, "both have ended")
				case <-time.After(time.Minute):
				}
				leave()
				<-two
				here.srv.Close()
				there.srv.Close()
				store.Close()
			})
		})
	}
}
