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
			err = c.rows.signal(ctx, r, *input)
		} else {
			next := r.clone()
			input.n, input.at = r.Head+1, r.now()
			next.fold(input)
			if err = c.apply(ctx, next, *input, run); err == nil {
				r = next
			}
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

// apply writes a row that no process holds, with an input that it has taken in. If the saga is to go on, it does so here,
// if this process has a slot, or needs none as a client waits for it here.
func (c *Core) apply(ctx context.Context, r *row, input event, run bool) error {
	r.Fence++
	var slot *share
	var live context.Context
	here := false
	if run {
		live, here = c.worker.serves()
		if program, _ := c.Turns.ProgramOf(r.Tool, r.Revision); program == nil {
			here = false // only newer servers go on with it
		}
		if here && r.Mode == store.ModeTask {
			slot = &share{r.Principal, r.Tool}
			here = c.worker.slots.reserve(slot)
		}
		r.Wake = dueAt(r.now())
		if r.Status == store.Waiting {
			r.Status = store.Working
		}
	} else if !r.Cancelled && r.Undoing == nil { // it may be over later than it was to be
		switch r.Status {
		case store.Waiting:
			r.Wake = waitsUntil(r)
		case store.Sleeping:
			r.Wake = sleepsUntil(r)
		}
	}
	doubt, rested, t := uncertain(r), atRest(r), c.term()
	r.Running.Doubt = doubt
	r.Running.Tries += r.Record.Tries
	if r.Running.Held = here; here {
		r.Running.Tries++
	} else {
		t.takes = 0
	}
	r.Keep = keepUntil(r)
	err := c.rows.write(ctx, r, t.takes, 0, input)
	if err == nil && here {
		h := c.newHold(live, r.clone(), t)
		h.doubt, h.fromRest, h.tries, h.share = doubt, rested, r.Running.Tries, slot
		if c.worker.enter(h) {
			go h.run()
			return nil
		}
	}
	if here && slot != nil {
		c.worker.slots.release(slot)
	}
	if err == nil && run {
		c.worker.rests(r.Wake)
	}
	return err
}

// atRest reports whether what has held a row last has put it to rest.
func atRest(r *row) bool { return !r.Running.Held && r.Record.Tries == 0 }

// uncertain reports whether others may have begun to go on with a row that nothing holds now, and not
// have written what they did.
func uncertain(r *row) bool { return r.Running.Doubt || !atRest(r) }

// Answer implements [tasks.Viewer].
func (c *Core) Answer(ctx context.Context, principal, id string, answers []steps.Answer) (*tasks.Task, error) {
	r, _, err := c.answer(ctx, principal, id, answers)
	if err != nil {
		return nil, err
	}
	return c.view(r)
}

// AnswerFound implements [tasks.Viewer].
func (c *Core) AnswerFound(ctx context.Context, principal string, t *tasks.Task, answers []steps.Answer) (*tasks.Task, error) {
	r, taken, err := c.answer(ctx, principal, t.ID, answers)
	if err != nil || taken {
		return nil, err
	}
	return c.view(r)
}

// answer gives a saga answers. It returns its row as it is then, and whether any was taken.
func (c *Core) answer(ctx context.Context, principal, id string, answers []steps.Answer) (r *row, taken bool, err error) {
	r, err = c.input(ctx, func() (*row, error) { return c.find(ctx, principal, id) }, func(r *row) (*event, bool, error) {
		input, last, err := c.fresh(r, answers)
		taken = input != nil
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
	questions, known := stepsOf(r.Stand.Questions), answersOf(r.Stand.Answers)
	client := engine.UnpackFeatures(r.Begun.Client)
	_, theirs := open(questions, known, client)
	fresh := answersTo(theirs, answers)
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
		if len(answersTo([]steps.Step{{ID: a.StepID}}, known)) > 0 {
			continue // it was given twice
		}
		known = append(known, a)
		input.Answers = append(input.Answers, keptAnswers([]steps.Answer{a})...)
		i := slices.IndexFunc(questions, func(q steps.Step) bool { return q.ID == a.StepID })
		input.Given = append(input.Given, given{r.number(i), tasks.Sum(a)})
	}
	_, left := open(questions, known, client)
	return input, len(left) == 0 || over, nil
}

// number is that of the ith open question among all that the saga has asked, from 1 on.
func (r *row) number(i int) uint64 {
	return r.Stand.Asked - uint64(len(r.Stand.Questions)-i-1)
}

// Cancel implements [tasks.Viewer].
func (c *Core) Cancel(ctx context.Context, principal, id string) (*tasks.Task, error) {
	return c.viewed(c.input(ctx, func() (*row, error) { return c.find(ctx, principal, id) }, cancelInput))
}

// cancelInput is what a client writes that wants a task to end; nil if that has no use.
func cancelInput(r *row) (input *event, run bool, err error) {
	if r.Status.Over() || r.Cancelled || r.Final || r.Undoing != nil {
		return nil, false, nil
	}
	return &event{kind: kindCancel}, true, nil
}

// Extend implements [tasks.Viewer].
func (c *Core) Extend(ctx context.Context, principal, id string, until time.Time) error {
	_, err := c.input(ctx, func() (*row, error) { return c.find(ctx, principal, id) }, func(r *row) (*event, bool, error) {
		if !until.After(r.Times.Keep) {
			return nil, false, nil
		}
		return &event{kind: kindKeep, body: body{Until: until.UTC()}}, false, nil
	})
	return err
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
	find := func() (*row, error) {
		r, err := c.rows.load(ctx, id)
		if err == nil && r == nil {
			err = tasks.ErrNotFound
		}
		return r, err
	}
	return c.input(ctx, find, func(r *row) (*event, bool, error) {
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

// viewed shows a row, if there was no error.
func (c *Core) viewed(r *row, err error) (*tasks.Task, error) {
	if err != nil {
		return nil, c.report(context.Background(), "task", err)
	}
	return c.view(r)
}
