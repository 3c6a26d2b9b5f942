package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Call is what a turn is taken with: the first by [Program.Start], later ones by [Program.Resume].
type Call struct {
	// ID identifies the saga in its first turn. It must be new and should not be guessable. Later the position
	// has it.
	ID [16]byte
	// Now is the time of this turn, the same if it is taken again. Present is the real one, from which it counts how long
	// it sleeps, and how long others may take to answer what is asked; zero is Now.
	Now, Present time.Time
	// Client is what the client can do in this turn.
	Client steps.Features
	// Arguments are the tool's, a JSON object; nil means none. In later turns they replace those of the position,
	// which a dialect whose client sends them in every turn need not keep ([Position.DropArguments]). The caller
	// makes sure that they are the same.
	Arguments json.RawMessage
	// Answers are what the client brings in a later turn: those that are waited for are used,
	// earlier ones must be what they were, unknown ones are ignored.
	Answers []steps.Answer
	// Events are the answers to events that are waited for, which no client gives.
	Events []steps.Answer
	// Secret is what the addresses of events are made of, if the position has none yet: a turn that is taken again
	// needs the same. Nil draws one. Mark is the ledger's secret by which it knows the handles that were made for it.
	// Pages is where others answer what the program asks them.
	Secret, Mark []byte
	Pages        string
	// Notifier gets what the tool tells while it works; nil discards it.
	Notifier Notifier
	// Held: this turn cannot be taken again, as its position does not leave the
	// caller. If the turn breaks off, the saga's effects are undone at once, and the
	// error is an *[UndoneError].
	Held bool
	// Unwanted is the cause with which the context ends of a turn that then is as if it were Held: nobody wants
	// it to be taken again. nil is none.
	Unwanted error
	// Lost: this turn was begun before by a process that is gone. What that did is found by
	// performing it again with the same keys. As long as it is not known what became of one
	// effect, neither is what was done after it, so the turn does not end then, whatever its
	// code makes of it: it fails with an *[UnsettledError]. From its first Checkpoint on the turn
	// is like any other, as the process that began it before has not come so far.
	Lost bool
	// Acting is called before each effect that the turn performs, and before it finds out
	// whether an irreversible one was performed; nil is not called. If it fails that is not done,
	// nor anything after it, and the turn ends with a *[HaltedError].
	Acting func(context.Context) error
	// Final is called instead of Acting before the n-th effect since the last Checkpoint that is irreversible and has no
	// Undo, n from 1. Who remembers that tells [Program.Cancel] by Finals how many there were: to find what the
	// turn had done, no other such effect is performed. nil is not called, and any is.
	Final  func(ctx context.Context, n int) error
	Finals int
	// Begins is called after these two with a position that knows of the effect as well, and can only be cancelled: should
	// this process die, the driver that remembers that can undo the effect though no process comes further. nil is not called.
	Begins func(context.Context, *Position) error
	// Undoing is as Acting, and called before the turn undoes anything. It is called once more, with
	// Behind, if something else is to be undone though the first could not be, and may be final.
	Undoing func(context.Context, Undoing) error
	// Checkpoint gets the position in the middle of the turn: when a machine continues in
	// another step function, and when it is known how an effect has ended. [Program.Resume] without answers
	// continues from there as this turn would have: what had been performed is not performed again. If
	// Checkpoint fails nothing more is done, and the turn ends with a *[HaltedError]. The context may have
	// ended already. The position is not to be kept, but what it encodes to. nil is not called.
	Checkpoint func(context.Context, *Position) error
	// Did gets what the saga has begun, if the turn ends the saga or with an error. nil is not called.
	Did func(*Position)
	// Limit bounds the turn's code besides the deadline of the context, but neither the undo nor what
	// Acting and Checkpoint take; zero does not. Code that ignores both is left alone a moment later.
	Limit time.Duration

	// Latest: the saga did not go on from this position, which only who remembers all
	// turns can know. What is said of a cancelled saga depends on it.
	Latest bool
	// Why is what is said of a cancelled saga, if not that it was cancelled.
	Why string
	// Begun knows of all that the turn had begun that is to be undone, and [Program.Cancel] need not run it to find
	// that; nil if it is not known.
	Begun *Position

	// again: the turn was begun before, perhaps by code that asks in other words.
	again bool
	// probe: the saga is being cancelled, and the turn is run only to find what an earlier one had done.
	probe *probe
}

