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
	recall func(Asked) (Answer, bool) // answers instead of the script, if it is not nil
	// latest: only the answers to the last questions are sent, not all so far.
	latest bool
	pause  time.Duration
	// first is when each token was first brought, and waited whether the client has taken its time to answer.
	first  map[string]time.Time
	waited map[string]bool

	last reply
	// shift says by how much the script's answers to a question come later, as the
	// question was answered otherwise before.
	shift  map[string]int
	sent   []steps.Answer
	rounds []Round
	before int // the rounds that were answered with what was given before the play
}

// fork returns a client that stands at the same point.
func (c *client) fork() *client {
	f := *c
	f.shift, f.sent, f.rounds = maps.Clone(c.shift), slices.Clone(c.sent), slices.Clone(c.rounds)
	return &f
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
	return c.script.find(a.Question, a.Again-c.shift[a.Question])
}

// resume returns the request that brings these answers.
func (c *client) resume(answers ...steps.Answer) request {
	q := request{token: c.last.Token, answers: answers}
	if !c.latest {
		q.answers = append(slices.Clone(c.sent), answers...)
	}
	return q
}

// next returns the request that continues by the script.
func (c *client) next() (q request, err error) {
	if c.last.Token == "" {
		return q, nil // the call
	}
	answers, later, err := c.answers()
	if err == nil {
		q = c.resume(answers...)
		q.later = later
	}
	return q, err
}

// send has the server take a turn; take lets the client learn of the response.
func (c *client) send(q request) reply {
	now := &c.rig.clock
	if q.later > 0 && !c.waited[q.token] {
		c.waited[q.token] = true
		now.pass(q.later)
	}
	now.pass(c.pause)
	if first, known := c.first[q.token]; known && q.token != c.last.Token && c.last.slept && now.now().Sub(first) > tokens.DefaultTTL/2 {
		// An older request is sent again, and the saga has slept meanwhile for longer than tokens live: this was
		// before. It arrives late, but not that late.
		defer now.set(now.now())
		now.set(first.Add(c.pause))
	} else if q.token != "" && q.token == c.last.Token {
		if !q.cancels {
			now.until(c.last.Wake) // it has learned when to come back
		}
		c.first[q.token] = now.now()
	}
	return c.rig.send(q)
}

// take continues from a response.
func (c *client) take(q request, rep reply) {
	if rep.cut || rep.err != nil {
		return // the token before is still good
	}
	rep.slept = c.last.slept || !rep.Wake.IsZero()
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
	c.rounds = append(c.rounds, r)
}

func (c *client) hasSent(a steps.Answer) bool {
	return slices.ContainsFunc(c.sent, func(b steps.Answer) bool { return a.StepID == b.StepID })
}

func (c *client) played(rep reply) *Played {
	c.rig.watch.mu.Lock()
	defer c.rig.watch.mu.Unlock()
	c.rig.heard.mu.Lock()
	defer c.rig.heard.mu.Unlock()
	p := &Played{
		Err: rep.err, Rounds: slices.Clone(c.rounds), Calls: slices.Clone(c.rig.watch.calls), Suspended: !rep.ended && !rep.undone, Cancelled: rep.cancelled,
		Progress: slices.Clone(c.rig.heard.progress), Logs: slices.Clone(c.rig.heard.logs),
	}
	if rep.ended {
		p.Result, p.Contents, p.Err, p.out = rep.Result, rep.Contents, rep.Err, rep.Outcome
		if rep.Messages != nil {
			p.Messages = rep.Messages.Messages
		}
	}
	return p
}
