package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Call is the first turn of a saga.
type Call struct {
	// ID identifies the saga. It must be new and should not be guessable.
	ID [16]byte
	// Now is the time of this turn.
	Now time.Time
	// Client is what the client can do.
	Client steps.Features
	// Arguments are the tool's arguments, a JSON object; nil means none.
	Arguments json.RawMessage
	// Notifier gets what the tool tells while it works; nil discards it.
	Notifier Notifier
	// Held: this turn cannot be taken again, as its position does not leave the
	// caller. If the turn breaks off, the saga's effects are undone at once, and the
	// error is an *[UndoneError].
	Held bool
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
	// Undoing is as Acting, and called before the turn undoes anything. It is called once more, with
	// Behind, if something else is to be undone though the first could not be, and may be final.
	Undoing func(context.Context, Undoing) error
	// Checkpoint gets the position in the middle of the turn: when a machine continues in
	// another step function, when it is known how an effect has ended, and before the effects of
	// a saga that has failed are undone. [Program.Resume] without answers continues from there as
	// this turn would have: what had been performed is not performed again. If Checkpoint fails
	// nothing more is done, and the turn ends with a *[HaltedError]. The context may have ended
	// already. The position is not to be kept, but what it encodes to. nil is not called.
	Checkpoint func(context.Context, *Position) error
	// Limit bounds the turn's code besides the deadline of the context, but neither the undo nor what
	// Acting and Checkpoint take; zero does not. Code that ignores both is left alone a moment later.
	Limit time.Duration
	// log is where the turn's effects will be; nil is a new one.
	log *effectLog
}

// Undoing is what a turn is about to undo.
type Undoing struct {
	// Position knows of all that is to be undone. It can be cancelled, and nothing else.
	Position *Position
	// Outcome, or Err for a prompt or a resource, is how the turn has ended, but for what is
	// said of the undo; nil if it broke off.
	Outcome *Outcome
	Err     error
	// Behind: it is to be undone though what was done after it could not be. Should that turn out
	// to be final, the saga cannot go on all the same.
	Behind bool
}

// Resumption is every later turn of a saga.
type Resumption struct {
	// Now is the time of this turn.
	Now time.Time
	// Client is what the client can do in this turn.
	Client steps.Features
	// Answers are what the client brings: those that are waited for are used,
	// earlier ones must be what they were, unknown ones are ignored.
	Answers []steps.Answer
	// Arguments replace those of the position, which a dialect whose client sends
	// them in every turn need not keep ([Position.DropArguments]). The caller
	// makes sure that they are the same.
	Arguments json.RawMessage
	// Notifier gets what the tool tells while it works; nil discards it.
	Notifier Notifier
	// Held, Lost, Acting, Undoing, Checkpoint and Limit are as in [Call].
	Held, Lost bool
	Acting     func(context.Context) error
	Undoing    func(context.Context, Undoing) error
	Checkpoint func(context.Context, *Position) error
	Limit      time.Duration
	// Latest: the saga did not go on from this position, which only who remembers all
	// turns can know. What is said of a cancelled saga depends on it.
	Latest bool
	// Why is what is said of a cancelled saga, if not that it was cancelled.
	Why string
	// GoesOn is asked by [Program.Cancel] how the process that took a turn that ended so would have gone
	// on without the client; it returns nil if not. nil is never.
	GoesOn func(context.Context, *Outcome) (*Resumption, error)
	// toUndo: the saga is being cancelled, so the turn stops before an irreversible
	// effect that has an Undo; inner: and before one that has none. logged gets the log of the
	// turn's effects.
	toUndo, inner bool
	logged        func(*effectLog)
}

