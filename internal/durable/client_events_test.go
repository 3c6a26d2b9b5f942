package durable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/steps"
)

// happens is an event.
func (x *played) happens(e event) {
	p := x.servers[e.A%len(x.servers)]
	duration := []time.Duration{time.Millisecond, 4 * time.Second, 11 * time.Second, 25 * time.Second, time.Minute, 4 * time.Minute}[e.B%6]
	soon := 1 + e.C%12
	if slices.Contains([]string{"kill", "pause", "freeze", "outage", "unwilling", "flaky", "refuse"}, e.Kind) {
		x.disturbed()
		x.mu.Lock()
		x.lives = x.lives && (slices.Contains([]string{"unwilling", "flaky"}, e.Kind) || e.Kind == "refuse" && e.B%3 == 0)
		x.mu.Unlock()
	}
	x.note("%s %d, for %v, after %d", e.Kind, p.slot, duration, soon)
	switch e.Kind {
	case "call":
		if n := len(x.customers); e.B%4 == 0 && n > 0 && x.customers[n-1].key != "" {
			x.call(p, x.customers[n-1], e)
			return
		}
		c := &customer{name: fmt.Sprint(len(x.customers)), policy: turns.Carried, waits: map[string]string{}, late: map[string]time.Time{}, asked: map[string][]ask{}, told: map[string]outcomeOf{}}
		c.args = modelArgs{c.name, e.B%3 == 0, payments[e.C%3]}
		if e.C%2 == 0 {
			c.key = "key " + c.name
		}
		if e.B%5 == 0 {
			c.policy = turns.Resent
		}
		x.customers = append(x.customers, c)
		x.call(p, c, e)
	case "kill": // and another one takes its place
		p.mu.Lock()
		p.dieAt = p.gates + soon
		p.mu.Unlock()
		if e.B%2 == 0 {
			x.servers[p.slot] = x.start(p.slot, p.skew)
		}
	case "pause", "freeze":
		p.mu.Lock()
		p.pauseAt, p.pause, p.freeze = p.gates+soon, duration, e.Kind == "freeze"
		p.mu.Unlock()
	case "outage":
		x.mu.Lock()
		x.out = time.Now().Add(duration)
		x.mu.Unlock()
	case "unwilling", "flaky":
		x.behind.mu.Lock()
		defer x.behind.mu.Unlock()
		if e.Kind == "flaky" {
			x.behind.flaky = time.Now().Add(duration)
		} else {
			x.behind.unwilling = time.Now().Add(duration)
		}
	case "refuse":
		x.behind.mu.Lock()
		defer x.behind.mu.Unlock()
		if x.behind.refuses, x.behind.fatal = 1+e.B%2, 0; e.B%3 > 0 {
			x.behind.fatal = soon
		}
		x.behind.unreached = e.C % 2
	case "hang up":
		x.behind.mu.Lock()
		defer x.behind.mu.Unlock()
		x.behind.hangsUp = true
	case "late":
		x.comesLate(e)
	case "forget":
		_, _ = x.store.Forget(context.Background(), 1000)
	case "undo now":
		x.undoNow(e)
	default:
		x.goesOn(p, e)
	}
}

