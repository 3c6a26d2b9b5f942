package sagatest

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
)

// point is a call of an effect: the n-th of a turn, counting tries of one call as one.
type point struct {
	turn, n int
	label   string
	undo    bool
	// final: the effect is irreversible.
	final bool
}

// points lists the calls.
func points(calls []Call) (list []point) {
	named := make(map[string]int)
	for _, c := range calls {
		if slices.ContainsFunc(list, func(p point) bool { return p.turn == c.Turn && p.n == c.n }) {
			continue
		}
		label := c.Effect
		if c.Undo {
			label = "undo of " + c.Effect
		}
		if named[label]++; named[label] > 1 {
			label = fmt.Sprintf("%s number %d", label, named[label])
		}
		list = append(list, point{c.Turn, c.n, label, c.Undo, c.hook.Irreversible})
	}
	return list
}

// cut is where a turn is cut off.
type cut struct {
	point
	fault fault
	name  string
}

// cuts are before and after each point.
func cuts(points []point) (list []cut) {
	for _, p := range points {
		list = append(list,
			cut{p, cutBefore, fmt.Sprintf("before %s in turn %d", p.label, p.turn)},
			cut{p, cutAfter, fmt.Sprintf("after %s in turn %d", p.label, p.turn)})
	}
	return list
}

// crashes: turns are cut off at their effects. What is cut off while undoing is
// looked for by refusing the first step of every round.
func (s *sweep) crashes() (list []scenario) {
	for _, c := range cuts(points(s.base.calls)) {
		name := "crash " + c.name
		list = append(list, scenario{name + ", then the client repeats the turn", c.turn, asUndisturbed, func(x *trial, q request) {
			if x.cutOff(q, c) && x.delivers(q) {
				x.play()
			}
		}})
		if c.turn > 1 { // else there is no token to cancel with
			list = append(list, scenario{name + ", then the client cancels with its answers", c.turn, undone, func(x *trial, q request) {
				if x.cutOff(q, c) {
					x.ends(q.cancelled())
				}
			}})
		}
	}
	for _, c := range cuts(s.undoPoints()) {
		list = append(list, scenario{"crash " + c.name + " after a refusal, then the client repeats the turn", c.turn, settled, func(x *trial, _ request) {
			if q, ok := x.refusal(); ok && x.cutOff(q, c) && x.delivers(q) {
				x.playOn()
			}
		}})
	}
	return list
}

