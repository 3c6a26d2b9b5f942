package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
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
	// Held: nobody can take this turn again, as its position does not leave the
	// caller. If the turn breaks off, the saga's effects are undone at once, and the
	// error is an *[UndoneError].
	Held bool
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
	// Held: nobody can take this turn again, as its position does not leave the
	// caller. If the turn breaks off, the saga's effects are undone at once, and the
	// error is an *[UndoneError].
	Held bool
}

// Outcome is how a turn ended: either suspended, with Steps and Position, or
// finished, with Result.
type Outcome struct {
	// Steps are what the client is asked for.
	Steps []steps.Step
	// Position is where the saga goes on when the answers come.
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
	// the tool failed with [Failf].
	Disclosed bool
}

// Start runs the first turn. It fails with a *[StepFailure] when the tool's code
// panicked, and with an *[UnsupportedError] when the client lacks what the tool
// asks for; arguments that do not fit the tool's schema, and errors that the
// tool's code returned, are an Outcome with a Result. Prompts and resources, whose
// results cannot say that they are errors, fail with an *[ArgumentsError] or a
// *[ToolError] instead.
func (t *Program) Start(ctx context.Context, call Call) (*Outcome, error) {
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
	pos := &Position{ID: call.ID, Tool: t.Name, Revision: t.Revision}
	pos.args = args
	if t.MaxAge > 0 {
		pos.Deadline = call.Now.Add(t.MaxAge)
	}
	tc := &Turn{Context: ctx, program: t, id: call.ID, now: call.Now, client: call.Client, notify: call.Notifier, held: call.Held, written: t.Revision, log: new(effectLog)}
	return t.turn(tc, pos, StartStep)
}

// Resume runs a later turn of the saga that stands at pos, which is not
// changed. It fails with an *[AnswerError] when the answers are not acceptable
// (nothing is lost, the position is still good), with a *[PositionError] when
// the position is not one of this tool, and otherwise as [Program.Start] does.
func (t *Program) Resume(ctx context.Context, pos *Position, r Resumption) (*Outcome, error) {
	return t.resume(ctx, pos, r, false)
}

// resume runs a turn; if it is to be undone, only up to an irreversible effect.
func (t *Program) resume(ctx context.Context, pos *Position, r Resumption, toUndo bool) (*Outcome, error) {
	if err := t.current(pos); err != nil {
		return nil, &PositionError{t.Name, err}
	}
	now := *pos
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
		step, open, outcome, err := t.settle(ctx, &now, &now.pending[i], fresh[i])
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
	tc := t.resumed(ctx, &now, r)
	if err := t.readable(tc.log); err != nil {
		return nil, &PositionError{t.Name, err}
	}
	tc.log.stopAtFinal = toUndo
	return t.turn(tc, &now, now.next)
}

// resumed is what a turn knows whose steps are all answered.
func (t *Program) resumed(ctx context.Context, pos *Position, r Resumption) *Turn {
	tc := &Turn{
		Context: ctx, program: t, id: pos.ID, now: r.Now, client: r.Client, notify: r.Notifier, held: r.Held,
		written: pos.Revision, log: t.logOf(pos),
		answers: make([]turnAnswer, len(pos.pending)),
	}
	for i := range pos.pending {
		p := &pos.pending[i]
		tc.answers[i] = turnAnswer{p.answer.answer(p.id), p.digest}
	}
	return tc
}

// settle decides what becomes of a pending step: nothing more (its answer is
// good), the step to ask (again) if it is open, or the end of the saga.
func (t *Program) settle(ctx context.Context, pos *Position, p *pendingStep, fresh bool) (step steps.Step, open bool, end *Outcome, err error) {
	q := t.question(p.id)
	if q == nil {
		return step, false, nil, &PositionError{t.Name, fmt.Errorf("there is no question %q", p.id)}
	}
	step, reworded, err := p.step(t, q)
	if err != nil {
		return step, false, nil, &PositionError{t.Name, fmt.Errorf("question %q: %w", p.id, err)}
	}
	switch {
	case reworded:
		// The tool asks something else now than the user answered, or would.
		p.digest = t.digest(&step)
	case p.answer == nil:
		return step, true, nil, nil
	case !fresh || p.answer.failed:
		return step, false, nil, nil
	default:
		invalid, err := check(q, step, p.answer.raw)
		if err != nil || invalid == nil {
			return step, false, nil, err
		}
		if p.refused++; p.refused >= t.maxAttempts {
			text := fmt.Sprintf("Stopped: %q was answered %d times without a valid answer; the last time: %s", p.id, p.refused, invalid.Reason)
			undo, err := t.compensate(ctx, pos.ID, t.logOf(pos))
			if err != nil {
				return step, false, nil, err
			}
			if t.Kind != KindTool {
				return step, false, nil, &ToolError{Text: undo.appendTo(text), Err: undo.err(), Disclosed: true}
			}
			out := &Outcome{Result: errorResult(text)}
			out.addUndo(undo)
			return step, false, out, nil
		}
		if step, err = step.Again(invalid.Reason); err != nil {
			return step, false, nil, &PositionError{t.Name, err}
		}
		p.kind, p.needs, p.params = step.Kind, step.Needs, step.Params
	}
	if err := pos.retire(p); err != nil {
		return step, false, nil, err
	}
	step.ID = p.stepID()
	return step, true, nil, nil
}

// step rebuilds the step that was asked. reworded reports that the question, as
// declared now, is not the one that was asked.
func (p *pendingStep) step(t *Program, q steps.Question) (s steps.Step, reworded bool, err error) {
	if p.params != nil {
		return steps.Step{ID: p.stepID(), Kind: p.kind, Needs: p.needs, Params: p.params, Varied: true}, false, nil
	}
	s, err = q.Step()
	s.ID = p.stepID()
	return s, t.digest(&s) != p.digest, err
}