// goesOn is an event of a saga that has begun.
func (x *played) goesOn(p *process, e event) {
	x.mu.Lock()
	var list []*customer
	for _, c := range x.customers {
		if len(c.known) > 0 {
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		x.mu.Unlock()
		return
	}
	c := list[len(list)-1-e.B%len(list)%3%len(list)]
	token := c.known[len(c.known)-1]
	if e.C%5 == 0 {
		token = c.known[e.C/5%len(c.known)]
	}
	answers := c.answers(token, e.C/7)
	if sent := c.asked[token]; (e.Kind == "repeat" || e.C%6 == 0) && len(sent) > 0 {
		answers = sent[e.B%len(sent)].answers
	}
	x.mu.Unlock()
	if e.Kind == "cancel" {
		if e.C%3 > 0 {
			answers = nil
		}
		x.cancel(p, c, token, answers, e)
		return
	}
	for i := range 1 + e.B%7/5 { // some at once
		x.resume(x.servers[(e.A+i)%len(x.servers)], c, token, answers, e)
	}
}

// answers to what a token is asked: yes mostly.
func (c *customer) answers(token string, n int) []steps.Answer {
	asked := c.waits[token]
	switch n % 8 {
	case 0:
		return []steps.Answer{say(asked, false)}
	case 1:
		return []steps.Answer{{StepID: asked, Result: []byte(`{"action":"decline"}`)}}
	case 2: // which is none
		return []steps.Answer{{StepID: asked, Result: []byte(`{}`)}}
	}
	return []steps.Answer{say(asked, true)}
}

// request is what every message of a client says.
func (c *customer) request(p *process, token string, answers []steps.Answer) turns.Request {
	q := turns.Request{Policy: c.policy, Principal: "ann", Client: steps.AllFeatures(), Token: token, Answers: answers}
	if token == "" || c.policy.Resent {
		q.Arguments, _ = json.Marshal(c.args)
	}
	if token == "" {
		q.Program, q.IdempotencyKey = p.Registry.Find(engine.KindTool, "model"), c.key
	}
	return q
}

// waiting is how long a client waits for its response.
func (x *played) waiting(p *process, e event) (context.Context, context.CancelFunc) {
	ctx := context.WithValue(context.Background(), processKey{}, p)
	if e.C%11 != 0 {
		ctx, hangUp := context.WithCancel(ctx)
		return context.WithValue(ctx, hangUpKey{}, hangUp), hangUp
	}
	x.disturbed() // a turn that is given up may be taken again
	return context.WithTimeout(ctx, []time.Duration{3 * time.Millisecond, 20 * time.Millisecond, 3 * time.Second}[e.A%3])
}

func (x *played) call(p *process, c *customer, e event) {
	x.mu.Lock()
	c.asked[""] = append(c.asked[""], ask{})
	x.notes("saga %s at %d: call %+v key %q %s", c.name, p.slot, c.args, c.key, c.policy.Purpose)
	x.mu.Unlock()
	ctx, cancel := x.waiting(p, e)
	x.clients.Go(func() {
		defer cancel()
		end, err := p.Call(ctx, c.request(p, "", nil))
		x.learns(ctx, p, c, "", "", end, err)
	})
}

func (x *played) resume(p *process, c *customer, token string, answers []steps.Answer, e event) {
	digest, known := x.sends(c, token, answers), x.knowsEnd(p, c, token)
	ctx, cancel := x.waiting(p, e)
	x.note("saga %s at %d: resume …%s %s", c.name, p.slot, tail(token), answers)
	x.clients.Go(func() {
		defer cancel()
		end, err := p.Resume(ctx, c.request(p, token, answers))
		if known && ctx.Err() == nil {
			x.mustTell(p, c, token, err)
		}
		x.learns(ctx, p, c, token, digest, end, err)
	})
}

// sends notes that a request is sent.
func (x *played) sends(c *customer, token string, answers []steps.Answer) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	c.went = true
	digest := fmt.Sprintf("%s", answers)
	if !slices.ContainsFunc(c.asked[token], func(a ask) bool { return a.digest == digest }) {
		c.asked[token] = append(c.asked[token], ask{answers, digest})
	}
	return digest
}

func (x *played) cancel(p *process, c *customer, token string, answers []steps.Answer, e event) {
	x.mu.Lock()
	c.went, c.forced = true, true
	x.notes("saga %s at %d: cancel …%s %s", c.name, p.slot, tail(token), answers)
	x.mu.Unlock()
	known := x.knowsEnd(p, c, token)
	ctx, cancel := x.waiting(p, e)
	if len(answers) == 0 {
		ctx = context.WithValue(ctx, undoKey{}, true)
	} else { // with answers that perhaps were not sent before, and what is lost of that is left to workers
		x.mu.Lock()
		x.lives = false
		x.mu.Unlock()
	}
	x.clients.Go(func() {
		defer cancel()
		end, err := p.Cancel(ctx, c.request(p, token, answers), turns.Resent, turns.Carried)
		if known && ctx.Err() == nil {
			x.mustTell(p, c, token, err)
		}
		if !x.answered(ctx, p, c, err) {
			return
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.notes("saga %s: cancelled: %s", c.name, end.Result.Content.Text())
		if text := end.Result.Content.Text(); strings.Contains(text, " final.") && !strings.Contains(text, "The saga has ended") {
			return // it is too late, and the saga is as it was
		}
		x.ends(c, end)
	})
}

func tail(token string) string { return token[max(0, len(token)-6):] }

// undoNow is an operator's.
func (x *played) undoNow(e event) {
	registry, sealer := modelShared()
	runner := turns.New(turns.Config{Registry: registry, Codec: sealer, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	operator, err := durable.New(durable.Config{Turns: runner, Store: x.store})
	must(err)
	var list []durable.Waiting
	for w, err := range operator.Waiting(context.Background()) {
		must(err)
		list = append(list, w)
	}
	if len(list) == 0 {
		return
	}
	x.mu.Lock()
	for _, c := range x.customers { // whose it is cannot be told
		c.went, c.forced = true, true
	}
	x.mu.Unlock()
	_ = operator.UndoNow(context.Background(), list[e.B%len(list)].ID)
}
