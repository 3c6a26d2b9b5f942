package server

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// waitingFor takes what waits, as a subscriber does: each event after it was told.
func waitingFor(s *subscription) (all []event) {
	for {
		select {
		case <-s.ready:
			if e, ok := s.next(); ok {
				all = append(all, e)
			}
		default:
			return all
		}
	}
}

// However much changes while a subscriber does not read, it hears of everything
// that has changed, once, in the order of the first changes.
func TestHubLosesNothing(t *testing.T) {
	var h hub
	var uris []string
	for i := range 1000 {
		uris = append(uris, fmt.Sprintf("test://%d", i))
	}
	s := h.subscribe(newInterest(true, false, true, uris))
	var expected []event
	for round := range 3 {
		for i, uri := range uris {
			h.publish(event{resourceUpdated, uri})
			h.publish(event{change: toolsChanged})
			h.publish(event{change: promptsChanged})
			h.publish(event{resourceUpdated, "test://other"})
			if round > 0 {
				continue
			}
			expected = append(expected, event{resourceUpdated, uri})
			if i == 0 {
				expected = append(expected, event{change: toolsChanged})
			}
		}
	}
	h.publish(event{change: resourcesChanged})
	assert.Equal(t, append(expected, event{change: resourcesChanged}), waitingFor(s))
	assert.Empty(t, waitingFor(s))

	h.publish(event{resourceUpdated, "test://5"})
	assert.Equal(t, []event{{resourceUpdated, "test://5"}}, waitingFor(s), "what was read can change again")
	assert.Empty(t, s.waits)
}

func TestHubForgetsWhatIsNotWantedAnyMore(t *testing.T) {
	var h hub
	s := h.subscribe(newInterest(true, false, false, []string{"test://a", "test://b"}))
	h.publish(event{resourceUpdated, "test://a"})
	h.publish(event{change: toolsChanged})
	h.publish(event{resourceUpdated, "test://b"})
	s.change(func(i *interest) { i.remove("test://a") })
	assert.Equal(t, []event{{change: toolsChanged}, {resourceUpdated, "test://b"}}, waitingFor(s))
	s.change(func(i *interest) { i.add("test://a") })
	h.publish(event{resourceUpdated, "test://a"})
	assert.Equal(t, []event{{resourceUpdated, "test://a"}}, waitingFor(s))
	s.close()
	h.publish(event{change: toolsChanged})
	assert.Empty(t, waitingFor(s))
	assert.Empty(t, h.subs)
}
