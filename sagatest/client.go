package sagatest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/tasks"
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
	awaits    [][]tasks.Awaited // of each round
	before    int               // the rounds that were answered with what was given before the play
	untaken   []string          // the questions of which an answer was not taken
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

// answers returns what the script answers to the questions of the last round. It fails with [errLeaves] if the
// client does not come back.
func (c *client) answers() (list []steps.Answer, later time.Duration, err error) {
	allGiven := len(c.last.Steps) > 0
	for _, s := range c.last.Steps {
		a := asked(s)
		scripted, ok := c.find(a)
		switch {
		case !ok:
			return nil, 0, errors.New(c.script.lack(a))
		case scripted.leaves:
			return nil, 0, errLeaves
		}
		if refused, err := c.refuses(a, scripted); err != nil {
			return nil, 0, err
		} else if refused {
			return c.answers()
		}
		given, err := scripted.reply(a)
		if err != nil {
			return nil, 0, fmt.Errorf("the answer to %q: %w", a.Question, err)
		}
		given.StepID = s.ID
		list, later, allGiven = append(list, given), max(later, scripted.later), allGiven && scripted.given
	}
	if allGiven {
		c.before = len(c.rounds)
	}
	return list, later, nil
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
	answers, later, err := c.answers()
	c.rig.clock.pass(later)
	q := c.resume(answers...)
	if err == nil {
		q.events, err = c.happenings()
	}
	return q, err
}

// send has the server take a turn; take lets the client learn of the response.
func (c *client) send(q request) reply {
	c.rig.clock.pass(c.pause)
	if err := c.rig.deliver(q.events); err != nil {
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
	r := Round{Token: rep.Token, Part: rep.Yielded}
	for _, s := range rep.Steps {
		r.Asked = append(r.Asked, asked(s))
	}
	if c.rig.routes != 0 {
		r.Words = []string{c.words(rep, "")}
	}
	c.rounds, c.awaits = append(c.rounds, r), append(c.awaits, rep.awaits)
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
