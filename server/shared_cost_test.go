package server_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
)

// A burst costs a few writes, whatever is in it, and all hear of everything, though there is no
// room to say what it was.
func TestBurstsAreCoalesced(t *testing.T) {
	store := newTroubled(inMemory(t))
	r := sharing(t, 2, func() ledger.Store { return store })
	var uris []string
	for i := range 1000 {
		uris = append(uris, fmt.Sprint("notes://", i))
	}
	modern := r[1].listen(listenFor(1, object{"promptsListChanged": true, "resourceSubscriptions": uris}))
	modern.must("1", acknowledged)
	huge := "notes://" + strings.Repeat("x", 1<<20)
	before, begun := store.writes.Load(), time.Now()
	for range 20 {
		for _, uri := range uris {
			r[0].srv.ResourceUpdated(uri)
		}
		r[0].srv.ResourceUpdated(huge)
		r[0].srv.ResourceUpdated("not\xffUTF-8")
	}
	said := time.Since(begun)
	heard := make(map[string]bool)
	for len(heard) < len(uris) {
		m, ok := modern.next()
		require.True(t, ok)
		heard[string(m.Params)] = true
	}
	wrote, took := store.writes.Load()-before, time.Since(begun)
	assert.LessOrEqual(t, wrote, int64(took/(50*time.Millisecond))+3)
	assert.Less(t, said, 2*time.Second)
	t.Log("20 000 changes were said in", said, "and heard in", took, "with", wrote, "writes")
}

// A request of a session reads its record once.
func TestSessionsAreReadOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		store := newTroubled(inMemory(t))
		r := sharing(t, 1, func() ledger.Store { return store })[0]
		c := r.connect("2025-11-25", everything)
		time.Sleep(1100 * time.Millisecond)
		count := func(do func()) (loads, swaps int64) {
			loads, swaps = store.loads.Load(), store.writes.Load()
			do()
			return store.loads.Load() - loads, store.writes.Load() - swaps
		}
		for i, message := range []string{toolCall(1, "sum", `{}`), `{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}`, toolCall(1, "sum", `{}`), resourceRequest("subscribe", "notes://a")} {
			loads, swaps := count(func() { c.ask(message) })
			assert.EqualValues(t, 1, loads, message)
			assert.EqualValues(t, i%2, swaps, message)
		}
		loads, _ := count(func() {
			for range 100 {
				c.ask(pingMessage)
				c.ask(listTools)
			}
		})
		assert.LessOrEqual(t, loads, int64(200))
		_, swaps := count(func() { c.ask(resourceRequest("subscribe", "notes://a")) })
		assert.Zero(t, swaps, "it is subscribed to")
	})
}

// However many replicas a client asks, it subscribes to no more than to one.
func TestSubscriptionsAreBoundedOverReplicas(t *testing.T) {
	t.Parallel()
	r := sharing(t, 3, ledgers(t)["memory"])
	c := r[0].connect("2025-11-25", everything)
	long := func(i int) string { return "notes://" + strings.Repeat("x", 1<<10) + fmt.Sprint(100+i) }
	taken := 0
	for ; taken < 200; taken++ {
		answer := c.at(r[taken%3]).ask(resourceRequest("subscribe", long(taken)))
		if strings.Contains(answer, "too many subscriptions") {
			break
		}
		require.Contains(t, answer, `"result":{}`)
	}
	assert.Equal(t, 128<<10/len(long(0)), taken)
	stream := c.at(r[2]).get("")
	r[0].srv.ResourceUpdated(long(taken)) // which it has not subscribed to
	r[0].srv.ResourceUpdated(long(7))
	assert.True(t, slices.Equal([]string{long(7)}, stream.updates(long(7))))
	assert.Contains(t, c.at(r[2]).ask(resourceRequest("unsubscribe", long(3))), `"result":{}`)
	assert.Contains(t, c.at(r[1]).ask(resourceRequest("subscribe", long(taken))), `"result":{}`)

	many := r[0].connect("2025-11-25", everything)
	var asking sync.WaitGroup
	var most, refused atomic.Int64
	for i := range 3 {
		asking.Go(func() {
			for n := range 340 {
				request := resourceRequest("subscribe", fmt.Sprintf("notes://%d-%d", i, n))
				answer := many.at(r[i]).ask(request)
				for strings.Contains(answer, `"retryable":true`) { // others were faster for as long as a client waits
					answer = many.at(r[i]).ask(request)
				}
				switch {
				case strings.Contains(answer, `"result":{}`):
					most.Add(1)
				case strings.Contains(answer, "too many subscriptions"):
					refused.Add(1)
				default:
					t.Error(answer[:min(len(answer), 500)])
				}
			}
		})
	}
	asking.Wait()
	assert.EqualValues(t, 1000, most.Load())
	assert.EqualValues(t, 20, refused.Load())
}
