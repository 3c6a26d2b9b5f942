package gosdk_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// waiting returns a tool that holds a room and then waits as wait does.
func (x *rooms) waiting(wait func(*saga.Run) error, asks ...steps.Question) saga.Definition {
	room := &saga.Effect[string, bool]{
		Name: "room",
		Do:   func(_ context.Context, k saga.Key, _ string) (bool, error) { x.hold(k); return true, nil },
		Undo: func(_ context.Context, p saga.Performed[string, bool]) error { x.release(p.Key); return nil },
	}
	return saga.Flow[none, string]{
		Info: saga.Info{Name: "book", Asks: asks, Effects: []saga.Declared{room}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Do(r, room, "7"); err != nil {
				return "", err
			}
			return "booked", wait(r)
		},
	}
}

// A client may hang up, whatever its call waits for: what was done is undone, and that is no alarm.
func TestHangingUpIsNoAlarm(t *testing.T) {
	paid := &steps.Event[payment]{ID: "paid", Message: "Waiting.", Within: time.Hour}
	for name, c := range map[string]struct {
		wait   func(*saga.Run) error
		asks   []steps.Question
		ledger bool
	}{
		"works":               {func(r *saga.Run) error { <-r.Done(); return context.Cause(r) }, nil, false},
		"works, with ledger":  {func(r *saga.Run) error { <-r.Done(); return context.Cause(r) }, nil, true},
		"sleeps":              {func(r *saga.Run) error { return r.Sleep(20 * time.Second) }, nil, false},
		"sleeps, with ledger": {func(r *saga.Run) error { return r.Sleep(20 * time.Second) }, nil, true},
		"event":               {func(r *saga.Run) error { _, err := saga.Ask(r, paid); return err }, []steps.Question{paid}, true},
	} {
		t.Run(name, func(t *testing.T) {
			rooms, o := new(rooms), gosdk.Options{}
			if c.ledger {
				store := ledger.NewMemory(ledger.MemoryOptions{})
				t.Cleanup(func() { _ = store.Close() })
				o.Ledger = store
			}
			h := mount(t, o, rooms.waiting(c.wait, c.asks...))
			t.Cleanup(h.shutDown)
			w := h.wire()
			w.greet(legacy, forms)
			w.begin("tools/call", object{"name": "book"})
			rooms.requireHeld(t)
			w.hangUp()
			rooms.requireReleased(t)

			s := newSession(t, h.serve(), "", forms)
			call := s.request(message(1, "tools/call", object{"name": "book"}))
			go func() {
				if w, err := httpClient.Do(call); err == nil { // else it has ended before it was answered
					w.Body.Close()
				}
			}()
			rooms.requireHeld(t)
			began := time.Now()
			status, body := s.do(http.MethodDelete, "")
			assert.Equal(t, 204, status, body)
			assert.Less(t, time.Since(began), 10*time.Second)
			held, ever := rooms.count()
			assert.Equal(t, []int{0, 2}, []int{held, ever})
			h.shutDown()
			assert.Contains(t, h.log.String(), "turn cancelled")
			assert.NotContains(t, h.log.String(), "level=ERROR")
		})
	}
}

// late is middleware that keeps the results of calls until it may go on.
func late(ready chan<- struct{}, goOn <-chan struct{}) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, r)
			if method == "tools/call" {
				ready <- struct{}{}
				<-goOn
			}
			return result, err
		}
	}
}

// Sessions may be closed after Shutdown: a session that is being closed writes no result, so Shutdown waits until it is written.
func TestShutdownWaitsForResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := mount(t, gosdk.Options{}, new(rooms).waiting(func(*saga.Run) error { return nil }))
		ready, goOn := make(chan struct{}), make(chan struct{})
		h.sdk.AddReceivingMiddleware(late(ready, goOn))
		w := h.wire()
		w.greet(legacy, forms)
		id := w.begin("tools/call", object{"name": "book"})
		<-ready
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			assert.NoError(t, h.mounted.Shutdown(context.Background()))
			_ = w.ss.Close()
		}()
		synctest.Wait()
		close(goOn)
		assert.Equal(t, "booked", w.result(id).Get("result.content.0.text").String())
		_ = w.in.Close()
		<-closed
	})
}

// It does not wait for long: a client may not read.
func TestShutdownWaitsForResultsNoLongerThanSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := mount(t, gosdk.Options{}, new(rooms).waiting(func(*saga.Run) error { return nil }))
		ready, goOn := make(chan struct{}), make(chan struct{})
		h.sdk.AddReceivingMiddleware(late(ready, goOn))
		w := h.wire()
		w.greet(legacy, forms)
		w.begin("tools/call", object{"name": "book"})
		<-ready
		began := time.Now()
		require.NoError(t, h.mounted.Shutdown(context.Background()))
		assert.Equal(t, 5*time.Second, time.Since(began))
		close(goOn)
	})
}
