package sagatest

import (
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// point is a place in the undisturbed saga where a call of an effect begins.
type point struct {
	turn, n int
	label   string
	undo    bool
	// final: the effect is irreversible.
	final bool
}

// points lists the calls, tries of one call as one.
func points(calls []Call) []point {
	var list []point
	seen := make(map[string]bool)
	inTurn := make(map[int]int)
	named := make(map[string]int)
	for _, c := range calls {
		label := c.Effect
		if c.Undo {
			label = "undo of " + c.Effect
		}
		id := fmt.Sprint(c.Turn, c.Key, c.Undo)
		if seen[id] {
			continue
		}
		seen[id] = true
		if named[label]++; named[label] > 1 {
			label = fmt.Sprintf("%s number %d", label, named[label])
		}
		list = append(list, point{c.Turn, inTurn[c.Turn], label, c.Undo, c.irreversible})
		inTurn[c.Turn]++
	}
	return list
}

// crashes: turns are cut off at their effects. What is cut off while undoing is
// looked for by refusing the first step of every round.
func (s *sweep) crashes() []scenario {
	var list []scenario
	for _, p := range points(s.base.calls) {
		for _, f := range []fault{cutBefore, cutAfter} {
			name := fmt.Sprintf("crash %s %s in turn %d", when[f], p.label, p.turn)
			list = append(list, scenario{name + ", then the client repeats the turn", func(x *trial) {
				if q, ok := x.crash(p, f); ok && x.delivers(q) {
					x.play()
				}
			}, asUndisturbed})
			if p.turn == 1 {
				continue // there is no token to cancel with
			}
			list = append(list, scenario{name + ", then the client cancels with its answers", func(x *trial) {
				if q, ok := x.crash(p, f); ok {
					x.ends(q.cancelled())
				}
			}, undone})
		}
	}
	for _, p := range s.undoPoints() {
		for _, f := range []fault{cutBefore, cutAfter} {
			name := fmt.Sprintf("crash %s %s in turn %d after a refusal, then the client repeats the turn", when[f], p.label, p.turn)
			list = append(list, scenario{name, func(x *trial) {
				if q, ok := x.refuse(p.turn); ok {
					x.fault(p.turn, p.n, f)
					if x.cutOff(q) && x.delivers(q) {
						x.playOn()
					}
				}
			}, settled})
		}
	}
	return list
}

var when = map[fault]string{cutBefore: "before", cutAfter: "after"}

// crash plays up to the point's turn and has it cut off there.
func (x *trial) crash(p point, f fault) (request, bool) {
	q, ok := x.requestOf(p.turn)
	if !ok {
		return q, false
	}
	x.fault(p.turn, p.n, f)
	return q, x.cutOff(q)
}

// refuse plays up to a turn and returns the request that refuses the first step. If
// there is none, as the tool has paused, it plays to the end.
func (x *trial) refuse(turn int) (request, bool) {
	if !x.to(turn) {
		return request{}, false
	}
	return x.refusal()
}

// refusal is refuse at the present point.
func (x *trial) refusal() (request, bool) {
	if len(x.client.last.steps) == 0 {
		x.play()
		return request{}, false
	}
	return x.instead(refusal(x.client.last.steps[0]))
}

// ends delivers a request that must end the saga.
func (x *trial) ends(q request) bool {
	if !x.delivers(q) {
		return false
	}
	if !x.over() {
		x.breaks(broken{"a saga that is cancelled ends", "", "it asks on", "report this: it is a fault of the engine"})
	}
	return x.over()
}

// undoPoints finds out which effects are undone when the first step of a round is
// refused.
func (s *sweep) undoPoints() []point {
	var list []point
	for turn := 2; turn <= s.base.turns(); turn++ {
		x := s.newTrial(s.quiet(), "")
		q, ok := x.refuse(turn)
		if !ok || !x.delivers(q) {
			continue
		}
		for _, p := range points(x.client.rig.watch.calls) {
			if p.turn == turn && p.undo {
				list = append(list, p)
			}
		}
	}
	return list
}

// stops: turns are stopped from outside, as a timeout does.
func (s *sweep) stops() []scenario {
	var list []scenario
	for _, p := range points(s.base.calls) {
		if p.undo {
			continue // undoing is not stopped
		}
		list = append(list, withRequest(p.turn, fmt.Sprintf("turn %d is stopped before %s, then the client repeats it", p.turn, p.label), asUndisturbed, func(x *trial, q request) {
			x.fault(p.turn, p.n, stopBefore)
			rep := x.send(q)
			if rep.out != nil {
				x.breaks(broken{"a turn that is stopped from outside does not end the saga", "",
					"the turn's context ended, and the tool ended the saga with: " + said(x.client.played(rep)),
					"return the error that saga.Do returned, instead of making a result of it"})
				return
			}
			x.orphans = x.orphans || q.token == "" && !rep.undone && x.acted(p.turn)
			if x.delivers(q) {
				x.play()
			}
		}))
	}
	return list
}

// losses: the response of a turn does not arrive.
func (s *sweep) losses() []scenario {
	return append(s.eachRequest(1, "the response of turn %d is lost, then the client repeats the turn", asUndisturbed, func(x *trial, q request) {
		if x.loseResponse(q) && x.delivers(q) {
			x.play()
		}
	}), s.eachRequest(2, "the response of turn %d is lost, then the client cancels with its answers", undone, func(x *trial, q request) {
		if x.loseResponse(q) {
			x.ends(q.cancelled())
		}
	})...)
}

// loseResponse has a turn taken of which the client does not learn.
func (x *trial) loseResponse(q request) bool {
	if rep := x.send(q); rep.err != nil {
		x.failed(rep.err)
		return false
	}
	x.orphans = x.orphans || q.token == "" && x.acted(x.client.rig.turns)
	return true
}

// duplicates: a turn is taken twice.
func (s *sweep) duplicates() []scenario {
	list := s.eachRequest(2, "turn %d is delivered twice", asUndisturbed, func(x *trial, q request) {
		if x.delivers(q) && x.loseResponse(q) {
			x.play()
		}
	})
	if !s.base.good {
		return list // what was undone may come back, which a server that keeps nothing cannot prevent
	}
	return append(list, s.eachTurn(2, "turn %d is delivered again after the end", asUndisturbed, func(x *trial, turn int) {
		if x.play() {
			x.loseResponse(x.requests[turn-1])
		}
	})...)
}

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
				list = append(list, withRequest(p.turn, fmt.Sprintf("%s %s in turn %d, then the client repeats the turn", p.label, w.name, p.turn), asUndisturbed, func(x *trial, q request) {
					if x.fault(p.turn, p.n, failDone); x.twice(q) {
						x.play()
					}
				}))
				continue
			}
			list = append(list, withRequest(p.turn, fmt.Sprintf("%s %s in turn %d", p.label, w.name, p.turn), settled, func(x *trial, q request) {
				if x.fault(p.turn, p.n, w.fault); x.delivers(q) {
					x.playOn()
				}
			}))
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
		if !demandsLedger(s.tool) { // else it gets the same report again
			add("repeats the turn", func(x *trial, q request) {
				if x.twice(q) {
					x.playOn()
				}
			})
		}
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