// keep remembers a step, as briefly as possible.
func (p *pendingStep) keep(t *Program, s *steps.Step) {
	p.digest = t.digest(s)
	if s.Varied {
		p.kind, p.needs, p.params = s.Kind, s.Needs, s.Params
	}
}

// retire remembers the answer of a question that is asked again, and gives the
// question a new id.
func (p *Position) retire(pending *pendingStep) error {
	if pending.answer != nil {
		f, err := fingerprintOf(p.ID, pending.answer.answer(pending.stepID()))
		if err != nil {
			return &AnswerError{pending.stepID(), err.Error()}
		}
		p.seen = append(p.seen, f)
		pending.answer = nil
	}
	pending.repeat++
	return nil
}

// turn runs the tool's code and turns its end into an outcome.
func (t *Program) turn(tc *Turn, pos *Position, step string) (*Outcome, error) {
	ended, err := t.run(tc, pos, step)
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
		return nil, &StepFailure{t.Name, step, err}
	}
	if out.Result != nil && out.Result.IsError {
		undo, err := t.compensate(tc, tc.id, tc.log)
		if err != nil {
			return nil, t.unsettled(tc, err)
		}
		out.addUndo(undo)
	}
	return &out, nil
}

// run calls the program. Besides the step functions, an encoding, an upgrade or a method
// of a type may panic.
func (t *Program) run(tc *Turn, pos *Position, step string) (ended Ended, err error) {
	defer func() {
		if v := recover(); v != nil {
			ended, err = Ended{}, &StepFailure{t.Name, step, &PanicError{Value: v, Stack: debug.Stack()}}
		}
	}()
	return t.code.Run(tc, step, pos.args, pos.kept(), pos.secrets)
}

// suspend makes the next position of the one whose answers were just used. That is
// the turn's own.
func (t *Program) suspend(pos *Position, r Ended, log *effectLog) (*Outcome, error) {
	for i := range pos.pending {
		p := &pos.pending[i]
		f, err := fingerprintOf(pos.ID, p.answer.answer(p.stepID()))
		if err != nil {
			return nil, &AnswerError{p.stepID(), err.Error()}
		}
		pos.seen = append(pos.seen, f)
	}
	answered := pos.pending
	pos.Turn++
	pos.Tool, pos.Revision, pos.secrets = t.Name, t.Revision, r.Secrets
	pos.body = body{
		next: r.Asked.Next, args: pos.args, record: r.Record, state: r.State, seen: pos.seen, log: log,
		pending: make([]pendingStep, len(r.Asked.Steps)),
	}
	out := &Outcome{Steps: r.Asked.Steps, Position: pos, Reworded: r.Reworded}
	for i := range out.Steps {
		step, p := &out.Steps[i], &pos.pending[i]
		p.id, p.repeat = step.ID, again(answered, step.ID)
		p.keep(t, step)
		for pos.used(p.stepID()) {
			p.repeat++
		}
		step.ID = p.stepID()
	}
	return out, nil
}

// again returns how often a question has been asked at least, if it was asked just
// now: so often that the search for an id not used before need not begin at none.
func again(answered []pendingStep, id string) int {
	for i := range answered {
		if answered[i].id == id {
			return answered[i].repeat + 1
		}
	}
	return 0
}

// used reports whether an answer with that id was taken in an earlier turn.
func (p *Position) used(stepID string) bool {
	if len(p.seen) == 0 {
		return false
	}
	tag := stepTag(p.ID, stepID)
	return slices.ContainsFunc(p.seen, func(f fingerprint) bool { return f.step() == tag })
}

// hidden is all that a caller learns of a failure that is not for callers.
const hidden = "The tool failed. Its operator can find the reason in the log under the saga %x."

// failed turns an error of the tool's code into a result, unless the code broke
// (a panic), the position is at fault, or the turn was stopped from outside: the
// saga has then not ended, and the same turn can be tried again.
func (t *Program) failed(tc *Turn, err error) (*Outcome, error) {
	var panicked *PanicError
	var position *PositionError
	var unsupported *UnsupportedError
	if errors.As(err, &panicked) || errors.As(err, &position) || errors.As(err, &unsupported) || tc.Err() != nil {
		if tc.held {
			undo, unsettled := t.compensate(tc, tc.id, tc.log)
			if unsettled != nil {
				return nil, t.unsettled(tc, errors.Join(unsettled, err))
			}
			return nil, &UndoneError{err, undo}
		}
		return nil, err
	}
	var unknown *UnknownError
	if errors.As(err, &unknown) && t.final(tc.log) != "" {
		// Neither back nor at the end: the rest is still to be done.
		return nil, t.unsettled(tc, &UnsettledError{t.Name, unknown.Effect, err})
	}
	text, disclosed := explain(err)
	if !disclosed {
		text = fmt.Sprintf(hidden, tc.id)
	}
	if why := (*ToolError)(nil); errors.As(err, &why) && why.Err != nil {
		disclosed = false // not the cause
	}
	undo, unsettled := t.compensate(tc, tc.id, tc.log)
	if unsettled != nil {
		return nil, t.unsettled(tc, errors.Join(unsettled, err))
	}
	if t.Kind != KindTool {
		if arguments := (*ArgumentsError)(nil); errors.As(err, &arguments) {
			return nil, arguments
		}
		if errors.Is(err, ErrNotFound) {
			return nil, err
		}
		return nil, &ToolError{Text: undo.appendTo(text), Err: errors.Join(err, undo.err()), Disclosed: disclosed}
	}
	out := &Outcome{Result: errorResult(text), Err: err, Disclosed: disclosed}
	out.addUndo(undo)
	return out, nil
}
