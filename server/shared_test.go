package server_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/server"
)

// sharing are replicas that each open the same ledger. Their clocks differ by a minute.
func sharing(t *testing.T, n int, open func() ledger.Store) (all []*rig) {
	t.Helper()
	keys := newKeys(t)
	for i := range n {
		skew := time.Duration(i) * 20 * time.Second
		all = append(all, newRig(t, server.Options{
			Keys: keys, Tools: legacyDefinitions(), Ledger: open(), Now: func() time.Time { return time.Now().Add(-skew) },
		}))
	}
	return all
}

// inMemory is a ledger for one test.
func inMemory(t *testing.T) ledger.Store {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func resourceRequest(method, uri string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/%s","params":{"uri":%q}}`, method, uri)
}

const updated = "notifications/resources/updated"

// updates reads what a stream tells up to an update of that resource, and returns the URIs.
func (s *sseReader) updates(last string) (uris []string) {
	s.t.Helper()
	for {
		m := s.message()
		require.Equal(s.t, updated, m.Method, m.data)
		uri := uriOf(s.t, m.legacyMessage)
		uris = append(uris, uri)
		if uri == last {
			return uris
		}
	}
}

func uriOf(t testing.TB, m legacyMessage) string {
	uri, ok := strings.CutPrefix(string(m.Params), `{"uri":"`)
	require.True(t, ok, string(m.Params))
	return strings.TrimSuffix(uri, `"}`)
}

// What a client sets at one replica holds at all: what it hears on its stream at another, and of
// calls at a third.
func TestSettingsHoldOnAllReplicas(t *testing.T) {
	t.Parallel()
	for name, open := range ledgers(t) {
		t.Run(name, func(t *testing.T) {
			r := sharing(t, 3, open)
			c := r[0].connect("2025-11-25", everything)
			assert.Contains(t, c.at(r[1]).ask(resourceRequest("subscribe", "notes://early")), `"result":{}`)
			stream := c.get("")
			assert.Contains(t, c.at(r[1]).ask(resourceRequest("subscribe", "notes://a")), `"result":{}`)
			r[2].srv.ResourceUpdated("notes://a")
			assert.Equal(t, []string{"notes://a"}, stream.updates("notes://a"))
			r[1].srv.ResourceUpdated("notes://early")
			assert.Equal(t, []string{"notes://early"}, stream.updates("notes://early"))

			assert.Contains(t, c.at(r[2]).ask(resourceRequest("unsubscribe", "notes://a")), `"result":{}`)
			assert.Contains(t, c.at(r[2]).ask(resourceRequest("subscribe", "notes://b")), `"result":{}`)
			r[0].srv.ResourceUpdated("notes://b") // until this is told, what was before has been learned
			assert.Equal(t, []string{"notes://b"}, stream.updates("notes://b"))
			r[1].srv.ResourceUpdated("notes://a")
			r[1].srv.ResourceUpdated("notes://b")
			assert.Equal(t, []string{"notes://b"}, stream.updates("notes://b"))

			levels := func(r *rig) (all []string) {
				s := c.at(r).stream(toolCall(7, "talk", `{}`))
				for {
					m := s.message()
					if m.Method == "elicitation/create" {
						c.at(r).reply(m.ID, accepted(`{"colour":"r"}`))
					}
					if _, level, ok := strings.Cut(string(m.Params), `"level":"`); m.Method == "notifications/message" && ok {
						all = append(all, level[:strings.IndexByte(level, '"')])
					}
					if m.Method == "" {
						return all
					}
				}
			}
			assert.Equal(t, []string{"info", "error"}, levels(r[2]))
			for i, level := range []string{"error", "debug"} {
				assert.Contains(t, c.at(r[i]).ask(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"`+level+`"}}`), `"result":{}`)
				want := []string{"debug", "info", "error"}[2-2*i:]
				for _, r := range r {
					assert.Equal(t, want, levels(r))
				}
			}
		})
	}
}

// Of the streams that belong to no request the newest counts, on whatever replica it is.
func TestNewestStreamCountsOnAllReplicas(t *testing.T) {
	t.Parallel()
	for name, open := range ledgers(t) {
		t.Run(name, func(t *testing.T) {
			r := sharing(t, 3, open)
			c := r[0].connect("2025-11-25", everything)
			first := c.get("")
			_, err := first.next()
			require.NoError(t, err)
			streams := []*sseReader{first}
			for i := 1; i < 7; i++ {
				begun := time.Now()
				next := c.at(r[i%3]).get("")
				_, err := next.next()
				require.NoError(t, err)
				streams[i-1].end()
				assert.Less(t, time.Since(begun), 5*time.Second, "it need not be looked for")
				streams = append(streams, next)
			}
			r[1].srv.ToolsChanged()
			assert.Equal(t, "notifications/tools/list_changed", streams[6].message().Method)
		})
	}
}

// Whoever comes back, at whatever replica, hears of what changed meanwhile, and of what it has
// heard of already only if it does not say so.
func TestNothingIsMissedBetweenStreams(t *testing.T) {
	t.Parallel()
	for name, open := range ledgers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := sharing(t, 3, open)
			c := r[0].connect("2025-11-25", everything)
			for _, uri := range []string{"notes://1", "notes://2", "notes://3"} {
				c.ask(resourceRequest("subscribe", uri))
			}
			r[1].srv.ResourceUpdated("notes://1")
			time.Sleep(200 * time.Millisecond)
			stream := c.at(r[2]).get("")
			assert.Equal(t, []string{"notes://1"}, stream.updates("notes://1"), "it has subscribed before")
			r[0].srv.ResourceUpdated("notes://2")
			last := stream.wait(updated)
			stream.close()
			time.Sleep(200 * time.Millisecond)

			r[2].srv.ResourceUpdated("notes://3")
			r[0].srv.ResourceUpdated("notes://other")
			r[0].srv.PromptsChanged()
			time.Sleep(200 * time.Millisecond)
			id := ""
			heard := func(s *sseReader) (all []string) {
				for range 2 {
					m := s.message()
					id = m.id
					all = append(all, m.Method+string(m.Params))
				}
				slices.Sort(all)
				return all
			}
			missed := []string{"notifications/prompts/list_changed", updated + `{"uri":"notes://3"}`}
			for i := range 3 {
				stream := c.at(r[i]).get(last.id)
				assert.Equal(t, missed, heard(stream))
				stream.close()
			}
			// Who does not say what it has heard hears of what came since the last stream began,
			// unless something waited then.
			again := c.at(r[1]).get("")
			assert.Equal(t, missed, heard(again))
			opened := c.at(r[0]).get(id)
			opening, err := opened.next()
			require.NoError(t, err)
			assert.NotEmpty(t, opening.id)
			opened.close()
			r[2].srv.ToolsChanged()
			time.Sleep(200 * time.Millisecond)
			assert.Equal(t, "notifications/tools/list_changed", c.at(r[1]).get(opening.id).message().Method)
			made := c.at(r[2]).get("gABC_7.AAAAAAAAAAAAAAAAAAAAAAAAAA")
			var all []string
			for range 6 {
				m := made.message()
				all = append(all, m.Method)
			}
			assert.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), 4, "an id that is none has everything be looked at")
		})
	}
}

// What changes at one replica is told to the clients of all, whatever they speak, within a
// moment, once.
func TestChangesReachAllReplicas(t *testing.T) {
	for name, open := range ledgers(t) {
		t.Run(name, func(t *testing.T) {
			r := sharing(t, 3, open)
			modern := r[0].listen(listenFor(1, object{"toolsListChanged": true, "resourceSubscriptions": []string{"notes://a"}}))
			modern.must("1", acknowledged)
			c := r[1].connect("2025-06-18", everything)
			c.ask(resourceRequest("subscribe", "notes://a"))
			old := c.get("")
			pipe := newLegacyPipeTo(t, "2025-11-25", r[2].srv)
			pipe.send(resourceRequest("subscribe", "notes://a"))
			pipe.message()
			for round := range 4 {
				var arrived [3]time.Duration
				begun := time.Now()
				if round%2 == 0 {
					r[round%3].srv.ResourceUpdated("notes://a")
				} else {
					r[round%3].srv.ToolsChanged()
				}
				method := []string{updated, "notifications/tools/list_changed"}[round%2]
				modern.must("1", method)
				arrived[0] = time.Since(begun)
				assert.Equal(t, method, old.message().Method)
				arrived[1] = time.Since(begun)
				assert.Equal(t, method, pipe.message().Method)
				arrived[2] = time.Since(begun)
				for _, took := range arrived {
					assert.Less(t, took, 2*time.Second)
				}
				t.Log(method, arrived)
			}
		})
	}
}

// counting is a ledger that counts, and can be out of order.
type counting struct {
	ledger.Store
	loads, swaps atomic.Int64
	hangs        atomic.Bool

	mu      sync.Mutex
	watches map[*context.CancelCauseFunc]struct{}
	down    bool
}

func (s *counting) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	for cancel := range s.watches {
		(*cancel)(errDown)
	}
}

func (s *counting) fail(ctx context.Context) error {
	if s.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errDown
	}
	return nil
}

func (s *counting) Load(ctx context.Context, key string) (*ledger.Record, error) {
	s.loads.Add(1)
	if err := s.fail(ctx); err != nil {
		return nil, err
	}
	return s.Store.Load(ctx, key)
}

func (s *counting) Swap(ctx context.Context, r *ledger.Record, items ...ledger.Item) error {
	s.swaps.Add(1)
	if err := s.fail(ctx); err != nil {
		return err
	}
	return s.Store.Swap(ctx, r, items...)
}

func (s *counting) Watch(ctx context.Context, key string, after uint64) iter.Seq2[*ledger.Record, error] {
	return func(yield func(*ledger.Record, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		if err := s.fail(ctx); err != nil {
			yield(nil, err)
			return
		}
		s.mu.Lock()
		if s.watches == nil {
			s.watches = make(map[*context.CancelCauseFunc]struct{})
		}
		s.watches[&cancel] = struct{}{}
		s.mu.Unlock()
		for r, err := range s.Store.Watch(ctx, key, after) {
			if !yield(r, err) {
				break
			}
		}
		s.mu.Lock()
		delete(s.watches, &cancel)
		s.mu.Unlock()
	}
}

// A burst costs a few writes, whatever is in it, and all hear of everything, though there is no
// room to say what it was.
func TestBurstsAreCoalesced(t *testing.T) {
	store := &counting{Store: inMemory(t)}
	r := sharing(t, 2, func() ledger.Store { return store })
	var uris []string
	for i := range 1000 {
		uris = append(uris, fmt.Sprint("notes://", i))
	}
	modern := r[1].listen(listenFor(1, object{"promptsListChanged": true, "resourceSubscriptions": uris}))
	modern.must("1", acknowledged)
	huge := "notes://" + strings.Repeat("x", 1<<20)
	before, begun := store.swaps.Load(), time.Now()
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
	wrote, took := store.swaps.Load()-before, time.Since(begun)
	assert.LessOrEqual(t, wrote, int64(took/(50*time.Millisecond))+3)
	assert.Less(t, said, 2*time.Second)
	t.Log("20 000 changes were said in", said, "and heard in", took, "with", wrote, "writes")
}

// While the ledger is away, replicas tell their own clients at once, wait for nothing, and tell
// the others' as soon as it is back.
func TestChangesWithoutTheLedger(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*counting, bool){
		"fails": (*counting).setDown, "hangs": func(s *counting, down bool) { s.hangs.Store(down) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T) {
				store := &counting{Store: inMemory(t)}
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
				store := &counting{Store: ledger.NewMemory(ledger.MemoryOptions{})}
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

// A request of a session reads its record once, and lists at most once in a second.
func TestSessionsAreReadOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T) {
		store := &counting{Store: inMemory(t)}
		r := sharing(t, 1, func() ledger.Store { return store })[0]
		c := r.connect("2025-11-25", everything)
		time.Sleep(1100 * time.Millisecond)
		begun := time.Now()
		count := func(do func()) (loads, swaps int64) {
			loads, swaps = store.loads.Load(), store.swaps.Load()
			do()
			return store.loads.Load() - loads, store.swaps.Load() - swaps
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
		assert.LessOrEqual(t, loads, int64(time.Since(begun)/time.Second)+1)
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

// A session that was ended anywhere is ended everywhere at once, with what it has open.
func TestStreamsEndAtOnceWithTheirSession(t *testing.T) {
	for name, open := range ledgers(t) {
		t.Run(name, func(t *testing.T) {
			r := sharing(t, 3, open)
			c := r[0].connect("2025-11-25", everything)
			stream := c.get("")
			_, err := stream.next()
			require.NoError(t, err)
			call := c.at(r[1]).stream(toolCall(1, "complex_tool", `{}`))
			call.wait("elicitation/create")
			begun := time.Now()
			resp := c.at(r[2]).request(http.MethodDelete, "", nil)
			readAll(t, resp)
			require.Equal(t, 204, resp.StatusCode)
			resp = c.post(toolCall(2, "sum", `{}`))
			assert.Contains(t, readAll(t, resp), "initialize again")
			stream.end()
			for err = nil; err == nil; {
				_, err = call.next()
			}
			assert.Less(t, time.Since(begun), 5*time.Second, "it need not be looked for")
		})
	}
}