// eachTurn has one scenario for every turn from the first given: it plays by the script
// up to that turn, and then runs.
func (s *sweep) eachTurn(first int, name string, want expectation, run func(x *trial, turn int)) (list []scenario) {
	for turn := first; turn <= s.base.turns(); turn++ {
		list = append(list, inTurn(turn, fmt.Sprintf(name, turn), want, func(x *trial) { run(x, turn) }))
	}
	return list
}

// inTurn is a scenario that plays by the script up to a turn, and then runs.
func inTurn(turn int, name string, want expectation, run func(x *trial)) scenario {
	return scenario{name, func(x *trial) {
		if x.to(turn) {
			run(x)
		}
	}, want}
}

// withRequest is inTurn with the turn's request by the script.
func withRequest(turn int, name string, want expectation, run func(x *trial, q request)) scenario {
	return inTurn(turn, name, want, func(x *trial) {
		if q, ok := x.request(); ok {
			run(x, q)
		}
	})
}

// eachRequest is eachTurn with the turn's request by the script.
func (s *sweep) eachRequest(first int, name string, want expectation, run func(x *trial, q request)) []scenario {
	return s.eachTurn(first, name, want, func(x *trial, _ int) {
		if q, ok := x.request(); ok {
			run(x, q)
		}
	})
}

// expiries: the client comes back when its token has expired.
func (s *sweep) expiries() []scenario {
	return s.eachRequest(2, "the client comes back too late for turn %d", undone, func(x *trial, q request) {
		x.awake()
		x.client.rig.setNow(x.client.rig.now.Add(tokens.DefaultTTL + tokens.DefaultSkew + time.Second))
		rep := x.send(q)
		if rep.out != nil && rep.late || rep.err != nil {
			x.client.take(q, rep)
			x.last = rep
			return
		}
		x.breaks(broken{"a saga that comes too late does not go on", "", "the turn was taken", "report this: it is a fault of the test kit"})
	})
}

// rotations: between two turns another key begins to seal.
func (s *sweep) rotations() []scenario {
	return s.eachTurn(2, "keys are rotated before turn %d", asUndisturbed, func(x *trial, _ int) {
		keys, id, err := x.client.rig.keys.Add(codec.XAES256GCM)
		if err == nil {
			keys, err = keys.Promote(id)
		}
		if err == nil {
			x.client.rig.codec, err = tokens.New(keys, codecOptions)
		}
		if err != nil {
			x.failed(err)
			return
		}
		x.play()
	})
}

// clocks: the clock jumps between two turns, no farther than tokens bear.
func (s *sweep) clocks() []scenario {
	forward := tokens.DefaultTTL - time.Minute
	if s.tool.MaxAge > 0 {
		forward = min(forward, s.tool.MaxAge/2)
	}
	jump := func(where string, by time.Duration) []scenario {
		return s.eachTurn(2, "the clock jumps "+where+" before turn %d", alike, func(x *trial, _ int) {
			x.client.rig.setNow(x.client.rig.now.Add(by))
			x.play()
		})
	}
	return append(jump("forward", forward), jump("back", 10*time.Second-tokens.DefaultSkew)...)
}
