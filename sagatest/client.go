package sagatest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// client drives one saga. A copy of it continues from the same point, as a client can
// that uses a token twice.
type client struct {
	rig    *rig
	script *script
	recall func(Asked) (Answer, bool) // answers instead of the script, if it is not nil
	// latest: only the answers to the last questions are sent, not all so far.
	latest bool
	pause  time.Duration

	// got is the last response, and last the last that brought something.
	got, last reply
	sent      []steps.Answer
	rounds    []Round
	before    int      // the rounds that were answered with what was given before the play
	untaken   []string // the questions of which an answer was not taken
}

// request is what the client sends: without a token, a call of the tool.
type request struct {
	token   string
	policy  turns.Policy
	answers []steps.Answer
	cancels bool
	events  []happening // which are delivered before
}

var errLeaves = errors.New("the script says that the client leaves; a sweep needs one that goes on to the end")

// scripted returns the request that brings what the script has for what the saga waits for, and how long the client takes
// for that. It fails with [errLeaves] if the client does not come back.
func (c *client) scripted() (q request, later time.Duration, err error) {
	allGiven, answers := len(c.last.Steps) > 0, []steps.Answer(nil)
	for _, s := range c.last.Steps {
		scripted, given, err := c.answer(asked(s))
		if err != nil {
			return q, 0, err
		}
		answers, later, allGiven = append(answers, given), max(later, scripted.later), allGiven && scripted.given
	}
	if allGiven {
		c.before = len(c.rounds)
	}
	q = c.resume(answers...)
	for _, e := range c.last.awaits {
		h, err := c.happening(e)
		if err != nil {
			return q, later, err
		}
		q.events = append(q.events, h)
	}
	return q, later, nil
}

// refused returns the request that refuses all that the saga waits for.
func (c *client) refused() request {
	var answers []steps.Answer
	for _, s := range c.last.Steps {
		answers = append(answers, refusal(s))
	}
	q := c.resume(answers...)
	for _, e := range c.last.awaits {
		q.events = append(q.events, happening{Awaited: e, result: []byte(declines)})
	}
	return q
}

// answer returns what the script has for a question or an event, and what that answers. What comes by a route that is not
// open is refused, and the next answer counts.
func (c *client) answer(a Asked) (scripted Answer, given steps.Answer, err error) {
	scripted, ok := c.find(a)
	scripted = scripted.decided(a)
	switch {
	case !ok:
		err = errors.New(c.script.lack(a))
	case scripted.leaves:
		err = errLeaves
	case c.reaches(a, scripted.route):
		given, err = scripted.to(a)
	case c.times(a) > c.script.count(a.Question):
		err = fmt.Errorf("the answer to %q comes by %v, which is never taken.\n  what to do: have it come Via another route, or let the tool allow this one", a.Question, scripted.route)
	default:
		c.refuse(a)
		return c.answer(a)
	}
	return scripted, given, err
}

func (c *client) find(a Asked) (Answer, bool) {
	if c.recall != nil {
		return c.recall(a)
	}
	return c.script.find(a.Question, c.times(a))
}

// resume returns the request that brings these answers.
func (c *client) resume(answers ...steps.Answer) request {
	if !c.latest {
		answers = slices.Concat(c.sent, answers)
	}
	return request{token: c.last.Token, policy: c.last.Policy, answers: answers}
}

// next returns the request that continues by the script, for which the client takes its time.
func (c *client) next() (request, error) {
	if c.last.Token == "" {
		return request{}, nil // the call
	}
	q, later, err := c.scripted()
	c.rig.clock.pass(later)
	return q, err
}

// send has the server take a turn; take lets the client learn of the response.
func (c *client) send(q request) reply {
	c.rig.clock.pass(c.pause)
	if err := c.rig.deliver(q.events...); err != nil {
		return reply{err: err}
	}
	if q.token != "" && q.token == c.last.Token && !q.cancels {
		c.rig.clock.until(c.last.Wake) // it has learned when to come back
	}
	return c.rig.send(q)
}

// take continues from a response. After one that has brought nothing, the token before is still good.
func (c *client) take(q request, rep reply) {
	if c.got = rep; rep.cut || rep.err != nil {
		return
	}
	c.last = rep
	for _, a := range q.answers {
		if !c.hasSent(a) {
			c.sent = append(c.sent, a)
		}
	}
	if rep.ended {
		return
	}
	r := Round{Token: rep.Token, Part: rep.Yielded, awaits: rep.awaits}
	for _, s := range rep.Steps {
		r.Asked = append(r.Asked, asked(s))
	}
	if c.rig.routes != 0 {
		r.Words = []string{c.words(rep, "")}
	}
	c.rounds = append(c.rounds, r)
}

func (c *client) hasSent(a steps.Answer) bool {
	return slices.ContainsFunc(c.sent, func(b steps.Answer) bool { return a.StepID == b.StepID })
}

// played describes the saga after a response.
func (c *client) played(rep reply) *Played {
	w := c.rig.world
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &Played{
		Err: rep.err, Rounds: slices.Clone(c.rounds), Calls: slices.Clone(w.calls), Suspended: !rep.ended && !rep.undone, Cancelled: rep.cancelled,
		Progress: slices.Clone(w.progress), Logs: slices.Clone(w.logs),
	}
	if rep.ended {
		p.Result, p.Contents, p.Err, p.out = rep.Result, rep.Contents, rep.Err, rep.Outcome
		if rep.Messages != nil {
			p.Messages = rep.Messages.Messages
		}
	}
	return p
}
