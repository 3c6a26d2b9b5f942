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
	kind, name string
	// turn is up to where it plays by the script: run gets the request that would come then. Zero is the beginning.
	turn int
	// want says how it must end.
	want expectation
	run  func(x *trial, q request)
}

// add plans a scenario.
func (s *sweep) add(name string, turn int, want expectation, run func(x *trial, q request)) {
	s.planned = append(s.planned, scenario{s.kind, name, turn, want, run})
}

// breaksAtLast plans a scenario without a disturbance, at whose end the author learns of rules that the whole saga breaks.
func (s *sweep) breaksAtLast(name string, list ...broken) {
	s.add(name, 0, settled, func(x *trial, _ request) {
		x.play()
		for _, b := range list {
			x.breaks(b)
		}
	})
}

// eachTurn plans one scenario for every turn from the second.
func (s *sweep) eachTurn(name string, want expectation, run func(x *trial, q request)) {
	for turn := 2; turn <= s.base.rig.turns; turn++ {
		s.add(fmt.Sprintf(name, turn), turn, want, run)
	}
}

// unheard plans two scenarios in which the client does not learn what became of a turn.
func (s *sweep) unheard(name string, turn int, happens func(x *trial, q request)) {
	s.add(name+", then the client repeats the turn", turn, asUndisturbed, func(x *trial, q request) {
		happens(x, q)
		x.delivers(q)
		x.play()
	})
	if turn > 1 { // else there is no token to cancel with
		s.add(name+", then the client cancels with its answers", turn, undone, func(x *trial, q request) {
			happens(x, q)
			x.cancels(q)
		})
	}
}