// act is called before the turn does anything. If the driver of the saga does not want that, it fails.
func (c *Call) act(ctx context.Context) error {
	if c.Acting == nil {
		return nil
	}
	if err := c.Acting(ctx); err != nil {
		return &HaltedError{err}
	}
	return nil
}

// Undoing is what a turn is about to undo.
type Undoing struct {
	// Position knows of all that is to be undone. It can be cancelled, and nothing else.
	Position *Position
	// Outcome is how the turn has ended, but for what is said of the undo; nil if it broke off. Only tools have effects.
	Outcome *Outcome
	// Behind: it is to be undone though what was done after it could not be. Should that turn out
	// to be final, the saga cannot go on all the same.
	Behind bool
}

// Outcome is how a turn ended: either suspended, with Position and perhaps Steps, or
// finished, with Result.
type Outcome struct {
	// Steps are what the client is asked for. A turn that ends without any is a pause, unless its Position waits for
	// events.
	Steps []steps.Step
	// Yielded is the part of the result that a pause is for; nil if it is for none. It is
	// reported once: a saga that continues from Position does not tell it again.
	Yielded content.Blocks
	// Position is where the saga continues when the answers come, or at its Wake.
	Position *Position
	// Reworded are the questions among Steps that are asked anew because their words
	// changed while they waited: the tool is another version. If it is not, its words
	// depend on what may change between two turns.
	Reworded []string
	// Result is the tool's result. Failures that the caller may read are
	// results too, with IsError set.
	Result *content.Result
	// Messages is the result of a prompt.
	Messages *Messages
	// Contents is the result of a resource.
	Contents []content.ResourceContents
	// Err is the reason of a failure, for the log. The caller must not see it.
	Err error
	// Disclosed says that Result tells the caller all of Err: the user declined, say, or
	// the tool failed with saga.Failf.
	Disclosed bool
}

// Start runs the first turn. It fails with a *[StepFailure] when the tool's code
// panicked, and with an *[UnsupportedError] when the client lacks what the tool
// asks for; arguments that do not fit the tool's schema, and errors that the
// tool's code returned, are an Outcome with a Result. Prompts and resources, whose
// results cannot say that they are errors, fail with an *[ArgumentsError] or a
// *[ToolError] instead. With [ErrHanging] nothing was done.
func (t *Program) Start(ctx context.Context, c Call) (*Outcome, error) {
	if t.hanging.Load() >= maxHanging {
		return nil, ErrHanging
	}
	args := c.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if err := t.input.Validate(args); err != nil {
		if t.Kind != KindTool {
			return nil, &ArgumentsError{t.Name, err}
		}
		return &Outcome{Result: errorResult(fmt.Sprintf("The arguments do not fit the tool %q: %v", t.Name, err))}, nil
	}
	pos := &Position{ID: c.ID, Tool: t.Name, Revision: t.Revision, body: body{next: StartStep, args: args}}
	if t.MaxAge > 0 {
		pos.Deadline = c.Now.Add(t.MaxAge)
	}
	pos.withHandles(t, &c)
	return t.turn(t.newTurn(ctx, c, pos))
}

