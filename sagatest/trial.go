package sagatest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/steps"
)

// trial is one scenario under way.
type trial struct {
	*client
	sweep   *sweep
	t       testing.TB
	name    string
	subject Subject
	// turns counts those that were answered; fork is how another branch ended.
	turns  int
	fork   *Played
	broken []broken
	// orphans: a first turn has acted and was then lost, so that another saga began.
	orphans bool
	secrets []string
}

// sweepTTL is for how long tokens are good in a sweep. A client may bring one from before a long sleep.
const sweepTTL = 365 * 24 * time.Hour

// newTrial makes a tool, its world, a server and a client.
func (s *sweep) newTrial(t testing.TB, name string) *trial {
	t.Helper()
	subject := s.c.subject(t)
	if subject.Tool == nil {
		t.Fatalf("sagatest: the case has no tool: set Tool, or the Tool of the Subject that New returns")
	}
	x := &trial{sweep: s, t: t, name: name, subject: subject, client: s.c.player().client(t, subject.Tool, s.c.Args, s.codec)}
	x.follow(s.script)
	x.rig.world.lookAt(subject)
	s.trials = append(s.trials, x)
	return x
}

func (x *trial) breaks(b broken) { x.broken = append(x.broken, b) }

// send has a request served and looks at what comes of it.
func (x *trial) send(q request) reply {
	rep := x.client.send(q)
	x.inspect(rep)
	return rep
}

// to plays by the script until the given turn comes next.
func (x *trial) to(turn int) bool {
	for range turn - 1 {
		if !x.step() {
			return false
		}
	}
	return !x.got.ended
}

// step takes one turn by the script. It reports whether that worked.
func (x *trial) step() bool {
	x.move()
	q, ok := x.request()
	return ok && x.delivers(q)
}

// delivers sends a request whose response arrives, and reports whether the turn did not fail. While it is
// not known whether an irreversible effect was performed, the client is asked to
// send the same request again, and does.
func (x *trial) delivers(q request) bool {
	for range mostTries {
		rep := x.send(q)
		if x.sweep.recording {
			x.answered(q)
		}
		x.take(q, rep)
		if x.turns++; x.sweep.recording && rep.Position != nil {
			x.suspended(rep)
		}
		if !errors.As(rep.err, new(*engine.UnsettledError)) {
			break
		}
	}
	if x.got.err != nil {
		x.failed(x.got.err)
		return false
	}
	return !x.got.cut
}

// failed reports a turn that failed as a whole.
func (x *trial) failed(err error) {
	if len(x.broken) > 0 {
		return // it has been explained
	}
	x.breaks(broken{"a turn brings questions or a result", err.Error(), fmt.Sprintf("turn %d failed: %v", x.rig.turns, err),
		"find out from the error what went wrong in this turn"})
}

// request returns the next request by the script, or reports that it has none.
func (x *trial) request() (request, bool) {
	q, err := x.next()
	if err != nil {
		x.breaks(broken{"the script leads to the end", err.Error(), err.Error(), "complete the script; if the tool asks this only because of the scenario, it should not"})
	}
	return q, err == nil
}

// mostTries is how often a client sends a request at most.
const mostTries = 4

// mostTurns is when a saga is taken for endless.
const mostTurns = 100

// play continues by the script to the end.
func (x *trial) play() bool { return x.toEnd(x.step) }

// playOn continues to the end by the script where it has answers, and refuses
// everything else: the scenario has led away from the script.
func (x *trial) playOn() bool {
	return x.toEnd(func() bool {
		answers, _, err := x.answers()
		if err != nil {
			for _, s := range x.last.Steps {
				answers = append(answers, refusal(s))
			}
		}
		q := x.resume(answers...)
		if q.events, err = x.happenings(); err != nil {
			q.events = x.refused()
		}
		return x.delivers(q)
	})
}

func (x *trial) toEnd(step func() bool) bool {
	for range mostTurns {
		if x.got.ended || !step() {
			return x.got.ended
		}
	}
	still := "pauses"
	if list := x.last.Steps; len(list) > 0 {
		still = fmt.Sprintf("asks %q", list[0].ID)
	}
	x.breaks(broken{"a saga ends", "", fmt.Sprintf("after %d turns the tool still %s", mostTurns, still), "let the tool give up when its user does not want it to go on"})
	return false
}

// refusal is how a client refuses a step.
func refusal(s steps.Step) steps.Answer {
	if s.Kind == steps.Elicitation {
		return steps.Answer{StepID: s.ID, Result: []byte(`{"action":"decline"}`)}
	}
	return clientError(s)
}

func clientError(s steps.Step) steps.Answer {
	return steps.Answer{StepID: s.ID, Error: &steps.ClientError{Code: -1, Message: "rejected by the user"}}
}

// instead returns the script's answers to the last questions, but for one step.
func (x *trial) instead(a steps.Answer) (request, bool) {
	answers, _, err := x.answers()
	if err != nil {
		_, ok := x.request()
		return request{}, ok
	}
	for i := range answers {
		if answers[i].StepID == a.StepID {
			answers[i] = a
		}
	}
	return x.resume(answers...), true
}

// fault plans what goes wrong with an effect.
func (x *trial) fault(p point, f fault) { x.rig.world.plan = cut{point: p, fault: f} }

// lost notes that the client does not learn of a turn, by whose token the saga could be undone.
func (x *trial) lost(q request) {
	x.orphans = x.orphans || q.token == "" && slices.ContainsFunc(x.rig.world.taken(), func(c Call) bool { return c.Turn == x.rig.turns && c.reached })
}
