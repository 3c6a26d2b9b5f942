package durable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/tasks"
	"github.com/mcpsaga/mcpsaga/steps"
)

// input changes a saga for its client. make returns the input, or nil if there is nothing to change,
// and whether the saga is to go on now. It is called again if the saga has changed meanwhile.
func (c *Core) input(ctx context.Context, find func() (*row, error), make func(r *row) (input *event, run bool, err error)) (*row, error) {
	for {
		r, err := find()
		if err == nil && r == nil {
			err = tasks.ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		input, run, err := make(r)
		if err != nil {
			return nil, c.report(ctx, "task", err)
		}
		if input == nil {
			return r, nil
		}
		if r.Until.After(r.now()) && !r.Status.Over() {
			if err = c.rows.signal(ctx, r, *input); err == nil && input.kind == kindCancel {
				c.worker.cancelled(ctx, r.ID)
			}
		} else {
			r, err = c.write(ctx, r, r.Record.Tries+1, run, func(h *hold) error {
				return h.commit(func(next *row) []event { return h.takeIn(next, *input, run) })
			})
		}
		switch {
		case err == nil:
			return r, nil
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrConflict):
			continue
		}
		return nil, c.report(ctx, "task", err)
	}
}

// write has a row written that no process holds, and was taken so many times, with this time. If the saga is to
// go on, it does so here, if this process has a slot for it, or needs none as a client waits for it here.
func (c *Core) write(ctx context.Context, r *row, taken int, run bool, write func(h *hold) error) (*row, error) {
	h := c.newHold(ctx, r, taken)
	live, here := c.worker.serves(false)
	if here = here && run && h.program != nil; here && r.Mode == store.ModeTask { // else only newer servers go on with it
		h.share = &share{principal: r.Principal, tool: r.Tool}
		here = c.worker.slots.reserve(h.share)
	}
	h.passes = !here
	err := write(h)
	h.lock()
	defer h.unlock()
	switch {
	case here && err == nil && !h.lost:
		h.ctx = live
		go h.run()
	case here && h.share != nil:
		c.worker.slots.leave(h.share, 0)
	}
	return h.row, err
}

// takeIn takes in an input within the change that acquires the row.
func (h *hold) takeIn(r *row, input event, run bool) []event {
	input.n, input.at = r.Head+1, r.now()
	r.fold(&input)
	switch {
	case run && r.Status == store.Waiting:
		r.Status = store.Working
	case run:
	case !r.Cancelled && r.Undoing == nil && (r.Status == store.Waiting || r.Status == store.Sleeping):
		r.Wake = r.pausesUntil() // it may be over later than it was to be
	default:
		r.Wake = h.row.Wake
	}
	return []event{input}
}

// Answer implements [tasks.Viewer].
func (c *Core) Answer(ctx context.Context, principal, id string, answers []steps.Answer) (*tasks.Task, error) {
	r, _, err := c.answer(ctx, principal, id, nil, answers)
	if err != nil {
		return nil, err
	}
	return c.view(r)
}

// AnswerFound implements [tasks.Viewer].
func (c *Core) AnswerFound(ctx context.Context, principal string, t *tasks.Task, answers []steps.Answer) (*tasks.Task, error) {
	found, _ := t.Found.(*row)
	r, taken, err := c.answer(ctx, principal, t.ID, found, answers)
	if err != nil || taken {
		return nil, err
	}
	return c.view(r)
}

// answer gives a saga answers; found is its row if that was read just now, or nil. It returns the row as it is
// then, and whether any answer was taken.
func (c *Core) answer(ctx context.Context, principal, id string, found *row, answers []steps.Answer) (r *row, taken bool, err error) {
	find := func() (*row, error) {
		if r := found; r != nil {
			found = nil // if it has changed since, it is read
			return r, nil
		}
		return c.find(ctx, principal, id)
	}
	r, err = c.input(ctx, find, func(r *row) (*event, bool, error) {
		input, last, err := c.fresh(r, answers)
		if taken = input != nil; taken {
			if who := engine.CallerOf(ctx); who.Binding() == r.Principal { // not a person who opens a page
				input.Granted = grantedTo(who)
			}
		}
		return input, last, err
	})
	if errors.Is(err, store.ErrTooLarge) {
		err = c.report(ctx, "task", &engine.AnswerError{StepID: answers[len(answers)-1].StepID, Reason: "it is larger than what can be kept with the others"})
	}
	return r, taken, err
}

