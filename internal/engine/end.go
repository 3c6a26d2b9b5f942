package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// hidden is all that a caller learns of a failure that is not for callers.
const hidden = "The tool failed. Its operator can find the reason in the log under the saga %x."

// failed turns an error of the tool's code into a result, unless the code broke
// (a panic), the position is at fault, or the turn was stopped from outside: the
// saga has then not ended, and the same turn can be tried again.
func (t *Program) failed(tc *Turn, err error) (*Outcome, error) {
	if why := context.Cause(tc); why != nil && !errors.Is(err, why) { // whatever the code says of it
		err = fmt.Errorf("%w: %w", err, why)
	}
	if errors.As(err, new(*PanicError)) || errors.As(err, new(*PositionError)) || errors.As(err, new(*UnsupportedError)) || tc.Err() != nil {
		// One that was lost is left to the next worker if this one stops.
		if tc.held() && !(tc.Lost && errors.Is(tc.Err(), context.Canceled)) {
			undo, unsettled := t.undoTurn(tc, nil)
			if unsettled != nil {
				return nil, t.unsettled(tc, errors.Join(unsettled, err))
			}
			return nil, &UndoneError{err, undo}
		}
		return nil, err
	}
	if unknown, ok := errors.AsType[*UnknownError](err); ok && t.final(tc.log) != "" {
		// Neither back nor at the end: the rest is still to be done.
		return nil, t.unsettled(tc, &UnsettledError{t.Name, unknown.Effect, err})
	}
	text, disclosed := explain(err)
	if !disclosed {
		text = fmt.Sprintf(hidden, tc.ID)
	}
	if why := (*ToolError)(nil); errors.As(err, &why) && why.Err != nil {
		disclosed = false // not the cause
	}
	var arguments *ArgumentsError
	switch {
	case t.Kind == KindTool:
		return t.endBadly(tc, &Outcome{Result: errorResult(text), Err: err, Disclosed: disclosed})
	case errors.As(err, &arguments):
		return nil, arguments
	case errors.Is(err, ErrNotFound):
		return nil, err
	}
	return nil, &ToolError{Text: text, Err: err, Disclosed: disclosed}
}

// held reports whether the turn is to be undone if it breaks off.
func (tc *Turn) held() bool {
	return tc.Held || tc.Unwanted != nil && errors.Is(context.Cause(tc), tc.Unwanted)
}

// ErrUnwanted is what causes wrap with which the context of a turn ends that no one hears of any more. It is a
// [context.Canceled].
var ErrUnwanted = fmt.Errorf("no one waits for it any more: %w", context.Canceled)

// dropped is why the turn begins nothing more, as its context was cancelled; nil if it continues. From what is final on,
// and for who finds out what was done, there is no other way.
func (tc *Turn) dropped() error {
	if tc.probe != nil || !errors.Is(tc.Err(), context.Canceled) || tc.program.final(tc.log) != "" {
		return nil
	}
	return context.Cause(tc)
}

// IsFinal reports whether a position knows of an irreversible effect that is done.
func (t *Program) IsFinal(p *Position) bool { return t.final(&p.log) != "" }

// unwanted is why the turn is undone though its code has ended well; nil if it is not: someone hears of it, or can take
// it again.
func (tc *Turn) unwanted() error {
	why := tc.dropped()
	if tc.held() && (why == context.Canceled || errors.Is(why, ErrUnwanted)) {
		return why
	}
	return nil
}

// endBadly undoes what a tool's saga did, which ends so.
func (t *Program) endBadly(tc *Turn, out *Outcome) (*Outcome, error) {
	undo, unsettled := t.undoTurn(tc, out)
	if unsettled != nil {
		return nil, t.unsettled(tc, errors.Join(unsettled, out.Err))
	}
	out.addUndo(undo)
	return out, nil
}

// checkEnd verifies that a turn's code ended in the way of its kind.
func (t *Program) checkEnd(out *Outcome) error {
	switch {
	case t.Kind == KindTool && out.Result == nil:
		return errors.New("a tool ends with Textf, Structured or Finish")
	case t.Kind == KindPrompt && out.Messages == nil:
		return errors.New("a prompt ends with Messages")
	case t.Kind == KindResource && out.Contents == nil:
		return errors.New("a resource ends with Contents, or with an error if there is none")
	case t.Kind == KindTool && t.output != nil && !out.Result.IsError:
		return t.checkOutput(out.Result)
	}
	return nil
}

// checkOutput verifies a result against the tool's output schema. A result that
// reports an error need not fit (MCP, server/tools, output schema).
func (t *Program) checkOutput(r *content.Result) error {
	if r.StructuredContent == nil {
		return errors.New("the tool has an output schema, so its result needs structured content: end with Structured")
	}
	if err := t.output.Validate(r.StructuredContent); err != nil {
		return fmt.Errorf("the structured content does not fit the tool's output schema: %w", err)
	}
	return nil
}

// errorResult is a failure that the caller may read.
func errorResult(text string) *content.Result {
	return &content.Result{Content: content.Blocks{content.Text{Text: text}}, IsError: true}
}

// explain turns an error of a step function into what the caller reads. ok is
// false if the error is none of the caller's business.
func explain(err error) (text string, ok bool) {
	if te := (*ToolError)(nil); errors.As(err, &te) {
		return te.Text, true
	}
	if ae := (*ArgumentsError)(nil); errors.As(err, &ae) {
		return fmt.Sprintf("The arguments do not fit the tool %q: %v", ae.Name, ae.Err), true
	}
	var se *steps.StepError
	if !errors.As(err, &se) {
		return "", false
	}
	var ce *steps.ClientError
	switch {
	case errors.Is(se.Err, steps.ErrDeclined):
		return fmt.Sprintf("Stopped: %q was declined.", se.StepID), true
	case errors.Is(se.Err, steps.ErrCancelled):
		return fmt.Sprintf("Stopped: %q was cancelled.", se.StepID), true
	case errors.Is(se.Err, steps.ErrTimeout):
		return fmt.Sprintf("Stopped: %q has not happened in time.", se.StepID), true
	case errors.As(se.Err, &ce):
		// Only the code: the message is the client's own, it has it already.
		return fmt.Sprintf("Stopped: %q could not be performed (error %d).", se.StepID, ce.Code), true
	}
	return "", false
}
