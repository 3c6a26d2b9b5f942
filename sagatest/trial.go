package sagatest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/steps"
)

// trial is one scenario under way. When it cannot go on, it does nothing of what it is asked to do from there on.
type trial struct {
	*client
	sweep   *sweep
	t       testing.TB
	name    string
	subject Subject
	// before and after are what the author's world looks like, as far as it is shown, and result is what counts of the end.
	before, after, result string
	end                   *Played
	// fork is how another branch ended.
	fork   *Played
	broken []broken
	// stopped: it cannot go on, for a rule that was broken, or as the saga has ended early.
	stopped bool
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
	player := Player{Client: s.c.Client, Caller: s.c.Caller, Parts: s.c.Parts, Now: s.c.Now, ID: s.c.ID}
	x := &trial{sweep: s, t: t, name: name, subject: subject, client: player.client(t, subject.Tool, s.c.Args, s.codec)}
	x.follow(s.script)
	x.rig.world.lookAt(subject)
	if x.before = x.rig.world.looked; strings.HasPrefix(x.before, unencodable) {
		t.Fatalf("sagatest: what World returns %s.\n  what to do: return maps, slices and structs with exported fields, of what matters in the world", x.before)
	}
	s.trials = append(s.trials, x)
	return x
}

func (x *trial) breaks(b broken) {
	if !slices.ContainsFunc(x.broken, func(c broken) bool { return c.rule == b.rule && c.about == b.about }) {
		x.broken = append(x.broken, b)
	}
}

// breaksOff breaks a rule so that the trial cannot go on.
func (x *trial) breaksOff(b broken) {
	x.breaks(b)
	x.stopped = true
}

// failed reports a turn that failed as a whole, unless that has been explained.
func (x *trial) failed(err error) {
	if x.stopped = true; len(x.broken) == 0 {
		x.breaks(broken{"a turn brings questions or a result", err.Error(), fmt.Sprintf("turn %d failed: %v", x.rig.turns, err),
			"find out from the error what went wrong in this turn"})
	}
}

// send has a request served and looks at what comes of it.
func (x *trial) send(q request) reply {
	rep := x.client.send(q)
	x.inspect(rep)
	return rep
}

// to plays by the script until the given turn comes next, and returns its request.
func (x *trial) to(turn int) (q request) {
	for range turn - 1 {
		x.step()
	}
	if x.stopped = x.stopped || x.got.ended; !x.stopped {
		q = x.request()
	}
	return q
}

// step takes one turn by the script.
func (x *trial) step() {
	if x.stopped {
		return
	}
	x.move()
	x.delivers(x.request())
}

// request returns the next request by the script.
func (x *trial) request() request {
	q, err := x.next()
	if err != nil {
		x.breaksOff(broken{"the script leads to the end", err.Error(), err.Error(), "complete the script; if the tool asks this only because of the scenario, it should not"})
	}
	return q
}

// mostTries is how often a client sends a request at most.
const mostTries = 4

// delivers sends a request whose response arrives. While it is not known whether an irreversible effect was performed,
// the client is asked to send the same request again, and does.
func (x *trial) delivers(q request) {
	for n := 0; !x.stopped && n < mostTries; n++ {
		rep := x.send(q)
		if x.sweep.recording {
			x.record(q, rep)
		}
		x.take(q, rep)
		if rep.err == nil {
			x.stopped = rep.cut
			return
		}
		if n == mostTries-1 || !errors.As(rep.err, new(*engine.UnsettledError)) {
			x.failed(rep.err)
		}
	}
}

// mostTurns is when a saga is taken for endless.
const mostTurns = 100

// play continues by the script to the end.
func (x *trial) play() { x.toEnd(x.step) }

// goOn delivers a request that leads away from the script, and plays on.
func (x *trial) goOn(q request) {
	x.delivers(q)
	x.playOn()
}

// playOn continues to the end by the script where it has answers, and refuses everything else.
func (x *trial) playOn() {
	x.toEnd(func() {
		q, _, err := x.scripted()
		if err != nil {
			q = x.refused()
		}
		x.delivers(q)
	})
}

// toEnd takes steps until the saga has ended.
func (x *trial) toEnd(step func()) {
	for n := 0; !x.got.ended && !x.stopped; n++ {
		if n < mostTurns {
			step()
			continue
		}
		still := "pauses"
		if list := x.last.Steps; len(list) > 0 {
			still = fmt.Sprintf("asks %q", list[0].ID)
		}
		x.breaksOff(broken{"a saga ends", "", fmt.Sprintf("after %d turns the tool still %s", mostTurns, still), "let the tool give up when its user does not want it to go on"})
	}
}

// declines is a user's refusal.
const declines = `{"action":"decline"}`

// refusal is how a client refuses a step.
func refusal(s steps.Step) steps.Answer {
	if s.Kind == steps.Elicitation {
		return steps.Answer{StepID: s.ID, Result: []byte(declines)}
	}
	return clientError(s)
}

func clientError(s steps.Step) steps.Answer {
	return steps.Answer{StepID: s.ID, Error: &steps.ClientError{Code: -1, Message: "rejected by the user"}}
}

// refusing returns the request that refuses the first step. If there is none, as the tool has paused, it plays to the
// end.
func (x *trial) refusing() (q request) {
	switch {
	case x.stopped:
	case len(x.last.Steps) > 0:
		q = x.instead(refusal(x.last.Steps[0]))
	default:
		x.play()
		x.stopped = true
	}
	return q
}

// instead returns the request with the script's answers to the last questions, but for one step.
func (x *trial) instead(a steps.Answer) request {
	q, _, err := x.scripted()
	if err != nil {
		return x.request() // which says why
	}
	for i := range q.answers {
		if q.answers[i].StepID == a.StepID {
			q.answers[i] = a
		}
	}
	q.events = nil
	return q
}

// lost notes that the client does not learn of a turn, by whose token the saga could be undone.
func (x *trial) lost(q request) {
	x.orphans = x.orphans || q.token == "" && slices.ContainsFunc(x.rig.world.taken(), func(c Call) bool { return c.Turn == x.rig.turns && c.reached })
}