// Resume runs a later turn of the saga that stands at pos, which is not
// changed. It fails with an *[AnswerError] when the answers are not acceptable, with an
// *[EarlyError] before the position's Wake (nothing is lost, the position is still good),
// with a *[PositionError] when the position is not one of this tool, and otherwise as
// [Program.Start] does.
func (t *Program) Resume(ctx context.Context, pos *Position, c Call) (*Outcome, error) {
	if err := t.current(pos); err != nil {
		return nil, &PositionError{t.Name, err}
	}
	if t.hanging.Load() >= maxHanging {
		return nil, ErrHanging
	}
	if c.Now.Before(pos.Wake) {
		return nil, &EarlyError{At: pos.Wake}
	}
	c.ID, c.again = pos.ID, pos.running != nil || c.Lost || c.probe != nil
	now := *pos
	now.Wake, now.Parts, now.running = time.Time{}, nil, nil
	if c.Arguments != nil {
		now.args = c.Arguments
	}
	now.withHandles(t, &c)
	fresh, err := now.accept(c.Answers)
	if err != nil {
		return nil, err
	}
	now.happen(c.Events)
	waits := false
	var ask []steps.Step
	var reworded []string
	for i := range now.pending {
		words := now.pending[i].digest
		step, open, outcome, err := t.settle(ctx, &now, &now.pending[i], fresh[i], &c)
		if outcome != nil || err != nil {
			return outcome, err
		}
		if !open {
			continue
		}
		if !c.Client.Has(step.Needs) {
			return nil, &UnsupportedError{Tool: t.Name, StepID: step.ID, Needs: step.Needs}
		}
		if waits = true; step.Kind != steps.Outside {
			ask = append(ask, step)
		}
		if now.pending[i].digest != words {
			reworded = append(reworded, now.pending[i].id)
		}
	}
	if waits {
		now.Turn++
		return &Outcome{Steps: ask, Position: &now, Reworded: reworded}, nil
	}
	if pos.running != nil {
		c.Now, c.Present = *pos.running, cmp.Or(c.Present, c.Now)
	}
	tc := t.newTurn(ctx, c, &now)
	tc.answers = make([]turnAnswer, len(now.pending))
	for i := range now.pending {
		p := &now.pending[i]
		tc.answers[i] = turnAnswer{p.answer.answer(p.id), p.digest}
	}
	// What cannot be read is found out before any code runs: a saga must not learn half-way
	// that it could not be undone. What is not declared any more is for the undo to report.
	for _, record := range tc.log.records {
		if e := t.effects[record.name]; e != nil {
			if err := e.Readable(record); err != nil {
				return nil, &PositionError{t.Name, fmt.Errorf("effect %q: %w", record.name, err)}
			}
		}
	}
	return t.turn(tc)
}

// newTurn makes a turn from a position that is its own.
func (t *Program) newTurn(ctx context.Context, c Call, pos *Position) *Turn {
	c.Now = c.Now.Round(0).UTC() // as it is kept: its text may be in the input of an effect
	tc := &Turn{Context: ctx, Call: c, mu: make(lock, 1), Written: pos.Revision, program: t, pos: pos, log: t.logOf(pos)}
	if c.Checkpoint != nil {
		tc.saves = &saves{at: *pos}
		tc.saves.at.running = &tc.Now
	}
	return tc
}

// turn runs the tool's code and turns its end into an outcome. If the turn was halted, that
// is its end whatever the code made of it.
func (t *Program) turn(tc *Turn) (end *Outcome, err error) {
	pos := tc.pos
	defer func() {
		if tc.halted != nil {
			end, err = nil, tc.halted
		}
		if tc.Did != nil && (err != nil || end != nil && end.Position == nil) {
			tc.Did(t.toCancel(tc.ID, tc.log))
		}
	}()
	if tc.probe != nil {
		tc.probe.log = tc.log
	}
	if tc.Limit > 0 {
		tc.limit = newBudget(tc.Context, tc.Limit)
		defer tc.limit.close()
		tc.Context = tc.limit
	}
	if err = tc.dropped(); err == nil {
		if tc, err = t.run(tc); err == nil {
			err = cmp.Or(tc.refused, tc.unwanted())
		}
	}
	// Code that panics does so again, and never gets further: waiting would not help.
	// And what is undone up to a checkpoint has that effect in its log, for its Undo to find out.
	undoing := tc.saves != nil && tc.probe != nil
	if tc.Lost && !undoing && !errors.As(err, new(*PanicError)) {
		if effect := tc.unknown(); effect != nil {
			cause := effect.Failure(nil)
			if cause != nil && cause.Error() == "" { // its code was given up, or died with its server
				cause = errNoOutcome
			}
			return nil, t.unsettled(tc, &UnsettledError{t.Name, effect.name, errors.Join(cause, err)})
		}
	}
	if _, stopped := tc.latched.(*stoppedError); stopped {
		return &Outcome{Position: &Position{ID: pos.ID, body: body{log: *tc.log}}}, nil
	}
	if err != nil {
		return t.failed(tc, err)
	}
	if tc.end.Asked != nil {
		return t.suspend(pos, &tc.end, tc.log, tc.present())
	}
	out := tc.end.Outcome
	if err := t.checkEnd(&out); err != nil {
		return t.failed(tc, &StepFailure{t.Name, pos.next, err}) // and would be no end the next time
	}
	if out.Result != nil && out.Result.IsError {
		return t.endBadly(tc, &out)
	}
	return &out, nil
}

