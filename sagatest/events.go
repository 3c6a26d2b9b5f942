package sagatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/steps"
)

// shelf is a server's way to the ledger. All ledgers of a test look the same to it, so that handles are the same in every
// run.
type shelf struct{ intercept.Store }

// Identity implements [ledger.Store].
func (*shelf) Identity(context.Context) (durable.Name, error) { return durable.Name{1}, nil }

// happening is a delivery that the script has.
type happening struct {
	question string
	event    durable.Name
	result   []byte
	later    time.Duration
	until    time.Time // after which nothing waits for it
	place    *engine.Place
	by       string // who answers, if others are asked; empty if that is refused
}

// asks says whom a question asks, and where; an event asks no one.
func (h happening) asks(e *tasks.Awaited, by string) happening {
	if h.place = e.Place; h.place != nil {
		if names, _ := jsonview.Strings(jsonview.Get(e.Asked, "by")); by == "" || slices.Contains(names, by) {
			h.by = cmp.Or(by, names[0])
		}
	}
	return h
}

// refused reports whether the server does not take it.
func (h happening) refused() bool { return h.place != nil && h.by == "" }

// scripted is what the script has for an event that is waited for.
func (c *client) scripted(e *tasks.Awaited) (h happening, err error) {
	a := Asked{Step: steps.Step{ID: e.Question, Kind: steps.Outside, Params: e.Asked}, Question: e.Question}
	answer, ok := c.find(a)
	switch {
	case !ok:
		return h, errors.New(c.script.lack(a))
	case answer.leaves:
		return h, errLeaves
	}
	given, err := answer.reply(a)
	if err == nil && given.Error != nil {
		err = errors.New("an event is not performed: use Accept or Decline, or have it come Later than its Within")
	}
	if err != nil {
		return h, fmt.Errorf("the answer to %q: %w", e.Question, err)
	}
	return happening{question: e.Question, event: e.Event, result: given.Result, later: answer.later, until: e.Until}.asks(e, answer.by), nil
}

// happenings are what the script has for the events that the saga waits for.
func (c *client) happenings() (list []happening, err error) {
	for _, e := range c.last.awaits {
		h, err := c.scripted(&e)
		if err != nil {
			return nil, err
		}
		list = append(list, h)
	}
	return list, nil
}

// refused rejects all events that the saga waits for.
func (c *client) refused() (list []happening) {
	for _, e := range c.last.awaits {
		list = append(list, happening{event: e.Event, result: []byte(`{"action":"decline"}`)}.asks(&e, ""))
	}
	return list
}

// awaited are the events that a saga waits for at a position.
func (h *host) awaited(pos *engine.Position) (list []tasks.Awaited) {
	if h.core == nil || pos == nil {
		return nil
	}
	for _, a := range h.tool.Awaited(pos) {
		e := tasks.Awaited{Question: a.Question, Event: h.core.EventOf(h.tool, &a).Event, Until: a.Until, Asked: a.Asked}
		if a.Asked != nil {
			e.Place = &a.Place
		}
		list = append(list, e)
	}
	return list
}

// deliver has events happen, at a server of their own.
func (r *rig) deliver(list []happening) error {
	for _, h := range list {
		if late := r.clock.now().Add(h.later); h.later > 0 && !late.Before(h.until) || h.refused() {
			r.clock.until(h.until) // the client comes before that
			continue
		}
		r.clock.pass(h.later)
		at := &line{world: new(world)}
		at.store = shelf{intercept.Store{Store: r.ledger, Around: func(_ context.Context, _ intercept.Call, next func() error) error { return next() }}}
		host, err := r.host(at)
		if err == nil {
			err = happens(host.core, h)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// happens delivers an event, if it is not too late for that.
func happens(core *durable.Core, h happening) error {
	err := error(nil)
	if h.place != nil {
		err = answers(core, h)
	} else {
		_, err = core.Deliver(context.Background(), durable.Address{Event: h.event}, h.result)
	}
	if errors.Is(err, durable.ErrEventGone) || errors.Is(err, durable.ErrEventOther) {
		return nil
	}
	return err
}

// early has an event happen that the saga will wait for, unless the script has it come later.
func (x *trial) early(e *tasks.Awaited) bool {
	h, err := x.scripted(e)
	if err == nil && h.later == 0 {
		err = x.rig.deliver([]happening{h})
	}
	if err != nil {
		x.failed(err)
	}
	return err == nil
}

// answers has another person answer.
func answers(core *durable.Core, h happening) error {
	ctx := context.Background()
	mark, err := core.Mark(ctx)
	if err != nil || h.refused() {
		return err
	}
	asked, err := core.FindAsked(ctx, h.place.Handle(engine.PageMark(mark)))
	if err != nil {
		return err
	}
	action, _ := jsonview.String(jsonview.Get(h.result, "action"))
	return core.AnswerAsked(ctx, asked, durable.PersonAnswer{Action: action, Content: jsonview.Get(h.result, "content"), By: h.by})
}

// events: what is waited for comes before the saga begins, is rejected, or does not come.
func (s *sweep) events() (list []scenario) {
	for i := range s.base.awaits {
		for _, e := range s.base.awaits[i] {
			turn := i + 2
			add := func(how string, turn int, want expectation, run func(x *trial)) {
				list = append(list, scenario{e.Question + " " + how, turn, want, func(x *trial, _ request) { run(x) }})
			}
			add("is delivered twice, with different values", turn, asUndisturbed, func(x *trial) {
				q := x.resume()
				list, err := x.happenings()
				if q.events = append(list, x.refused()...); err != nil {
					x.failed(err)
				} else if x.delivers(q) {
					x.playOn()
				}
			})
			if e.Place == nil {
				add("is delivered before the saga begins", 0, asUndisturbed, func(x *trial) {
					if x.early(&e) {
						x.play()
					}
				})
			}
			add("is rejected", turn, settled, func(x *trial) {
				q := x.resume()
				if q.events = x.refused(); x.delivers(q) {
					x.playOn()
				}
			})
			add("does not happen in time", turn, settled, func(x *trial) {
				x.rig.clock.until(e.Until)
				if x.delivers(x.resume()) {
					x.playOn()
				}
			})
		}
	}
	return list
}

var _ ledger.Store = (*shelf)(nil)
