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
				// The engine does not learn that there is no way back. It must undo nothing, and
				// the client brings the saga to its end.
				list = append(list, scenario{fmt.Sprintf("%s %s in turn %d, then the client repeats the turn", p.label, w.name, p.turn), func(x *trial) {
					q, ok := x.requestOf(p.turn)
					if x.fault(p.turn, p.n, failDone); ok && x.twice(q) {
						x.play()
					}
				}, asUndisturbed})
				continue
			}
			list = append(list, scenario{fmt.Sprintf("%s %s in turn %d", p.label, w.name, p.turn), func(x *trial) {
				q, ok := x.requestOf(p.turn)
				if x.fault(p.turn, p.n, w.fault); ok && x.delivers(q) {
					x.playOn()
				}
			}, settled})
		}
	}
	for _, p := range s.undoPoints() {
		add := func(then string, run func(x *trial, q request)) {
			list = append(list, scenario{fmt.Sprintf("%s fails in turn %d after a refusal, then the client %s", p.label, p.turn, then), func(x *trial) {
				if q, ok := x.refuse(p.turn); ok {
					x.fault(p.turn, p.n, failUndone)
					run(x, q)
				}
			}, settled})
		}
		add("repeats the turn", func(x *trial, q request) {
			if x.twice(q) {
				x.playOn()
			}
		})
		add("cancels with the token of the report", func(x *trial, q request) {
			if x.delivers(q) && x.last.again != "" {
				x.ends(request{token: x.last.again, cancels: true})
			} else if len(x.broken) == 0 {
				x.playOn()
			}
		})
	}
	return list
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