// cancels delivers a request that cancels the saga, with the answers it has.
func (x *trial) cancels(q request) {
	q.cancels = true
	if x.delivers(q); !x.stopped && !x.got.ended {
		x.breaksOff(broken{"a saga that is cancelled ends", "", "it asks on", "report this: it is a fault of the engine"})
	}
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

// donePoints are the calls of Do in the undisturbed saga.
func (s *sweep) donePoints() []point {
	return slices.DeleteFunc(points(s.base.end.Calls), func(p point) bool { return p.undo })
}

// undoPoints finds out which effects are undone when the first step of a round is
// refused.
func (s *sweep) undoPoints() (list []point) {
	for turn := 2; turn <= s.base.rig.turns; turn++ {
		x := s.newTrial(s.t, "")
		x.to(turn)
		if x.delivers(x.refusing()); x.stopped {
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

// cut is where a turn is cut off.
type cut struct {
	point
	fault fault
}

// cuts calls f for a crash before and one after each point.
func cuts(points []point, f func(name string, c cut)) {
	for _, p := range points {
		f(fmt.Sprintf("crash before %s in turn %d", p.label, p.turn), cut{p, cutBefore})
		f(fmt.Sprintf("crash after %s in turn %d", p.label, p.turn), cut{p, cutAfter})
	}
}

// crashes: turns are cut off at their effects. What is cut off while undoing is
// looked for by refusing the first step of every round.
func (s *sweep) crashes() {
	cuts(points(s.base.end.Calls), func(name string, c cut) {
		s.unheard(name, c.turn, func(x *trial, q request) { x.cutOff(q, c) })
	})
	cuts(s.undoPoints(), func(name string, c cut) {
		s.add(name+" after a refusal, then the client repeats the turn", c.turn, settled, func(x *trial, _ request) {
			q := x.refusing()
			x.cutOff(q, c)
			x.goOn(q)
		})
	})
}

// afterLease is when a turn may be taken over that was cut off.
const afterLease = time.Minute

// cutOff sends a request whose turn is to be cut off.
func (x *trial) cutOff(q request, c cut) {
	if x.stopped {
		return
	}
	x.rig.world.plan = c
	switch rep := x.send(q); {
	case rep.cut:
		if x.rig.ledger != nil {
			x.rig.clock.pass(afterLease)
		}
		x.lost(q)
	case rep.err != nil:
		x.failed(rep.err)
	default:
		x.breaksOff(broken{"a turn that is repeated does the same", "", fmt.Sprintf("turn %d did not come to the effect that it came to in the undisturbed saga", x.rig.turns),
			"let the order of effects depend on nothing but the answers and the state: do not range over a map, and take time and random numbers from the Run or the Turn"})
	}
}

// stops: turns are stopped from outside, as a timeout does.
func (s *sweep) stops() {
	for _, p := range s.donePoints() { // undoing is not stopped
		s.unheard(fmt.Sprintf("turn %d is stopped before %s", p.turn, p.label), p.turn, func(x *trial, q request) {
			x.rig.world.plan = cut{p, stopBefore}
			if rep := x.send(q); rep.ended {
				x.breaksOff(broken{"a turn that is stopped from outside does not end the saga", "",
					"the turn's context ended, and the tool ended the saga with: " + said(x.played(rep)),
					"return the error that saga.Do returned, instead of making a result of it"})
			} else if !rep.undone {
				x.lost(q)
			}
		})
	}
}

// losses: the response of a turn does not arrive.
func (s *sweep) losses() {
	for turn := 1; turn <= s.base.rig.turns; turn++ {
		s.unheard(fmt.Sprintf("the response of turn %d is lost", turn), turn, (*trial).loseResponse)
	}
}

// loseResponse has a turn taken of which the client does not learn.
func (x *trial) loseResponse(q request) {
	if x.stopped {
		return
	}
	if rep := x.send(q); rep.err != nil {
		x.failed(rep.err)
	} else {
		x.lost(q)
	}
}

// duplicates: a turn is taken again when the saga has ended.
func (s *sweep) duplicates() {
	if !s.base.end.Good() {
		return // what was undone may come back, which a server that keeps nothing cannot prevent
	}
	s.eachTurn("turn %d is delivered again after the end", asUndisturbed, func(x *trial, q request) {
		x.play()
		x.loseResponse(q)
	})
}

// failures: effects fail, and so do undos.
func (s *sweep) failures() {
	add := func(name string, at cut, want expectation, run func(x *trial, q request)) {
		s.add(fmt.Sprintf(name, at.label, at.turn), at.turn, want, func(x *trial, q request) {
			x.rig.world.plan = at
			run(x, q)
		})
	}
	for _, p := range s.donePoints() {
		add("%s is refused in turn %d", cut{p, refuse}, settled, (*trial).goOn)
		add("%s fails and has done nothing in turn %d", cut{p, failUndone}, settled, (*trial).goOn)
		if !p.final {
			add("%s fails but has done its work in turn %d", cut{p, failDone}, settled, (*trial).goOn)
			continue
		}
		// The engine does not learn that there is no way back. It must undo nothing, and
		// the client brings the saga to its end.
		add("%s fails but has done its work in turn %d, then the client repeats the turn", cut{p, failDone}, asUndisturbed, func(x *trial, q request) {
			x.delivers(q)
			x.delivers(q)
			x.play()
		})
	}
	for _, p := range s.undoPoints() {
		if s.base.rig.ledger == nil { // else it gets the same report again
			add("%s fails in turn %d after a refusal, then the client repeats the turn", cut{p, failUndone}, settled, func(x *trial, _ request) {
				q := x.refusing()
				x.delivers(q)
				x.goOn(q)
			})
		}
		add("%s fails in turn %d after a refusal, then the client cancels with the token of the report", cut{p, failUndone}, settled, func(x *trial, _ request) {
			q := x.refusing()
			x.delivers(q)
			if u := turns.UndoReport(x.got.Result); u != nil && u.SagaToken != "" {
				x.cancels(request{token: u.SagaToken})
			} else {
				x.playOn()
			}
		})
	}
}

// expiries: the client comes back when its token has expired.
func (s *sweep) expiries() {
	late := sweepTTL
	if s.tool.MaxAge > 0 {
		late = min(late, s.tool.MaxAge)
	}
	s.eachTurn("the client comes back too late for turn %d", undone, func(x *trial, q request) {
		x.rig.clock.until(x.last.Wake)
		if x.last.Position != nil {
			x.rig.clock.until(x.last.Position.Rests())
		}
		x.rig.clock.pass(late + tokens.DefaultSkew + time.Second)
		rep := x.send(q)
		if rep.Token != "" || rep.ended && rep.Gone == "" {
			x.breaksOff(broken{"a saga that comes too late does not go on", "", "the turn was taken", "report this: it is a fault of the engine"})
			return
		}
		x.take(q, rep)
	})
}

// refusals: every step is declined, cancelled, or fails in the client.
func (s *sweep) refusals() {
	for i, r := range s.base.rounds {
		for _, a := range r.Asked {
			add := func(how string, given steps.Answer) {
				s.add(a.ID+" "+how, i+2, settled, func(x *trial, _ request) { x.goOn(x.instead(given)) })
			}
			if a.Kind == steps.Elicitation {
				add("is declined", refusal(a.Step))
				add("is cancelled by the user", steps.Answer{StepID: a.ID, Result: []byte(`{"action":"cancel"}`)})
			}
			add("fails in the client", clientError(a.Step))
		}
	}
}

// cancels: the client cancels, and asks twice for it.
func (s *sweep) cancels() {
	s.eachTurn("the client cancels instead of turn %d, twice", undone, func(x *trial, q request) {
		x.cancels(request{token: q.token})
		x.cancels(request{token: q.token})
	})
}

// forks: one token is used twice, once with the script's answers and once with a
// refusal.
func (s *sweep) forks() {
	if s.tool.SingleUse == engine.SingleUseNever && slices.ContainsFunc(s.base.end.Calls, func(c Call) bool { return !c.hook.ReadOnly }) {
		s.breaksAtLast("a ledger that remembers no turn of the tool", broken{"a turn of a tool that acts is taken once", "", "the tool has effects, and SingleUseNever lets its sagas fork: a client can have them performed for two different answers, and nothing undoes what an abandoned saga did",
			"leave SingleUse out; then turns are taken once where the server has a ledger"})
	}
	s.eachTurn("turn %d is answered, and after the end answered again with a refusal", either, func(x *trial, _ request) {
		refusal := x.refusing()
		x.branch(x.play, func() { x.goOn(refusal) })
	})
	s.eachTurn("turn %d is refused, and after the end answered all the same", either, func(x *trial, q request) {
		refusal := x.refusing()
		x.branch(func() { x.goOn(refusal) }, func() { x.goOn(q) })
	})
}

// branch continues twice from the present point.
func (x *trial) branch(one, other func()) {
	if x.stopped {
		return
	}
	start := *x.client
	start.sent, start.rounds, start.untaken = slices.Clip(start.sent), slices.Clip(start.rounds), slices.Clip(start.untaken)
	if one(); x.stopped {
		return
	}
	x.fork = x.played(x.got)
	x.client = &start
	other()
}