// run calls the program's code. It returns the turn with which it continues: if the code hangs, the other
// one is left to that. What ends after the turn's time counts for nothing, however it ends.
func (t *Program) run(tc *Turn) (*Turn, error) {
	tc.Step = tc.pos.next
	err := t.within(tc, &t.hanging, tc.doing, tc.run)
	switch err.(type) {
	case nil:
		if err = tc.Err(); !errors.Is(err, context.DeadlineExceeded) {
			return tc, nil
		}
	case *HangError:
		tc = tc.leave()
	case *PanicError:
	default:
		return tc, err
	}
	return tc, &StepFailure{t.Name, tc.Step, err}
}

// run calls the program's code, which may panic, as may an encoding, an upgrade or a method of a
// type.
func (tc *Turn) run() (err error) {
	defer func() {
		tc.mu.Lock()
		defer tc.mu.Unlock()
		if tc.over == nil {
			tc.over = errEnded
		}
		if err == nil {
			err = tc.guard.misused
		}
	}()
	tc.guard.way = int(called.Add(1)) % len(ways)
	return by[tc.guard.way](func() (err error) {
		tc.end, err = tc.program.Code.Run(tc, tc.pos.args, tc.pos.kept, tc.pos.secrets)
		return err
	})
}

// suspend makes the next position of the one whose answers were just used. That is
// the turn's own.
func (t *Program) suspend(pos *Position, r *Ended, log *effectLog, now time.Time) (*Outcome, error) {
	answered := pos.pending
	for i := range answered {
		p := &answered[i]
		id := p.stepID()
		f, err := fingerprintOf(stepTag(pos.ID, id), pos.ID, p.answer)
		if err != nil {
			return nil, &AnswerError{id, err.Error()}
		}
		pos.seen = append(pos.seen, f)
	}
	pos.Turn++
	pos.Tool, pos.Revision, pos.Wake, pos.secrets = t.Name, t.Revision, r.Asked.Wake, r.Secrets
	log.mine = 0
	pos.body = body{
		next: r.Asked.Next, args: pos.args, kept: r.Kept, apart: r.Apart, seen: pos.seen, log: *log,
		pending: make([]pendingStep, len(r.Asked.Steps)),
	}
	out := &Outcome{Steps: slices.Clone(r.Asked.Steps), Yielded: r.Asked.Yielded, Position: pos, Reworded: r.Reworded}
	for i := range out.Steps {
		step, p := &out.Steps[i], &pos.pending[i]
		p.id, p.digest = step.ID, digest(step.Params)
		if step.Varied {
			p.kind, p.needs, p.params = step.Kind, step.Needs, step.Params
		}
		if step.Kind == steps.Outside {
			p.until = now.Add(within(step)).Round(0).UTC()
		}
		// An id is never used twice. One that was asked just now tells from where to look.
		if last := slices.IndexFunc(answered, func(a pendingStep) bool { return a.id == p.id }); last >= 0 {
			p.repeat = answered[last].repeat + 1
		}
		for len(pos.seen) > 0 {
			tag := stepTag(pos.ID, p.stepID())
			if !slices.ContainsFunc(pos.seen, func(f fingerprint) bool { return [4]byte(f[:4]) == tag }) {
				break
			}
			p.repeat++
		}
		step.ID = p.stepID()
	}
	if pos.Awaits() { // which is nothing for the client
		out.Steps = slices.DeleteFunc(out.Steps, func(s steps.Step) bool { return s.Kind == steps.Outside })
	}
	return out, nil
}