// Outcome is how a turn ended: either suspended, with Position and perhaps Steps, or
// finished, with Result.
type Outcome struct {
	// Steps are what the client is asked for. A turn that ends without any is a pause.
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
func (t *Program) Start(ctx context.Context, call Call) (*Outcome, error) {
	if t.hanging.Load() >= maxHanging {
		return nil, ErrHanging
	}
	args := call.Arguments
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if err := t.input.Validate(args); err != nil {
		if t.Kind != KindTool {
			return nil, &ArgumentsError{t.Name, err}
		}
		return &Outcome{Result: errorResult(fmt.Sprintf("The arguments do not fit the tool %q: %v", t.Name, err))}, nil
	}
	pos := &Position{ID: call.ID, Tool: t.Name, Revision: t.Revision, body: body{next: StartStep, args: args}}
	if t.MaxAge > 0 {
		pos.Deadline = call.Now.Add(t.MaxAge)
	}
	tc := &Turn{
		Context: ctx, mu: make(lock, 1), ID: call.ID, Now: call.Now, Written: t.Revision,
		program: t, client: call.Client, notify: call.Notifier, held: call.Held, lost: call.Lost,
		acting: call.Acting, undoing: call.Undoing, limit: call.Limit, log: call.log,
	}
	if tc.log == nil {
		tc.log = new(effectLog)
	}
	if call.Checkpoint != nil {
		tc.saveTo(call.Checkpoint, pos)
	}
	return t.turn(tc, pos)
}

// Resume runs a later turn of the saga that stands at pos, which is not
// changed. It fails with an *[AnswerError] when the answers are not acceptable, with an
// *[EarlyError] before the position's Wake (nothing is lost, the position is still good),
// with a *[PositionError] when the position is not one of this tool, and otherwise as
// [Program.Start] does.
func (t *Program) Resume(ctx context.Context, pos *Position, r Resumption) (*Outcome, error) {
	if err := t.current(pos); err != nil {
		return nil, &PositionError{t.Name, err}
	}
	if t.hanging.Load() >= maxHanging {
		return nil, ErrHanging
	}
	if r.Now.Before(pos.Wake) {
		return nil, &EarlyError{At: pos.Wake}
	}
	now := *pos
	now.Wake, now.Parts, now.running = time.Time{}, nil, nil
	now.pending = slices.Clone(pos.pending)
	now.seen = slices.Clip(pos.seen)
	if r.Arguments != nil {
		now.args = r.Arguments
	}
	fresh, err := now.accept(r.Answers)
	if err != nil {
		return nil, err
	}
	var ask []steps.Step
	var reworded []string
	for i := range now.pending {
		words := now.pending[i].digest
		step, open, outcome, err := t.settle(ctx, &now, &now.pending[i], fresh[i], &r)
		if outcome != nil || err != nil {
			return outcome, err
		}
		if !open {
			continue
		}
		if !r.Client.Has(step.Needs) {
			return nil, &UnsupportedError{Tool: t.Name, StepID: step.ID, Needs: step.Needs}
		}
		ask = append(ask, step)
		if now.pending[i].digest != words {
			reworded = append(reworded, now.pending[i].id)
		}
	}
	if len(ask) > 0 {
		now.Turn++
		return &Outcome{Steps: ask, Position: &now, Reworded: reworded}, nil
	}
	tc := &Turn{
		Context: ctx, mu: make(lock, 1), ID: now.ID, Now: r.Now, Written: now.Revision,
		program: t, client: r.Client, notify: r.Notifier, held: r.Held, lost: r.Lost,
		acting: r.Acting, undoing: r.Undoing, limit: r.Limit, log: new(effectLog),
		answers: make([]turnAnswer, len(now.pending)),
	}
	if now.log != nil {
		tc.log = t.logOf(&now)
	}
	if pos.running != nil {
		tc.Now = pos.running.now
		if pos.running.undo {
			return t.goOnUndoing(tc, pos)
		}
	}
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
	tc.log.stopAtFinal, tc.log.stopAtAll = r.toUndo, r.inner
	if r.logged != nil {
		r.logged(tc.log)
	}
	if r.Checkpoint != nil {
		tc.saveTo(r.Checkpoint, &now)
	}
	return t.turn(tc, &now)
}

// turn runs the tool's code and turns its end into an outcome. If the turn was halted, that
// is its end whatever the code made of it.
func (t *Program) turn(tc *Turn, pos *Position) (end *Outcome, err error) {
	defer func() {
		if tc.halted != nil {
			end, err = nil, tc.halted
		}
	}()
	if tc.limit > 0 {
		tc.budget = newBudget(tc.Context, tc.limit)
		defer tc.budget.close()
		tc.Context, tc.outer = tc.budget, tc.Context
	}
	tc, ended, err := t.run(tc, pos)
	// Code that panics does so again, and never gets further: waiting would not help.
	// And what is undone up to a checkpoint has that effect in its log, for its Undo to find out.
	undoing := tc.saves != nil && tc.log.stopAtFinal
	if tc.lost && !undoing && !errors.As(err, new(*PanicError)) {
		if effect := tc.log.unknown(); effect != nil {
			return nil, t.unsettled(tc, &UnsettledError{t.Name, effect.name, errors.Join(effect.Failure(), err)})
		}
	}
	if tc.log.stopped != nil {
		return &Outcome{Position: &Position{ID: pos.ID, body: body{log: tc.log}}}, nil
	}
	if err != nil {
		return t.failed(tc, err)
	}
	if ended.Asked != nil {
		return t.suspend(pos, ended, tc.log)
	}
	out := ended.Outcome
	if err := t.checkEnd(&out); err != nil {
		return t.failed(tc, &StepFailure{t.Name, pos.next, err}) // and would be no end the next time
	}
	if out.Result != nil && out.Result.IsError {
		return t.endBadly(tc, Undoing{Outcome: &out})
	}
	return &out, nil
}

// run calls the program's code. It returns the turn with which it continues: if the code hangs, the other
// one is left to that. What ends after the turn's time counts for nothing, however it ends.
func (t *Program) run(tc *Turn, pos *Position) (*Turn, Ended, error) {
	tc.At(pos.next)
	args, kept, secrets := pos.args, pos.kept, pos.secrets
	ended, err := callWithin(tc, t, &t.hanging, tc.doing, func() (Ended, error) { return t.runCode(tc, args, kept, secrets) })
	switch failed := err.(type) {
	case nil:
		if late := tc.Err(); errors.Is(late, context.DeadlineExceeded) {
			return tc, Ended{}, &StepFailure{t.Name, tc.Step, late}
		}
		return tc, ended, nil
	case *HangError:
		tc = tc.leave()
		return tc, Ended{}, &StepFailure{t.Name, tc.Step, failed}
	case *PanicError:
		return tc, Ended{}, &StepFailure{t.Name, tc.Step, failed}
	}
	return tc, Ended{}, err
}

// runCode calls the program's code, which may panic, as may an encoding, an upgrade or a method of a
// type.
func (t *Program) runCode(tc *Turn, args json.RawMessage, kept, secrets []byte) (ended Ended, err error) {
	defer func() {
		if misused := tc.close(); misused != nil && err == nil {
			ended, err = Ended{}, misused
		}
	}()
	tc.call(func() { ended, err = t.code.Run(tc, args, kept, secrets) })
	return ended, err
}

// suspend makes the next position of the one whose answers were just used. That is
// the turn's own.
func (t *Program) suspend(pos *Position, r Ended, log *effectLog) (*Outcome, error) {
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
		next: r.Asked.Next, args: pos.args, kept: r.Kept, apart: r.Apart, seen: pos.seen, log: log,
		pending: make([]pendingStep, len(r.Asked.Steps)),
	}
	out := &Outcome{Steps: r.Asked.Steps, Yielded: r.Asked.Yielded, Position: pos, Reworded: r.Reworded}
	for i := range out.Steps {
		step, p := &out.Steps[i], &pos.pending[i]
		p.id, p.digest = step.ID, t.digest(step)
		if step.Varied {
			p.kind, p.needs, p.params = step.Kind, step.Needs, step.Params
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
	return out, nil
}