// fresh returns those of the answers that the saga waits for, nil if none is, and whether it then waits for
// nothing more.
func (c *Core) fresh(r *row, answers []steps.Answer) (input *event, last bool, err error) {
	if statusOf(r) != tasks.InputRequired || isOver(r, r.now()) { // what has it may be about to end it
		return nil, false, nil
	}
	questions, known := r.Stand.Questions, slices.Clip(r.Stand.Answers)
	fresh := answersTo(r.theirs(), answers)
	if len(fresh) == 0 {
		return nil, false, nil
	}
	position, err := decodePosition(r.Stand.Position, r.Saga)
	if err != nil {
		return nil, false, err
	}
	// What only newer servers go on with is theirs to check: a client may not send its answers again. Where none goes
	// on from, the saga ends.
	over := false
	if program, served := c.Turns.ProgramOf(r.Tool, r.Revision); program != nil {
		err = program.CheckAnswers(position, fresh)
		if over = !served || errors.As(err, new(*engine.PositionError)); err != nil && !over {
			return nil, false, err
		}
	}
	input = &event{kind: kindAnswer}
	for _, a := range fresh {
		if hasAnswer(known, a.StepID) {
			continue // it was given twice
		}
		known = append(known, a)
		input.Answers = append(input.Answers, a)
		i := slices.IndexFunc(questions, func(q steps.Step) bool { return q.ID == a.StepID })
		input.Given = append(input.Given, tasks.Given{Number: r.number(i), Sum: tasks.Sum(a)})
	}
	_, left := open(questions, known, engine.UnpackFeatures(r.Begun.Client))
	return input, len(left) == 0 || over, nil
}

// number is that of the ith open question among all that the saga has asked, from 1 on.
func (r *row) number(i int) uint64 { return r.Stand.Asked - uint64(len(r.Stand.Questions)-i-1) }

// Cancel implements [tasks.Viewer].
func (c *Core) Cancel(ctx context.Context, principal, id string) (*tasks.Task, error) {
	return c.viewed(c.input(ctx, func() (*row, error) { return c.owned(ctx, principal, id) }, cancelInput))
}

// EndSession implements [tasks.Viewer].
func (c *Core) EndSession(ctx context.Context, principal, session string) error {
	filter := store.Filter{Audience: c.rows.audience, Owner: c.rows.owner(principal, session), Mode: store.ModeCall}
	for call, err := range c.rows.list(ctx, filter, store.Cursor{}, pageSize) {
		if err == nil && !call.Status.Over() {
			_, err = c.input(ctx, c.loading(ctx, call.ID), cancelInput)
		}
		if errors.Is(err, ErrUnreadable) {
			err = c.forgets(ctx, call.ID, err)
		}
		if err != nil && !errors.Is(err, tasks.ErrNotFound) {
			return c.report(ctx, "task", err)
		}
	}
	return nil
}

// cancelInput is what a client writes that wants a task to end; nil if that has no use.
func cancelInput(r *row) (input *event, run bool, err error) {
	if r.Status.Over() || r.Cancelled || r.Final || r.Undoing != nil {
		return nil, false, nil
	}
	return &event{kind: kindCancel}, true, nil
}

// Renew implements [tasks.Viewer].
func (c *Core) Renew(ctx context.Context, principal, id string, patience time.Duration, change func(json.RawMessage) json.RawMessage) (*tasks.Task, error) {
	r, err := c.find(ctx, principal, id)
	if err != nil {
		return nil, err
	}
	return c.viewed(c.renew(ctx, r.ID, patience, change))
}

func (c *Core) renew(ctx context.Context, id store.ID, patience time.Duration, change func(json.RawMessage) json.RawMessage) (*row, error) {
	return c.input(ctx, c.loading(ctx, id), func(r *row) (*event, bool, error) {
		input := &event{kind: kindRenew}
		changed := false
		if change != nil {
			if note := change(bytes.Clone(r.Note)); !bytes.Equal(note, r.Note) {
				input.Note, changed = note, true
			}
		}
		// What was renewed just now need not be written again, however often it is asked for.
		until, soon := r.now().Add(patience), patience/16
		switch {
		case r.Status.Over() && r.Until.After(r.now()):
			return nil, false, nil // it is just being undone, and what is to be undone is kept for longer
		case r.Status.Over() && r.Times.Keep.Before(until.Add(-soon)):
			return &event{kind: kindKeep, body: body{Until: until, Note: input.Note}}, false, nil
		case !r.Status.Over() && !r.Times.Wanted.IsZero() && r.Times.Wanted.Before(until.Add(-soon)):
			input.Until, changed = until, true
		}
		if !changed {
			return nil, false, nil
		}
		return input, false, nil
	})
}

func (c *Core) viewed(r *row, err error) (*tasks.Task, error) {
	if err != nil {
		return nil, c.report(context.Background(), "task", err)
	}
	return c.view(r)
}

// Callers who cannot be distinguished share an account, and one of them could fill it with tasks that cost nothing,
// as they sleep or ask. So those that are begun when it is half full end when no client looks at them for a while.

// crowdPatience is how long such a task lives after a client has looked at it, at least.
const crowdPatience = 100 * time.Second

func patienceOfCrowd(r *row) time.Duration { return max(crowdPatience, 3*r.Times.Poll) }

// looked notes that a client has looked at a task, if it was begun when its account was half full. Calls have a
// patience of their own.
func (c *Core) looked(ctx context.Context, r *row) {
	crowded := r.Mode == store.ModeTask && !r.Times.Wanted.IsZero() && !r.Status.Over() && !r.Cancelled && r.Undoing == nil
	if patience := patienceOfCrowd(r); crowded && r.Times.Wanted.Sub(r.now()) < patience-patience/16 {
		_, _ = c.renew(ctx, r.ID, patience, nil) // or the next look does
	}
}
