package sagatest

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// scenario is one way in which things go wrong.
type scenario struct {
	name string
	// turn is up to where it plays by the script: run gets the request that would come then. Zero is the beginning.
	turn int
	// want says how it must end. It may end early when a rule is broken.
	want expectation
	run  func(x *trial, q request)
}

// eachTurn has one scenario for every turn from the second.
func (s *sweep) eachTurn(name string, want expectation, run func(x *trial, q request)) (list []scenario) {
	for turn := 2; turn <= s.base.turns; turn++ {
		list = append(list, scenario{fmt.Sprintf(name, turn), turn, want, run})
	}
	return list
}

// unheard are two scenarios in which the client does not learn what became of a turn.
func unheard(name string, turn int, happens func(x *trial, q request) bool) []scenario {
	list := []scenario{{name + ", then the client repeats the turn", turn, asUndisturbed, func(x *trial, q request) {
		if happens(x, q) && x.delivers(q) {
			x.play()
		}
	}}}
	if turn > 1 { // else there is no token to cancel with
		list = append(list, scenario{name + ", then the client cancels with its answers", turn, undone, func(x *trial, q request) {
			if happens(x, q) {
				q.cancels = true
				x.ends(q)
			}
		}})
	}
	return list
}

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
			cut{p, cutBefore, fmt.Sprintf("crash before %s in turn %d", p.label, p.turn)},
			cut{p, cutAfter, fmt.Sprintf("crash after %s in turn %d", p.label, p.turn)})
	}
	return list
}

// crashes: turns are cut off at their effects. What is cut off while undoing is
// looked for by refusing the first step of every round.
func (s *sweep) crashes() (list []scenario) {
	for _, c := range cuts(points(s.base.calls)) {
		list = append(list, unheard(c.name, c.turn, func(x *trial, q request) bool { return x.cutOff(q, c) })...)
	}
	for _, c := range cuts(s.undoPoints()) {
		list = append(list, scenario{c.name + " after a refusal, then the client repeats the turn", c.turn, settled, func(x *trial, _ request) {
			if q, ok := x.refusal(); ok && x.cutOff(q, c) && x.delivers(q) {
				x.playOn()
			}
		}})
	}
	return list
}

// afterLease is when a turn may be taken over that was cut off.
const afterLease = time.Minute

// cutOff sends a request whose turn is to be cut off.
func (x *trial) cutOff(q request, c cut) bool {
	x.fault(c.point, c.fault)
	rep := x.send(q)
	switch {
	case rep.cut:
		if x.rig.ledger != nil {
			x.rig.clock.pass(afterLease)
		}
		x.lost(q)
		return true
	case rep.err != nil:
		x.failed(rep.err)
	default:
		x.breaks(broken{"a turn that is repeated does the same", "", fmt.Sprintf("turn %d did not come to the effect that it came to in the undisturbed saga", x.rig.turns),
			"let the order of effects depend on nothing but the answers and the state: do not range over a map, and take time and random numbers from the Run or the Turn"})
	}
	return false
}

// refusal returns the request that refuses the first step. If there is none, as the tool has paused, it plays to the
// end.
func (x *trial) refusal() (request, bool) {
	if len(x.last.Steps) == 0 {
		x.play()
		return request{}, false
	}
	return x.instead(refusal(x.last.Steps[0]))
}

// ends delivers a request that must end the saga.
func (x *trial) ends(q request) bool {
	if !x.delivers(q) {
		return false
	}
	if !x.got.ended {
		x.breaks(broken{"a saga that is cancelled ends", "", "it asks on", "report this: it is a fault of the engine"})
	}
	return x.got.ended
}

