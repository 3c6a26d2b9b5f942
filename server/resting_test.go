package server_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Requests that wait for an event, or for a sleep to be over, have no place among those that are worked on.
func TestRequestsThatWaitLeaveTheirPlace(t *testing.T) {
	_, tools := newTill(paid)
	nap := saga.Flow[struct{}, string]{Info: saga.Info{Name: "nap"}, Run: func(r *saga.Run, _ struct{}) (string, error) {
		return "awake", r.Sleep(20 * time.Second)
	}}
	for name, test := range map[string]struct {
		tool   string
		before time.Duration // that the poll comes
		polls  bool
	}{
		"an event": {"parcel", time.Second, true}, "the rest of a sleep": {"busy", 100 * time.Second, true}, "a sleep": {"nap", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, server.Options{Ledger: inMemory(t), Tools: append(tools, busyTool(), nap), MaxTurns: 1})
				q := callTool(test.tool, object{"how": "sleeps"}).with(allCapabilities)
				if test.tool != "busy" {
					q = callTool(test.tool, object{}).with(allCapabilities)
				}
				if test.polls {
					q = q.answering(r.send(q).result(t).RequestState, nil)
					time.Sleep(test.before)
				}
				began := time.Now()
				var waits sync.WaitGroup
				waits.Go(func() {
					assert.Equal(t, http.StatusOK, r.send(q).status)
					assert.Greater(t, time.Since(began), 10*time.Second, "it did not wait")
				})
				time.Sleep(time.Second)
				assert.Equal(t, http.StatusOK, r.send(busy("done")).status)
				waits.Wait()
			})
		})
	}
}

// They keep the room of their large messages, which they still have.
func TestLargeRequestsThatSleepKeepTheirRoom(t *testing.T) {
	type args struct {
		Text string `json:"text"`
	}
	nap := saga.Flow[args, string]{Info: saga.Info{Name: "nap"}, Run: func(r *saga.Run, _ args) (string, error) {
		return "awake", r.Sleep(20 * time.Second)
	}}
	inBubble(t, func(t *testing.T) {
		r := newRig(t, server.Options{Tools: []saga.Definition{nap}})
		text := strings.Repeat("x", 200<<10) // 4 places of 512 each
		var taken, shed atomic.Int64
		var all sync.WaitGroup
		for range 150 {
			all.Go(func() {
				if r.send(callTool("nap", object{"text": text})).status == http.StatusOK {
					taken.Add(1)
				} else {
					shed.Add(1)
				}
			})
		}
		all.Wait()
		assert.Positive(t, taken.Load())
		assert.Greater(t, shed.Load(), int64(50), "they take what there is for all")
	})
}

// Who does not wait keeps the place, and need not queue for it again.
func TestRequestsThatSleepTooLongDoNotQueueForTheirPlace(t *testing.T) {
	long := saga.Flow[struct{}, string]{Info: saga.Info{Name: "long"}, Run: func(r *saga.Run, _ struct{}) (string, error) {
		time.Sleep(500 * time.Millisecond) //sagavet:ignore in virtual time
		return "awake", r.Sleep(time.Hour)
	}}
	inBubble(t, func(t *testing.T) {
		r := newRig(t, server.Options{Tools: []saga.Definition{long, busyTool()}, MaxTurns: 1})
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			assert.Equal(t, http.StatusOK, r.send(callTool("long", object{})).status)
			assert.Less(t, time.Since(began), time.Second)
		})
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, http.StatusOK, r.send(busy("works")).status)
		all.Wait()
	})
}
