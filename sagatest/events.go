package sagatest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/durable"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/jsonview"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/steps"
)

// happening is how an event happens that a saga waits for, or what another person answers.
type happening struct {
	tasks.Awaited
	result []byte
	later  time.Duration
	by     string // who answers; empty: the first of those who are asked
}

// who answers what others are asked; empty if the server refuses it.
func (h *happening) who() string {
	names, _ := jsonview.Strings(jsonview.Get(h.Asked, "by"))
	if h.by != "" && !slices.Contains(names, h.by) {
		return ""
	}
	return cmp.Or(h.by, names[0])
}

// happening is what the script has for an event that is waited for.
func (c *client) happening(e tasks.Awaited) (happening, error) {
	scripted, given, err := c.answer(Asked{Step: steps.Step{ID: e.Question, Kind: steps.Outside, Params: e.Asked}, Question: e.Question})
	if err == nil && given.Error != nil {
		err = fmt.Errorf("the answer to %q: an event is not performed: use Accept or Decline, or have it come Later than its Within", e.Question)
	}
	return happening{e, given.Result, scripted.later, scripted.by}, err
}

// awaited are the events that a saga waits for at a position. Those without a key have a Place.
func (h *host) awaited(pos *engine.Position) (list []tasks.Awaited) {
	if h.core == nil || pos == nil {
		return nil
	}
	for _, a := range h.tool.Awaited(pos) {
		e := tasks.Awaited{Question: a.Question, Event: h.core.EventOf(h.tool, &a).Event, Until: a.Until, Asked: a.Asked}
		if a.Key == "" {
			e.Place = &a.Place
		}
		list = append(list, e)
	}
	return list
}

// deliver has events happen, at servers of their own. It waits until it is known of each whether it happens in time.
func (r *rig) deliver(list ...happening) error {
	for _, h := range list {
		refused := h.Asked != nil && h.who() == ""
		if refused || h.later > 0 && !r.clock.now().Add(h.later).Before(h.Until) {
			r.clock.until(h.Until) // the client comes before that
			continue
		}
		r.clock.pass(h.later)
		host, err := r.host(r.process(0, nil))
		if err == nil {
			err = h.happen(host)
		}
		if err != nil && !errors.Is(err, durable.ErrEventGone) && !errors.Is(err, durable.ErrEventOther) {
			return err
		}
	}
	return nil
}

// happen delivers the event, or answers for another person.
func (h *happening) happen(at *host) error {
	ctx := context.Background()
	if h.Asked == nil {
		_, err := at.core.Deliver(ctx, durable.Address{Event: h.Event}, h.result)
		return err
	}
	asked, err := at.core.FindAsked(ctx, h.Place.Handle(engine.PageMark(at.mark)))
	if err != nil {
		return err
	}
	action, _ := jsonview.String(jsonview.Get(h.result, "action"))
	return at.core.AnswerAsked(ctx, asked, durable.PersonAnswer{Action: action, Content: jsonview.Get(h.result, "content"), By: h.who()})
}

// early has an event happen that the saga will wait for, unless the script has it come later.
func (x *trial) early(e tasks.Awaited) {
	h, err := x.happening(e)
	if err == nil && h.later == 0 {
		err = x.rig.deliver(h)
	}
	if err != nil {
		x.failed(err)
	}
}

// undelivered reports events that can only time out, as they have no key, and the tool has given away no handle of theirs.
func (s *sweep) undelivered() {
	var given strings.Builder
	for _, c := range s.base.end.Calls {
		given.Write(c.Input)
		given.Write(c.hook.Input.Secrets)
	}
	for _, r := range s.base.rounds {
		for _, a := range r.Asked { // the page of a link may deliver it
			given.Write(a.Params)
		}
	}
	h, err := s.base.rig.host(s.base.rig.process(0, nil))
	if err != nil {
		s.t.Fatalf("sagatest: %v", err)
	}
	for _, r := range s.base.rounds {
		for _, e := range r.awaits {
			if e.Asked == nil && e.Place != nil && !strings.Contains(given.String(), e.Place.Handle(h.mark)) {
				s.breaksAtLast("who delivers "+e.Question, broken{"an event can be delivered", e.Question,
					fmt.Sprintf("the saga waits for event %q, which has no key and whose handle is in no effect's input, so it can only time out", e.Question),
					"take its saga.Handle before saga.Do, and give it to an effect as input; or ask for it With a steps.Key"})
			}
		}
	}
}

// events: what is waited for comes before the saga begins, is rejected, or does not come.
func (s *sweep) events() {
	for i, r := range s.base.rounds {
		for _, e := range r.awaits {
			s.add(e.Question+" is delivered twice, with different values", i+2, asUndisturbed, func(x *trial, q request) {
				q.events = append(q.events, x.refused().events...)
				x.goOn(q)
			})
			if e.Asked == nil {
				s.add(e.Question+" is delivered before the saga begins", 0, asUndisturbed, func(x *trial, _ request) {
					x.early(e)
					x.play()
				})
			}
			s.add(e.Question+" is rejected", i+2, settled, func(x *trial, q request) {
				q.events = x.refused().events
				x.goOn(q)
			})
			s.add(e.Question+" does not happen in time", i+2, settled, func(x *trial, q request) {
				x.rig.clock.until(e.Until)
				q.events = nil
				x.goOn(q)
			})
		}
	}
}
