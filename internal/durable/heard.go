package durable

import (
	"context"
	"errors"
	"slices"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A handle names the row of its saga, and the row says which events the saga has taken. So who delivers learns from the
// row whether it is too late, however the saga has ended.

// errHeard: the saga has taken the event, and what it was is forgotten.
var errHeard = errors.New("the saga has taken the event before")

// errEnding: whether the event is taken is known soon.
var errEnding = errors.New("the saga that waits for the event is being ended: deliver again later")

// takes fails with [ErrEventGone] if what is delivered comes too late for the saga that has made the handle, or for all that
// have waited. What had been delivered and was not taken by then is forgotten: it counts if the saga was seen alive after it
// was written, as then also an undo comes after it. It returns the row of that saga, nil if there is none, or if the address
// does not name it.
func (c *Core) takes(ctx context.Context, at Address, d *delivery) (*row, error) {
	if at.Row == (store.ID{}) {
		return nil, c.stillWaits(ctx, d)
	}
	r, err := c.rows.load(ctx, at.Row)
	switch {
	case err != nil:
		return nil, err
	case r == nil && d.Result != nil: // whether it was taken is forgotten, but not what was said of it
		return nil, nil
	case r == nil:
		return nil, ErrEventGone
	case slices.ContainsFunc(r.Heard, func(h heard) bool { return h.Event == at.Event }):
		if d.Result == nil {
			return r, errHeard
		}
		return r, nil
	}
	if held := r.Until.After(r.now()); !r.Status.Over() && (r.Client == nil || held || !isOver(r, r.now())) {
		if r.Cancelled || r.UndoNow || r.Undoing != nil || isOver(r, r.now()) {
			return r, errEnding
		}
		return r, nil
	}
	_, err = changeDocument(ctx, c, at.Event, nil, func(d *delivery, _ bool) (*kept, error) {
		if d.Result == nil {
			return nil, nil
		}
		d.Result, d.Over = nil, true
		return d.kept(c.clock.now()), nil
	})
	if err == nil {
		err = ErrEventGone
	}
	return r, err
}

// heard is an event that a saga has taken.
type heard struct {
	Event    Name   `cbor:"1,keyasint"`
	Question string `cbor:"2,keyasint"`
}

func (r *row) hears(events []heard) {
	for _, e := range events {
		if !slices.Contains(r.Heard, e) {
			r.Heard = append(slices.Clip(r.Heard), e)
		}
	}
}

// hears has the next commit say that the saga has taken those events of a position that have happened.
func (h *hold) hears(p *engine.Program, pos *engine.Position, happened []steps.Answer) {
	if len(happened) > 0 {
		h.heard = append(h.heard, heardOf(h.c.awaits(p, pos), happened)...)
	}
}

// heardOf are those of the events that have one of the answers, unless that says that nothing came.
func heardOf(events []tasks.Awaited, answers []steps.Answer) (list []heard) {
	for _, e := range events {
		for _, a := range happenedOf(answers) {
			if a.StepID == e.ID && string(a.Result) != timedOut {
				list = append(list, heard{e.Event, e.Question})
			}
		}
	}
	return list
}
