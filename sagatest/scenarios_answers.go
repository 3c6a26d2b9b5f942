package sagatest

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/internal/ident"
	"github.com/mcpsaga/mcpsaga/steps"
)

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
	return s.eachTurn(2, "the client cancels instead of turn %d, twice", undone, func(x *trial, q request) {
		cancel := request{token: q.token, cancels: true}
		if x.ends(cancel) {
			x.ends(cancel)
		}
	})
}

// forks: one token is used twice, once with the script's answers and once with a
// refusal.
func (s *sweep) forks() []scenario {
	return append(s.eachTurn(2, "turn %d is answered, and after the end answered again with a refusal", either, func(x *trial, _ request) {
		if q, ok := x.refusal(); ok {
			x.branch(x.play, func() bool { return x.delivers(q) && x.playOn() })
		}
	}), s.eachTurn(2, "turn %d is refused, and after the end answered all the same", either, func(x *trial, _ request) {
		if q, ok := x.refusal(); ok {
			x.branch(func() bool { return x.delivers(q) && x.playOn() }, func() bool { return x.step() && x.playOn() })
		}
	})...)
}

// branch continues twice from the present point.
func (x *trial) branch(one, other func() bool) {
	start, last, began := x.client.fork(), x.last, x.client.rig.clock.now()
	if !one() {
		return
	}
	if x.client.last.slept {
		x.client.rig.clock.set(began) // longer than a token is good
	}
	x.fork = x.client.played(x.last)
	x.client, x.last = start, last
	other()
}

// orders: several steps are answered one by one; only the latest answers are sent.
func (s *sweep) orders() (list []scenario) {
	if len(s.base.rounds) > 0 {
		list = append(list, scenario{"the client sends the arguments again and only its latest answers", 0, asUndisturbed, func(x *trial, _ request) {
			x.client.latest, x.client.rig.resends = true, true
			x.play()
		}})
	}
	for i, r := range s.base.rounds {
		if len(r.Asked) < 2 {
			continue
		}
		for _, order := range orders(len(r.Asked)) {
			name := fmt.Sprintf("round %d is answered one by one:", i+1)
			for _, n := range order {
				name += " " + r.Asked[n].ID
			}
			list = append(list, scenario{name, i + 2, asUndisturbed, func(x *trial, _ request) {
				answers, _, err := x.client.answers()
				if err != nil || len(answers) != len(order) {
					return
				}
				for _, n := range order {
					if !x.delivers(x.client.resume(answers[n])) {
						return
					}
				}
				x.play()
			}})
		}
	}
	return list
}

// orders lists the orders of two or more things: both directions from every start. Of
// three or fewer these are all.
func orders(n int) [][]int {
	var list [][]int
	for start := range n {
		var there, back []int
		for i := range n {
			there, back = append(there, (start+i)%n), append(back, (start+n-i)%n)
		}
		if list = append(list, there); n > 2 {
			list = append(list, back)
		}
	}
	return list
}

// invalids: a step is answered with what is no answer to it.
func (s *sweep) invalids() (list []scenario) {
	for i, r := range s.base.rounds {
		for n, a := range r.Asked {
			add := func(how string, want expectation, run func(x *trial, _ request)) {
				list = append(list, scenario{a.ID + " is answered " + how, i + 2, want, run})
			}
			add("against the protocol, then properly", asUndisturbed, func(x *trial, _ request) {
				q, ok := x.instead(steps.Answer{StepID: a.ID, Result: []byte(`{}`)})
				if !ok {
					return
				}
				if rep := x.send(q); rep.err == nil {
					x.breaks(broken{"an answer against the protocol is refused", "", fmt.Sprintf("step %q was answered with {}, and the turn was taken", a.ID), "report this: it is a fault of the engine"})
					return
				}
				x.play()
			})
			wrong := s.invalid(a)
			if wrong == nil {
				continue
			}
			add("with what does not fit, then properly", asUndisturbed, func(x *trial, _ request) {
				if x.doesNotFit(a.Question, wrong) {
					x.play()
				}
			})
			if n > 0 {
				continue
			}
			add("with what does not fit until the tool gives up", settled, func(x *trial, _ request) {
				for !x.over() && x.doesNotFit(a.Question, wrong) {
				}
			})
		}
	}
	return list
}

// doesNotFit answers a question with wrong content, and the others by the script.
func (x *trial) doesNotFit(question string, wrong json.RawMessage) bool {
	var id string
	for _, step := range x.client.last.Steps {
		if asked(step).Question == question {
			id = step.ID
		}
	}
	if id == "" {
		return false
	}
	q, ok := x.instead(steps.Answer{StepID: id, Result: wrong})
	x.client.shift[question]++
	return ok && x.delivers(q)
}

// invalid looks for a result that is well formed but does not fit the step's form.
func (s *sweep) invalid(a Asked) json.RawMessage {
	form := a.Form()
	if form == nil {
		return nil
	}
	contents := []map[string]any{{}}
	for _, f := range form.Fields {
		for _, v := range []any{12.5, true, "\x00 no valid value"} {
			contents = append(contents, map[string]any{f.Name: v})
		}
	}
	for _, q := range s.tool.Questions {
		if q.StepID() != ident.Base(a.Question) {
			continue
		}
		for _, content := range contents {
			raw := json.RawMessage(compact(map[string]any{"action": "accept", "content": content}))
			if errors.As(q.Check(a.Step, raw), new(*checkerr.InvalidError)) {
				return raw
			}
		}
	}
	return nil
}
