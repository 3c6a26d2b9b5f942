package dialect

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// waitingFor takes what waits, as a subscriber does: each event after it was told.
func waitingFor(s *Subscription) (all []Event) {
	for {
		select {
		case <-s.Ready:
			if e, ok := s.Next(); ok {
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
	var h Hub
	var uris []string
	for i := range 1000 {
		uris = append(uris, fmt.Sprintf("test://%d", i))
	}
	s := h.Subscribe(true, false, true, uris)
	var expected []Event
	for round := range 3 {
		for i, uri := range uris {
			h.Publish(Event{ResourceUpdated, uri})
			h.Publish(Event{Method: ToolsChanged})
			h.Publish(Event{Method: PromptsChanged})
			h.Publish(Event{ResourceUpdated, "test://other"})
			if round > 0 {
				continue
			}
			expected = append(expected, Event{ResourceUpdated, uri})
			if i == 0 {
				expected = append(expected, Event{Method: ToolsChanged})
			}
		}
	}
	h.Publish(Event{Method: ResourcesChanged})
	assert.Equal(t, append(expected, Event{Method: ResourcesChanged}), waitingFor(s))
	assert.Empty(t, waitingFor(s))

	h.Publish(Event{ResourceUpdated, "test://5"})
	assert.Equal(t, []Event{{ResourceUpdated, "test://5"}}, waitingFor(s), "what was read can change again")
	assert.NotContains(t, slices.Collect(maps.Values(s.wanted)), true)
}

func TestHubForgetsWhatIsNotWantedAnyMore(t *testing.T) {
	var h Hub
	s := h.Subscribe(true, false, false, []string{"test://a", "test://b"})
	h.Publish(Event{ResourceUpdated, "test://a"})
	h.Publish(Event{Method: ToolsChanged})
	h.Publish(Event{ResourceUpdated, "test://b"})
	s.SetURIs([]string{"test://b"})
	assert.Equal(t, []Event{{Method: ToolsChanged}, {ResourceUpdated, "test://b"}}, waitingFor(s))
	s.SetURIs([]string{"test://a", "test://b"})
	h.Publish(Event{ResourceUpdated, "test://a"})
	assert.Equal(t, []Event{{ResourceUpdated, "test://a"}}, waitingFor(s))
	s.Close()
	h.Publish(Event{Method: ToolsChanged})
	assert.Empty(t, waitingFor(s))
	assert.Empty(t, h.subs)
}
