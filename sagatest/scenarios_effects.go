package sagatest

import "fmt"

// failures: effects fail, and so do undos.
func (s *sweep) failures() []scenario {
	var list []scenario
	ways := []struct {
		fault fault
		name  string
	}{{refuse, "is refused"}, {failUndone, "fails and has done nothing"}, {failDone, "fails but has done its work"}}
	for _, p := range points(s.base.calls) {
		if p.undo {
			continue
		}
		for _, w := range ways {
			if w.fault == failDone && p.final {
				list = append(list, s.finalUnknown(p))
				continue
			}
			list = append(list, scenario{fmt.Sprintf("%s %s in turn %d", p.label, w.name, p.turn), func(x *trial) {
				q, ok := x.requestOf(p.turn)
				if !ok {
					return
				}
				x.fault(p.turn, p.n, w.fault)
				if x.delivers(q) {
					x.playOn()
				}
			}, settled})
		}
	}
	for _, p := range s.undoPoints() {
		list = append(list, scenario{fmt.Sprintf("%s fails in turn %d after a refusal, then the client repeats the turn", p.label, p.turn), func(x *trial) {
			q, ok := x.refuse(p.turn)
			if !ok {
				return
			}
			x.fault(p.turn, p.n, failUndone)
			if x.twice(q) {
				x.playOn()
			}
		}, settled}, scenario{fmt.Sprintf("%s fails in turn %d after a refusal, then the client cancels with the token of the report", p.label, p.turn), func(x *trial) {
			q, ok := x.refuse(p.turn)
			if !ok {
				return
			}
			x.fault(p.turn, p.n, failUndone)
			if x.delivers(q) && x.last.again != "" {
				x.ends(request{token: x.last.again, cancels: true})
			} else if len(x.broken) == 0 {
				x.playOn()
			}
		}, settled})
	}
	return list
}

// finalUnknown: the engine does not learn that there is no way back. It must undo
// nothing, and the client brings the saga to its end.
func (s *sweep) finalUnknown(p point) scenario {
	return scenario{fmt.Sprintf("%s fails but has done its work in turn %d, then the client repeats the turn", p.label, p.turn), func(x *trial) {
		q, ok := x.requestOf(p.turn)
		if !ok {
			return
		}
		x.fault(p.turn, p.n, failDone)
		if x.twice(q) {
			x.play()
		}
	}, asUndisturbed}
}

// twice delivers a request again that has had a response.
func (x *trial) twice(q request) bool {
	for range 2 {
		if !x.delivers(q) {
			return false
		}
	}
	return true
}
