package server_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// busyTool works, panics, asks or sleeps.
func busyTool() saga.Definition {
	type args struct {
		How string `json:"how"`
	}
	return saga.Flow[args, string]{Info: saga.Info{Name: "busy"}, Run: func(r *saga.Run, a args) (string, error) {
		switch a.How {
		case "panics":
			panic("it is broken")
		case "sleeps":
			return "awake", r.Sleep(2 * time.Minute)
		case "works":
			select {
			case <-time.After(10 * time.Second): //sagavet:ignore in virtual time
			case <-r.Done():
				return "", r.Err()
			}
		}
		return "done", nil
	}}
}

func busy(how string) *request { return callTool("busy", object{"how": how}) }

// Beyond what a server works on at once, a request waits for a moment, and is refused then before anything is done for it.
// What makes no work is served meanwhile. A place is free again when a tool has panicked, and when a client has gone.
func TestBusyServerSheds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var bounds []string
		var mu sync.Mutex
		r := newRig(t, server.Options{Tools: legacyDefinitions(busyTool()), MaxTurns: 1, Observers: []server.Observer{{
			Request: func(ctx context.Context, i *server.RequestInfo) (context.Context, func(error)) {
				return ctx, func(error) {
					mu.Lock()
					defer mu.Unlock()
					bounds = append(bounds, i.Bound)
				}
			},
		}}})
		var works sync.WaitGroup
		works.Go(func() { assert.Equal(t, http.StatusOK, r.send(busy("works")).status) })
		time.Sleep(time.Second)
		began := time.Now()
		got := r.send(busy("done"))
		assert.Equal(t, http.StatusServiceUnavailable, got.status)
		assert.Equal(t, "1", got.header.Get("Retry-After"))
		assert.Equal(t, -31503, got.code())
		assert.Equal(t, time.Second, time.Since(began))
		status, _ := r.do(http.MethodPost, "/mcp", pingMessage, nil)
		assert.Equal(t, http.StatusOK, status)
		assert.Equal(t, http.StatusOK, r.send(modernRequest("tools/list", nil)).status)
		status, _ = r.do(http.MethodGet, "/readyz", "", nil)
		assert.Equal(t, http.StatusOK, status)
		assert.Equal(t, time.Second, time.Since(began))
		time.Sleep(7500 * time.Millisecond)
		assert.Equal(t, http.StatusOK, r.send(busy("done")).status, "it waits for its turn")
		assert.Equal(t, 9*time.Second, time.Since(began))
		works.Wait()
		assert.Equal(t, []string{"busy", "", "", "", ""}, bounds)

		for range 3 {
			assert.Equal(t, -32603, r.send(busy("panics")).code())
		}
		ctx, leave := context.WithCancel(t.Context())
		works.Go(func() {
			_, err := r.client().Do(r.httpRequest(ctx, busy("works")))
			assert.ErrorIs(t, err, context.Canceled)
		})
		time.Sleep(time.Second)
		leave()
		works.Wait()
		assert.Equal(t, http.StatusOK, r.send(busy("done")).status)
	})
}

// A call that waits for its client, or sleeps until it can go on, has no place. It is not refused when the answer has come.
func TestWaitingCallsHaveNoPlace(t *testing.T) {
	for _, remembers := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			o := server.Options{Tools: legacyDefinitions(busyTool()), MaxTurns: 1}
			if remembers {
				o.Ledger = inMemory(t)
			}
			r := newRig(t, o)
			c := r.connect("2025-11-25", everything)
			defer c.get("").close()
			asks, sleeps := c.stream(toolCall(1, "ask", `{"what":"form"}`)), c.stream(toolCall(2, "busy", `{"how":"sleeps"}`))
			question := asks.wait("elicitation/create")
			time.Sleep(10 * time.Second)
			assert.Equal(t, http.StatusOK, r.send(busy("done")).status)
			var works sync.WaitGroup
			works.Go(func() { assert.Equal(t, http.StatusOK, r.send(busy("works")).status) })
			time.Sleep(time.Second)
			began := time.Now()
			c.reply(question.ID, named("Jo"))
			assert.Contains(t, asks.wait("").data, `"result"`)
			assert.LessOrEqual(t, time.Since(began), 2*time.Second)
			works.Wait()
			assert.Contains(t, sleeps.wait("").data, "awake")
			assert.Equal(t, http.StatusOK, r.send(busy("done")).status)
		})
	}
}

// One anonymous caller without a session leaves others room in the ledger: for sagas, and for what is too long for tokens.
func TestAnAddressLeavesRoomInTheLedger(t *testing.T) {
	tool := new(seats).tool()
	short := tool
	short.Name, short.ShortTokens = "short", true
	r := newRig(t, server.Options{Tools: []saga.Definition{tool, short}, Ledger: inMemory(t), LedgerLimit: 8, CallerKey: byHeader})
	sagas := func(address string) (status int) {
		q := callTool("seat", nil).with(allCapabilities)
		q.header.Set("X-Caller", address)
		token := tokenOf(t, r.send(q).raw)
		q.answering(token, rowSeven)
		return r.send(q).status
	}
	shorts := func(address string) (status int) {
		q := callTool("short", nil).with(allCapabilities)
		q.header.Set("X-Caller", address)
		return r.send(q).status
	}
	for _, begins := range []func(string) int{sagas, shorts} {
		for range 2 { // a quarter of what a principal has
			require.Equal(t, http.StatusOK, begins("10.1.2.3"))
		}
		assert.Equal(t, http.StatusTooManyRequests, begins("10.1.2.3"))
		assert.Equal(t, http.StatusOK, begins("10.1.2.4"))
		assert.Equal(t, http.StatusOK, begins(""))
	}
}