// undoPoints finds out which effects are undone when the first step of a round is
// refused.
func (s *sweep) undoPoints() (list []point) {
	for turn := 2; turn <= s.base.turns; turn++ {
		x := s.newTrial(s.t, "")
		if !x.to(turn) {
			continue
		}
		if q, ok := x.refusal(); !ok || !x.delivers(q) {
			continue
		}
		for _, p := range points(x.rig.world.calls) {
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
		list = append(list, unheard(fmt.Sprintf("turn %d is stopped before %s", p.turn, p.label), p.turn, func(x *trial, q request) bool {
			x.fault(p, stopBefore)
			rep := x.send(q)
			if rep.ended {
				x.breaks(broken{"a turn that is stopped from outside does not end the saga", "",
					"the turn's context ended, and the tool ended the saga with: " + said(x.played(rep)),
					"return the error that saga.Do returned, instead of making a result of it"})
			} else if !rep.undone {
				x.lost(q)
			}
			return !rep.ended
		})...)
	}
	return list
}

// losses: the response of a turn does not arrive.
func (s *sweep) losses() (list []scenario) {
	for turn := 1; turn <= s.base.turns; turn++ {
		list = append(list, unheard(fmt.Sprintf("the response of turn %d is lost", turn), turn, (*trial).loseResponse)...)
	}
	return list
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

// duplicates: a turn is taken again when the saga has ended.
func (s *sweep) duplicates() []scenario {
	if !s.base.good {
		return nil // what was undone may come back, which a server that keeps nothing cannot prevent
	}
	return s.eachTurn("turn %d is delivered again after the end", asUndisturbed, func(x *trial, q request) {
		if x.play() {
			x.loseResponse(q)
		}
	})
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
			if u := turns.UndoReport(x.got.Result); taken && u != nil && u.SagaToken != "" {
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
	first := x.delivers(q)
	return first && x.delivers(q)
}

// expiries: the client comes back when its token has expired.
func (s *sweep) expiries() []scenario {
	late := sweepTTL
	if s.tool.MaxAge > 0 {
		late = min(late, s.tool.MaxAge)
	}
	return s.eachTurn("the client comes back too late for turn %d", undone, func(x *trial, q request) {
		x.rig.clock.until(x.last.Wake)
		if x.last.Position != nil {
			x.rig.clock.until(x.last.Position.Rests())
		}
		x.rig.clock.pass(late + tokens.DefaultSkew + time.Second)
		rep := x.send(q)
		if rep.Token != "" || rep.ended && rep.Gone == "" {
			x.breaks(broken{"a saga that comes too late does not go on", "", "the turn was taken", "report this: it is a fault of the engine"})
			return
		}
		x.take(q, rep)
	})
}

// refusals: every step is declined, cancelled, or fails in the client.
func (s *sweep) refusals() (list []scenario) {
	for i, r := range s.base.rounds {
		for _, a := range r.Asked {
			add := func(how string, given steps.Answer) {
				list = append(list, scenario{a.ID + " " + how, i + 2, settled, func(x *trial, _ request) {
					if q, ok := x.instead(given); ok && x.delivers(q) {
						x.playOn()
					}
				}})
			}
			if a.Kind == steps.Elicitation {
				add("is declined", refusal(a.Step))
				add("is cancelled by the user", steps.Answer{StepID: a.ID, Result: []byte(`{"action":"cancel"}`)})
			}
			add("fails in the client", clientError(a.Step))
		}
	}
	return list
}

// cancels: the client cancels, and asks twice for it.
func (s *sweep) cancels() []scenario {
	return s.eachTurn("the client cancels instead of turn %d, twice", undone, func(x *trial, q request) {
		cancel := request{token: q.token, cancels: true}
		if x.ends(cancel) {
			x.ends(cancel)
		}
	})
}

// forks: one token is used twice, once with the script's answers and once with a
// refusal.
func (s *sweep) forks() (list []scenario) {
	if s.tool.SingleUse == engine.SingleUseNever && slices.ContainsFunc(s.base.calls, func(c Call) bool { return !c.hook.ReadOnly }) {
		list = append(list, scenario{"a ledger that remembers no turn of the tool", 0, settled, func(x *trial, _ request) {
			x.play()
			x.breaks(broken{"a turn of a tool that acts is taken once", "", "the tool has effects, and SingleUseNever lets its sagas fork: a client can have them performed for two different answers, and nothing undoes what an abandoned saga did",
				"leave SingleUse out; then turns are taken once where the server has a ledger"})
		}})
	}
	list = append(list, s.eachTurn("turn %d is answered, and after the end answered again with a refusal", either, func(x *trial, _ request) {
		if q, ok := x.refusal(); ok {
			x.branch(x.play, func() bool { return x.delivers(q) && x.playOn() })
		}
	})...)
	return append(list, s.eachTurn("turn %d is refused, and after the end answered all the same", either, func(x *trial, _ request) {
		if q, ok := x.refusal(); ok {
			x.branch(func() bool { return x.delivers(q) && x.playOn() }, func() bool { return x.step() && x.playOn() })
		}
	})...)
}

// branch continues twice from the present point.
func (x *trial) branch(one, other func() bool) {
	start := *x.client
	start.sent, start.rounds, start.untaken = slices.Clip(start.sent), slices.Clip(start.rounds), slices.Clip(start.untaken)
	if one() {
		x.fork = x.played(x.got)
		x.client = &start
		other()
	}
}
