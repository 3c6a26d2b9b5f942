package server_test

import (
	"net/http"
	"sync"
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
