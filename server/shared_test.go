package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
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
