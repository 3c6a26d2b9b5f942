package dialect

import "github.com/mcpsaga/mcpsaga/internal/records"

// CatchUp has the subscriber hear of what was told after a position, as far as it wants to; the
// zero value is before all news. If it is not known any more what was told, the subscriber hears
// of everything it wants. Before the first news have come
// it does nothing: then their subscribers hear of all that is in them.
func (s *Subscription) CatchUp(from records.Position) {
	s.catchUp(from, func(e Event) { s.add(e) }, s.addAll)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) > 0 {
		s.told = from
	}
}

// CatchUpOn is CatchUp for one resource.
func (s *Subscription) CatchUpOn(uri string, from records.Position) {
	this := Event{ResourceUpdated, uri}
	s.catchUp(from, func(e Event) {
		if e == this {
			s.add(e)
		}
	}, func() { s.add(this) })
}

func (s *Subscription) catchUp(from records.Position, add func(Event), all func()) {
	shared := s.hub.shared
	if shared == nil {
		return
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	n := shared.known[shared.name]
	if n == nil {
		return
	}
	if from == (records.Position{}) { // there were no news, or none that were known
		from.Epoch = n.Epoch
	}
	items, lost := n.Changes.After(from.N)
	if lost || from.Epoch != n.Epoch || shared.flying.ChangesLost || shared.waiting.ChangesLost {
		all()
		return
	}
	for _, list := range [][]records.NewsItem{items, shared.flying.Changes, shared.waiting.Changes} {
		for _, item := range list {
			if item.Kind <= uint8(ResourceUpdated) {
				add(Event{Change(item.Kind), item.Of})
			}
		}
	}
}

// Told is the position up to which the subscriber has taken all that it wants; the zero value
// if that is not known.
func (s *Subscription) Told() records.Position {
	p := s.hub.Position() // before it is found that nothing waits
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.told = p
	}
	return s.told
}