// refusal returns the request that refuses the first step. If there is none, as the tool has paused, it plays to the
// end.
func (x *trial) refusal() (request, bool) {
	if len(x.client.last.Steps) == 0 {
		x.play()
		return request{}, false
	}
	return x.instead(refusal(x.client.last.Steps[0]))
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
	for turn := 2; turn <= s.base.turns; turn++ {
		x := s.newTrial(s.quiet(), "")
		if !x.to(turn) {
			continue
		}
		if q, ok := x.refusal(); !ok || !x.delivers(q) {
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
func (s *sweep) stops() (list []scenario) {
	for _, p := range points(s.base.calls) {
		if p.undo {
			continue // undoing is not stopped
		}
		list = append(list, scenario{fmt.Sprintf("turn %d is stopped before %s, then the client repeats it", p.turn, p.label), p.turn, asUndisturbed, func(x *trial, q request) {
			x.fault(p, stopBefore)
			rep := x.send(q)
			if rep.ended {
				x.breaks(broken{"a turn that is stopped from outside does not end the saga", "",
					"the turn's context ended, and the tool ended the saga with: " + said(x.client.played(rep)),
					"return the error that saga.Do returned, instead of making a result of it"})
				return
			}
			if !rep.undone {
				x.lost(q)
			}
			if x.delivers(q) {
				x.play()
			}
		}})
	}
	return list
}

// losses: the response of a turn does not arrive.
func (s *sweep) losses() []scenario {
	return append(s.eachTurn(1, "the response of turn %d is lost, then the client repeats the turn", asUndisturbed, func(x *trial, q request) {
		if x.loseResponse(q) && x.delivers(q) {
			x.play()
		}
	}), s.eachTurn(2, "the response of turn %d is lost, then the client cancels with its answers", undone, func(x *trial, q request) {
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
	x.lost(q)
	return true
}

// duplicates: a turn is taken twice.
func (s *sweep) duplicates() []scenario {
	list := s.eachTurn(2, "turn %d is delivered twice", asUndisturbed, func(x *trial, q request) {
		if x.delivers(q) && x.loseResponse(q) {
			x.play()
		}
	})
	if !s.base.good {
		return list // what was undone may come back, which a server that keeps nothing cannot prevent
	}
	return append(list, s.eachTurn(2, "turn %d is delivered again after the end", asUndisturbed, func(x *trial, q request) {
		if x.play() {
			x.loseResponse(q)
		}
	})...)
}

// failures: effects fail, and so do undos.
func (s *sweep) failures() (list []scenario) {
	add := func(p point, want expectation, name string, run func(x *trial, q request)) {
		list = append(list, scenario{fmt.Sprintf(name, p.label, p.turn), p.turn, want, run})
	}
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
				add(p, asUndisturbed, "%s "+w.name+" in turn %d, then the client repeats the turn", func(x *trial, q request) {
					if x.fault(p, failDone); x.twice(q) {
						x.play()
					}
				})
				continue
			}
			add(p, settled, "%s "+w.name+" in turn %d", func(x *trial, q request) {
				if x.fault(p, w.fault); x.delivers(q) {
					x.playOn()
				}
			})
		}
	}
	for _, p := range s.undoPoints() {
		if !demandsLedger(s.tool) { // else it gets the same report again
			add(p, settled, "%s fails in turn %d after a refusal, then the client repeats the turn", func(x *trial, _ request) {
				if q, ok := x.refusal(); ok {
					if x.fault(p, failUndone); x.twice(q) {
						x.playOn()
					}
				}
			})
		}
		add(p, settled, "%s fails in turn %d after a refusal, then the client cancels with the token of the report", func(x *trial, _ request) {
			q, ok := x.refusal()
			if !ok {
				return
			}
			x.fault(p, failUndone)
			taken := x.delivers(q)
			if u := turns.UndoReport(x.last.Result); taken && u != nil && u.SagaToken != "" {
				x.ends(request{token: u.SagaToken, cancels: true})
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

// eachTurn has one scenario for every turn from the first given.
func (s *sweep) eachTurn(first int, name string, want expectation, run func(x *trial, q request)) (list []scenario) {
	for turn := first; turn <= s.base.turns; turn++ {
		list = append(list, scenario{fmt.Sprintf(name, turn), turn, want, run})
	}
	return list
}

// expiries: the client comes back when its token has expired.
func (s *sweep) expiries() []scenario {
	return s.eachTurn(2, "the client comes back too late for turn %d", undone, func(x *trial, q request) {
		x.expire()
		x.comesLate(q, false)
	})
}

// rotations: between two turns another key begins to seal.
func (s *sweep) rotations() []scenario {
	return s.eachTurn(2, "keys are rotated before turn %d", asUndisturbed, func(x *trial, _ request) {
		keys, id, err := x.client.rig.keys.Add(codec.XAES256GCM)
		if err == nil {
			keys, err = keys.Promote(id)
		}
		if err != nil {
			x.failed(err)
			return
		}
		x.client.rig.keys, x.client.rig.codec = keys, nil
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
		return s.eachTurn(2, "the clock jumps "+where+" before turn %d", alike, func(x *trial, _ request) {
			x.client.rig.clock.pass(by)
			x.play()
		})
	}
	return append(jump("forward", forward), jump("back", 10*time.Second-tokens.DefaultSkew)...)
}
