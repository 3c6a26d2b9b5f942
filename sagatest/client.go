package sagatest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// client drives one saga. A copy of it continues from the same point, as a client can
// that uses a token twice.
type client struct {
	rig    *rig
	script *script
	// latest: only the answers to the last questions are sent, not all so far.
	latest bool
	pause  time.Duration

	last reply
	// shift says by how much the script's answers to a question come later, as the
	// question was answered otherwise before.
	shift  map[string]int
	sent   []steps.Answer
	rounds []Round
}

// fork returns a client that stands at the same point.
func (c *client) fork() *client {
	f := *c
	f.shift, f.sent, f.rounds = maps.Clone(c.shift), slices.Clone(c.sent), slices.Clone(c.rounds)
	return &f
}

// answers returns what the script answers to the questions of the last round.
// leaves: the client does not come back.
func (c *client) answers() (list []steps.Answer, later time.Duration, leaves bool, err error) {
	return c.answersBy(func(a Asked) (Answer, bool) { return c.script.find(a.Question, a.Again-c.shift[a.Question]) })
}

// answersBy is answers by something else than the script.
func (c *client) answersBy(find func(Asked) (Answer, bool)) (list []steps.Answer, later time.Duration, leaves bool, err error) {
	for _, s := range c.last.steps {
		a := asked(s)
		scripted, ok := find(a)
		if !ok {
			return nil, 0, false, errors.New(c.script.lack(a))
		}
		if scripted.leaves {
			return nil, 0, true, nil
		}
		given, err := scripted.reply(a)
		if err != nil {
			return nil, 0, false, fmt.Errorf("the answer to %q: %w", a.Question, err)
		}
		given.StepID = s.ID
		list, later = append(list, given), max(later, scripted.later)
	}
	return list, later, false, nil
}

// resume returns the request that brings these answers.
func (c *client) resume(answers ...steps.Answer) request {
	q := request{token: c.last.token, answers: answers}
	if !c.latest {
		q.answers = append(slices.Clone(c.sent), answers...)
	}
	return q
}

// next returns the request that continues by the script.
func (c *client) next() (request, error) {
	if c.last.token == "" {
		return request{}, nil // the call
	}
	answers, later, leaves, err := c.answers()
	if err != nil || leaves {
		return request{}, err
	}
	c.rig.setNow(c.rig.now.Add(later))
	return c.resume(answers...), nil
}

// send has the server take a turn; take lets the client learn of the response.
func (c *client) send(q request) reply {
	c.rig.setNow(c.rig.now.Add(c.pause))
	switch wake := c.last.wake; {
	case q.token == "" || q.works:
	case q.token != c.last.token:
		return c.sendAgain(q)
	case !q.cancels && c.rig.now.Before(wake):
		c.rig.setNow(wake) // it has learned when to come back
	}
	c.rig.first[q.token] = c.rig.now
	return c.rig.send(q)
}

// sendAgain sends an older request again. If the saga has slept meanwhile for longer than
// tokens live, that was before: it arrives late, but not that late.
func (c *client) sendAgain(q request) reply {
	first, known := c.rig.first[q.token]
	if now := c.rig.now; known && now.Sub(first) > tokens.DefaultTTL/2 && c.last.slept {
		c.rig.setNow(first.Add(c.pause))
		defer func() { c.rig.setNow(now) }()
	}
	return c.rig.send(q)
}

// take continues from a response.
func (c *client) take(q request, rep reply) {
	if rep.cut || rep.err != nil {
		return // the token before is still good
	}
	rep.slept = c.last.slept || !rep.wake.IsZero()
	c.last = rep
	for _, a := range q.answers {
		if !slices.ContainsFunc(c.sent, func(b steps.Answer) bool { return a.StepID == b.StepID }) {
			c.sent = append(c.sent, a)
		}
	}
	if rep.out != nil {
		return
	}
	r := Round{Token: rep.token, Part: rep.part}
	for _, s := range rep.steps {
		r.Asked = append(r.Asked, asked(s))
	}
	c.rounds = append(c.rounds, r)
}

func (c *client) played(rep reply) *Played {
	c.rig.watch.mu.Lock()
	defer c.rig.watch.mu.Unlock()
	c.rig.heard.mu.Lock()
	defer c.rig.heard.mu.Unlock()
	p := &Played{Err: rep.err, Rounds: slices.Clone(c.rounds), Calls: slices.Clone(c.rig.watch.calls), Suspended: rep.out == nil && !rep.undone, Cancelled: rep.cancelled,
		Progress: slices.Clone(c.rig.heard.progress), Logs: slices.Clone(c.rig.heard.logs)}
	if o := rep.out; o != nil {
		p.Result, p.Contents, p.Err, p.out = o.Result, o.Contents, o.Err, *o
		if o.Messages != nil {
			p.Messages = o.Messages.Messages
		}
	}
	return p
}
